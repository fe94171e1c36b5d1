#include "decision/first_bytes.hpp"

#include <algorithm>

namespace gantry::decision {

// In four tables: a byte is often followed by the same one, whose count would have to be waited
// for.
std::array<std::size_t, 256> count_bytes(std::span<const std::byte> bytes) noexcept {
  std::array<std::array<std::size_t, 256>, 4> tables{};
  for (std::size_t i = 0; i < bytes.size(); ++i)
    ++tables[i % 4][std::to_integer<std::size_t>(bytes[i])];
  for (std::size_t byte = 0; byte < 256; ++byte)
    for (std::size_t table = 1; table < 4; ++table) tables[0][byte] += tables[table][byte];
  return tables[0];
}

std::vector<std::size_t> places_of(std::span<const std::byte> bytes, unsigned least) {
  constexpr std::size_t kAtOnce = 64;  // the compiler makes vectors of their comparison
  std::vector<std::size_t> places;
  for (std::size_t first = 0; first < bytes.size(); first += kAtOnce) {
    const auto some = bytes.subspan(first, std::min(kAtOnce, bytes.size() - first));
    std::byte largest{};
    for (const std::byte each : some) largest = std::max(largest, each);
    if (std::to_integer<unsigned>(largest) < least) continue;
    for (std::size_t i = 0; i < some.size(); ++i)
      if (std::to_integer<unsigned>(some[i]) >= least) places.push_back(first + i);
  }
  return places;
}

}  // namespace gantry::decision
