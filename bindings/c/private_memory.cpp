#include "private_memory.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

namespace gantry::c {

PrivateMemory::~PrivateMemory() {
  if (!mapping_.empty()) ::munmap(mapping_.data(), mapping_.size());
}

// Maps `size` bytes from `offset` on, which need not be that of a page.
Result<PrivateMemory> PrivateMemory::map(Bytes size, int flags, int descriptor, Bytes offset) {
  const Bytes before = offset % static_cast<Bytes>(::sysconf(_SC_PAGESIZE));
  void* const begin = ::mmap(nullptr, before + size, PROT_READ | PROT_WRITE, MAP_PRIVATE | flags,
                             descriptor, static_cast<off_t>(offset - before));
  if (begin == MAP_FAILED)
    return fail(errno == ENOMEM ? Code::out_of_memory : Code::system,
                "a private view of " + std::to_string(size) +
                    " bytes: " + std::generic_category().message(errno));
  auto* const bytes = static_cast<std::byte*>(begin);
  return PrivateMemory({bytes, before + size}, bytes + before);
}

Result<PrivateMemory> PrivateMemory::of(const Message& message, ConstByteSpan bytes) {
  if (bytes.empty()) return PrivateMemory({}, nullptr);
  if (bytes.size() >= kLeastMapped && message.owner() != nullptr)
    if (const auto slice = message.owner()->where(message.token(), bytes);
        slice && slice->region && slice->region->descriptor() >= 0)
      // Reserved huge pages refuse an offset within one; then it is copied, as the rest below.
      if (auto mapped =
              map(bytes.size(), MAP_NORESERVE, slice->region->descriptor(), slice->offset))
        return mapped;
  GANTRY_C_ASSIGN(PrivateMemory copy, map(bytes.size(), MAP_ANONYMOUS, -1, 0));
  std::memcpy(copy.data(), bytes.data(), bytes.size());
  return copy;
}

}  // namespace gantry::c
