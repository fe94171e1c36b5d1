#pragma once  // base/os/memfd.hpp: anonymous shared memory and the seals that make it safe to
              // share.

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "core/base/os/fd.hpp"
#include "core/base/os/file_size.hpp"
#include "core/base/result.hpp"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

namespace gantry {

/// Nobody can resize it or add seals.
inline constexpr int kSizeSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

/// Explains why the kernel refused a memfd or its seals: an old kernel, or a container's profile.
[[nodiscard]] inline tl::unexpected<Error> fail_memfd(std::string_view what, int error) {
  if (error != ENOSYS && error != EPERM && error != EINVAL) return fail_errno(what, error);
  return fail_errno(what, error,
                    "Linux 5.1 or newer is needed, and in a container a seccomp profile that "
                    "allows memfd_create() and its seals");
}

[[nodiscard]] inline Result<Fd> make_memfd(std::string_view name, Bytes size, unsigned flags = 0) {
  Fd memory(::memfd_create(std::string(name).c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING | flags));
  if (!memory) return fail_memfd(fmt::format("memfd {}", name), errno);
  GANTRY_TRY(set_file_size(memory.get(), size, fmt::format("memfd {} of {} bytes", name, size)));
  return memory;
}

/// Checks that a descriptor from another process is sealed at least like `seals`. Returns its size,
/// which then cannot change.
[[nodiscard]] inline Result<Bytes> check_sealed(int descriptor, int seals) {
  const int got = ::fcntl(descriptor, F_GET_SEALS);
  if (got < 0 || (got & seals) != seals)
    return fail(Code::peer_misbehaved,
                "the other process sent memory that it could still change "
                "under us (seals are missing)");
  struct stat facts{};
  if (::fstat(descriptor, &facts) != 0) return fail_errno("fstat");
  return static_cast<Bytes>(facts.st_size);
}

/// Seals for good; with F_SEAL_SEAL nothing more can be sealed afterwards.
[[nodiscard]] inline Result<void> seal(int descriptor, int seals) {
  if (::fcntl(descriptor, F_ADD_SEALS, seals) == 0) return {};
  return fail_memfd("sealing shared memory", errno);
}

/// Writes without mapping. All bytes must lie within its size.
[[nodiscard]] inline Result<void> write_at(int descriptor, ConstByteSpan bytes, Bytes offset) {
  while (!bytes.empty()) {
    const ssize_t count =
        ::pwrite(descriptor, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EFAULT)
      return fail(Code::invalid_argument, "a payload that cannot be read",
                  "it must stay mapped, and its file as long, until it was sent");
    if (count <= 0) return fail_errno("writing shared memory", count < 0 ? errno : ENOSPC);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    offset += static_cast<Bytes>(count);
  }
  return {};
}

[[nodiscard]] inline tl::unexpected<Error> wrong_size(Bytes announced, Bytes sent) {
  return fail(
      Code::peer_misbehaved,
      fmt::format("the other process announced {} bytes of memory and sent {}", announced, sent));
}

}  // namespace gantry
