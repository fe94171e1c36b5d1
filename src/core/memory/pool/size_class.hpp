#pragma once  // memory/pool/size_class.hpp: the size that a block really gets.

#include <array>
#include <bit>
#include <gantry/memory.hpp>

namespace gantry {

// Capacities go in steps, so that another block can use what one leaves: multiples of 64 bytes to
// 256, then four steps to each power of two up to 64 KiB and sixteen above, and whole pages from a
// page on. At most a sixteenth of a large block is lost, and at worst half of one that is just
// above 64 bytes or a page.

inline constexpr Bytes kLine = 64;
inline constexpr Bytes kPage = Pool::kPageAlignment;
/// Up to this size every capacity is a class of its own; above, four classes to each power of two
/// hold capacities that are near each other.
inline constexpr Bytes kLargestExact = Bytes{64} << 10;
inline constexpr Bytes kLargestClass = Bytes{1} << 46;  // more than an address space holds

[[nodiscard]] constexpr Bytes round_up(Bytes size, Bytes grain) noexcept {
  return (size + grain - 1) & ~(grain - 1);  // grain: a power of two
}

/// The capacity for `size`, which is at least 1 and at most half the address space.
[[nodiscard]] constexpr Bytes capacity_for(Bytes size) noexcept {
  const Bytes power = std::bit_floor(size);
  const Bytes step = power / (size > kLargestExact ? 16 : 4);
  const Bytes least = size > kPage - kPage / 8 ? kPage : kLine;
  return round_up(size, step > least ? step : least);
}

/// The natural alignment of a capacity.
[[nodiscard]] constexpr Bytes alignment_of(Bytes capacity) noexcept {
  return capacity >= kPage ? kPage : kLine;
}

namespace detail {
// The class number of each multiple of 64 bytes, and the number of classes.
struct ClassTable {
  std::array<std::uint8_t, kLargestExact / kLine + 1> number{};
  std::array<std::uint32_t, 64> capacity{};
  unsigned count = 0;
};
consteval ClassTable make_class_table() {
  ClassTable table;
  for (Bytes size = kLine; size <= kLargestExact; size += kLine) {
    const Bytes capacity = capacity_for(size);
    if (table.count == 0 || table.capacity[table.count - 1] != capacity)
      table.capacity[table.count++] = static_cast<std::uint32_t>(capacity);
    table.number[size / kLine] = static_cast<std::uint8_t>(table.count - 1);
  }
  return table;
}
inline constexpr ClassTable kClassTable = make_class_table();

// Numbers follow those of the exact classes.
constexpr unsigned large_class_of(Bytes size) noexcept {
  const auto power = static_cast<unsigned>(std::bit_width(size)) - 1;
  const auto quarter = static_cast<unsigned>(size >> (power - 2)) & 3;
  const auto first = static_cast<unsigned>(std::bit_width(kLargestExact)) - 1;
  return kClassTable.count + (power - first) * 4 + quarter;
}
}  // namespace detail

inline constexpr unsigned kExactClasses = detail::kClassTable.count;
inline constexpr unsigned kClasses = detail::large_class_of(kLargestClass) + 1;
inline constexpr unsigned kNoClass = ~0u;

/// The class of a size of 1 to kLargestClass. An exact class is that of the size's capacity. The
/// pieces of another class have at least four fifths of `size`, and those of the next class are all
/// large enough.
[[nodiscard]] constexpr unsigned class_of(Bytes size) noexcept {
  return size <= kLargestExact ? detail::kClassTable.number[(size + kLine - 1) / kLine]
                               : detail::large_class_of(size);
}
/// For an exact class.
[[nodiscard]] constexpr Bytes class_capacity(unsigned number) noexcept {
  return detail::kClassTable.capacity[number];
}

}  // namespace gantry
