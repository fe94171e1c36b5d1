#pragma once  // decision/row_filter.hpp: which rows are surely too far from a query, many at a
              // time.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace gantry::decision {

/// Rows of `f32` as long as `query`, whose groups have bounds (two codes, as in planes).
/// A row is kept unless its squared distance from the query surely is above the limit. Sums are of
/// floats; what their rounding may amount to is added to the limit.
class RowFilter {
 public:
  /// `group`: elements of each; a multiple of 8 that divides the query, which is finite.
  RowFilter(std::span<const float> query, std::size_t group);

  /// Infinity, before it is set: then all are kept.
  void set_limit(double limit) noexcept;
  [[nodiscard]] std::size_t row_bounds_bytes() const noexcept { return table_.signs.size() * 4; }
  /// Numbers of rows are written to room for so many more than there are rows.
  static constexpr std::size_t kSlack = 16;

  /// Of `rows` rows, whose bounds are at `bounds`, the numbers of those that are to be kept,
  /// ascending; returns how many. Compares the bounds with what is known of the query's groups.
  std::size_t keep_roughly(std::uint32_t* kept, const std::byte* bounds,
                           std::uint32_t rows) const noexcept;
  /// Of those rows the ones that are still kept if each element of the query is compared.
  std::size_t keep(std::uint32_t* rows, std::size_t count, const std::byte* bounds) const noexcept;
  /// Numbers that say nothing but which of the rows are probably nearer.
  void guess(float* distances, const std::byte* bounds, std::uint32_t rows) const noexcept;

  /// The first planes of a row: the highest byte of each element's code, the next one, and so on.
  struct Planes {
    std::array<const std::byte*, 4> bytes{};
    unsigned count = 0;         ///< Of them.
    std::uint32_t unknown = 0;  ///< The digits of a code that are in none.
  };
  enum class Verdict : std::uint8_t {
    keep,
    drop,
    contradiction  ///< Perhaps: the bounds of a group rule out one of its elements.
  };
  /// A row by the planes of its first `known` elements (whole groups) and their bounds.
  [[nodiscard]] Verdict compare(const Planes& planes, std::size_t known,
                                const std::byte* bounds) const noexcept;

  /// What the loops read. Of each of a row's bounds, which are the least and the largest of a group
  /// in turn: its sign, and what is subtracted from it then, so that what is left is above 0 if the
  /// bound is on the far side.
  struct Table {
    std::size_t width, group;
    std::vector<float> query;
    std::vector<float> signs;
    std::vector<float> lower, upper;  ///< The means of the query's lower and upper half of a group.
    std::vector<float> each;          ///< Element by element of a group.
  };

 private:
  [[nodiscard]] float raised(double limit) const noexcept;

  Table table_;
  float limit_, rough_limit_;
};

}  // namespace gantry::decision
