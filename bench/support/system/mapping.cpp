#include "mapping.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include "posix.hpp"

namespace gantry::bench {

Result<Mapping> Mapping::create(const char* what, Bytes size, int flags, int file) {
  void* const memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, flags, file, 0);
  if (memory == MAP_FAILED)
    return Unexpected(system_error(fmt::format("{}: {} bytes", what, size)));
  Mapping mapping;
  mapping.bytes_ = {static_cast<std::byte*>(memory), size};
  return mapping;
}

Result<Mapping> Mapping::resident(Bytes size) {
  return create("mapping", size, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1);
}

Result<Mapping> Mapping::untouched(Bytes size) {
  return create("mapping", size, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
}

Result<Mapping> Mapping::shared(Bytes size) {
  auto mapping = create("shared memory", size, MAP_SHARED | MAP_ANONYMOUS, -1);
  if (mapping) ::madvise(mapping->bytes().data(), size, MADV_HUGEPAGE);
  return mapping;
}

Result<Mapping> Mapping::of_file(int file, Bytes size) {
  return create("mapping a file", size, MAP_SHARED, file);
}

Result<Mapping> Mapping::private_of_file(int file, Bytes size) {
  return create("mapping a file", size, MAP_PRIVATE, file);
}

Mapping::~Mapping() {
  if (!bytes_.empty()) ::munmap(bytes_.data(), bytes_.size());
}

}  // namespace gantry::bench
