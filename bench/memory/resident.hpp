#pragma once  // bench/memory/resident.hpp: buffers as a heap gives them again.

#include <array>
#include <bit>
#include <vector>

#include "../support/system/mapping.hpp"

namespace gantry::bench {

/// Buffers that are resident already, as an application finds them again that allocates from a
/// heap: the one given back last comes first. For one thread; keeps all it ever made.
class ResidentBuffers {
 public:
  /// At least `size` bytes; null when there is no more memory. Give it back with the same size.
  [[nodiscard]] std::byte* take(Bytes size) {
    std::vector<std::byte*>& free = free_[rank(size)];
    if (free.empty()) return slow_take(size);
    std::byte* const buffer = free.back();
    free.pop_back();
    return buffer;
  }
  void give(std::byte* buffer, Bytes size) { free_[rank(size)].push_back(buffer); }

 private:
  static std::size_t rank(Bytes size) noexcept {
    return static_cast<std::size_t>(std::bit_width(size - 1));
  }
  std::byte* slow_take(Bytes size);
  std::array<std::vector<std::byte*>, 64> free_;
  std::vector<Mapping> all_;
};

}  // namespace gantry::bench
