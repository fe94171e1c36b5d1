#include "shared_memory.hpp"

#include <sys/mman.h>

#include <utility>

namespace gantry::bench {

Result<SharedMemory> SharedMemory::create(Bytes size) {
  void* const memory =
      ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return Unexpected(system_error("shared memory"));
  ::madvise(memory, size, MADV_HUGEPAGE);  // as Gantry does with its own
  return SharedMemory(ByteSpan(static_cast<std::byte*>(memory), size));
}

SharedMemory::SharedMemory(SharedMemory&& other) noexcept
    : bytes_(std::exchange(other.bytes_, {})) {}

SharedMemory::~SharedMemory() {
  if (!bytes_.empty()) ::munmap(bytes_.data(), bytes_.size());
}

}  // namespace gantry::bench
