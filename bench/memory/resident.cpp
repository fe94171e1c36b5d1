#include "resident.hpp"

namespace gantry::bench {

std::byte* ResidentBuffers::slow_take(Bytes size) {
  auto memory = Mapping::resident(std::bit_ceil(size));
  if (!memory) return nullptr;
  all_.push_back(std::move(*memory));
  return all_.back().bytes().data();
}

}  // namespace gantry::bench
