#include "resident.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <utility>

#include "../support/system/posix.hpp"

namespace gantry::bench {

Result<Mapping> Mapping::create(Bytes size) {
  void* const memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (memory == MAP_FAILED) return Unexpected(system_error(fmt::format("mapping {} bytes", size)));
  return Mapping({static_cast<std::byte*>(memory), size});
}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

Mapping::~Mapping() {
  if (!bytes_.empty()) ::munmap(bytes_.data(), bytes_.size());
}

std::byte* ResidentBuffers::slow_take(Bytes size) {
  auto memory = Mapping::create(std::bit_ceil(size));
  if (!memory) return nullptr;
  all_.push_back(std::move(*memory));
  return all_.back().bytes().data();
}

}  // namespace gantry::bench
