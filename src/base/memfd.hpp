#pragma once  // base/memfd.hpp: anonymous shared memory and the seals that make it safe to share.

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <string>

#include "base/fd.hpp"
#include "base/result.hpp"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

namespace gantry {

/// No resizing by anyone, and no new seals.
inline constexpr int kSizeSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

[[nodiscard]] inline Result<Fd> make_memfd(std::string_view name, Bytes size, unsigned flags = 0) {
  Fd memory(::memfd_create(std::string(name).c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING | flags));
  if (!memory) return fail_errno(fmt::format("memfd {}", name));
  if (::ftruncate(memory.get(), static_cast<off_t>(size)) != 0)
    return fail_errno(fmt::format("memfd {} of {} bytes", name, size));
  return memory;
}

/// A descriptor from another process: sealed at least like `seals`, and of exactly `size` bytes?
[[nodiscard]] inline Result<void> check_sealed(int descriptor, int seals, Bytes size) {
  const int got = ::fcntl(descriptor, F_GET_SEALS);
  if (got < 0 || (got & seals) != seals)
    return fail(Code::peer_misbehaved,
                "the other process sent memory that it could still change "
                "under us (seals are missing)");
  struct stat facts{};
  if (::fstat(descriptor, &facts) != 0) return fail_errno("fstat");
  if (facts.st_size < 0 || static_cast<Bytes>(facts.st_size) != size)
    return fail(Code::peer_misbehaved,
                fmt::format("the other process announced {} bytes of memory and sent {}", size,
                            facts.st_size));
  return {};
}

}  // namespace gantry
