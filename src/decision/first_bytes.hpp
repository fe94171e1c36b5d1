#pragma once  // decision/first_bytes.hpp: a whole plane of bytes at a glance.

#include <array>
#include <cstddef>
#include <span>
#include <vector>

namespace gantry::decision {

/// How often each byte is there.
[[nodiscard]] std::array<std::size_t, 256> count_bytes(std::span<const std::byte> bytes) noexcept;
/// Where the bytes are that are `least` or more, ascending.
[[nodiscard]] std::vector<std::size_t> places_of(std::span<const std::byte> bytes, unsigned least);

}  // namespace gantry::decision
