#pragma once  // schedule/tiles.hpp: what the elements of a tensor are, rectangle by rectangle.

#include <map>

#include "schedule/plan.hpp"

namespace gantry {

/// A term with its matrices by number. Of a rectangle's elements, wherever they lie: (i, j) counts
/// from the tensor's own corner.
struct Term {
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  std::uint32_t left = kNone;
  std::uint32_t right = kNone;  // none: no product
  std::int64_t row = 0;
  std::int64_t col = 0;
  std::int64_t first = 0;
  std::int64_t last = 0;

  [[nodiscard]] bool is_product() const noexcept { return right != kNone; }
  /// The same elements of the same matrices; of a product the sums may be over different parts.
  [[nodiscard]] bool is_alike(const Term& other) const noexcept {
    return left == other.left && right == other.right && row == other.row && col == other.col;
  }
  friend auto operator<=>(const Term&, const Term&) = default;
};

/// Terms in their order; those of a product that go on where another one ends are one.
using Terms = std::vector<Term>;

/// Adds what is not there yet. False: some of it counts already.
[[nodiscard]] bool add_terms(Terms& to, const Terms& more);
/// As seen from a corner that lies so much further on.
[[nodiscard]] Terms shifted(Terms terms, std::int64_t rows, std::int64_t cols);

[[nodiscard]] constexpr bool is_empty(const PlanRect& rect) noexcept {
  return rect.rows <= 0 || rect.cols <= 0;
}

/// Elements of which the same is known.
struct Tile {
  static constexpr std::uint32_t kNobody = ~std::uint32_t{0};
  PlanRect rect;
  std::optional<Terms> value;            // nothing: never written
  std::uint32_t writer = kNobody;        // the latest step that wrote
  std::vector<std::uint32_t> readers{};  // steps that have read since
};

/// A tensor of a rank, cut into rectangles as the steps need it: into bands of rows, and each band
/// into tiles.
///   I1  The tiles cover the tensor and do not overlap.
class Tiles {
 public:
  Tiles(std::int64_t rows, std::int64_t cols) {
    if (rows > 0 && cols > 0) bands_[0].emplace(0, Tile{{0, 0, rows, cols}, {}});
  }
  /// Cuts along the borders of `rect`, which lies within, and calls `what` with each tile in it.
  template <class What>
  [[nodiscard]] Result<void> each(const PlanRect& rect, What what) {
    if (is_empty(rect)) return {};
    cut_rows(rect.row);
    cut_rows(rect.row + rect.rows);
    const auto end = bands_.lower_bound(rect.row + rect.rows);
    for (auto band = bands_.lower_bound(rect.row); band != end; ++band) {
      cut_cols(band->second, rect.col);
      cut_cols(band->second, rect.col + rect.cols);
      const auto last = band->second.lower_bound(rect.col + rect.cols);
      for (auto tile = band->second.lower_bound(rect.col); tile != last; ++tile) {
        auto done = what(tile->second);
        if (!done) return done;
      }
    }
    return {};
  }

 private:
  using Band = std::map<std::int64_t, Tile>;  // by the first column

  void cut_rows(std::int64_t row);
  static void cut_cols(Band& band, std::int64_t col);

  std::map<std::int64_t, Band> bands_;  // by the first row
};

}  // namespace gantry
