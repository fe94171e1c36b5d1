#pragma once  // schedule/tiles.hpp: what the elements of a tensor are, rectangle by rectangle.

#include <map>
#include <memory>

#include "core/base/result.hpp"
#include "ranks/schedule/plan.hpp"

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
/// Tiles share what they have in common. Null: never written.
using SharedTerms = std::shared_ptr<const Terms>;

/// What a check may still do, so that no plan costs more than this.
struct CheckBudget {
  std::size_t tiles = kMostTiles;
  std::size_t looks = kMostLooks;      // at a tile, at those who read it, at a pair of factors
  std::size_t terms = kMostTermsMade;  // that sums are made of

  [[nodiscard]] Result<void> take_tiles(std::size_t count);
  [[nodiscard]] Result<void> take_looks(std::size_t count);
  /// For one sum of so many.
  [[nodiscard]] Result<void> take_terms(std::size_t count);
};

/// The terms in their order, joined where they go on. One that counts twice: that one instead.
[[nodiscard]] tl::expected<Terms, Term> joined(Terms terms);
/// As seen from a corner that lies so much further on.
[[nodiscard]] Terms shifted(Terms terms, std::int64_t rows, std::int64_t cols);

/// Elements of which the same is known.
struct Tile {
  static constexpr std::uint32_t kNobody = ~std::uint32_t{0};
  PlanRect rect;
  SharedTerms value{};
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
  [[nodiscard]] Result<void> each(const PlanRect& rect, CheckBudget& budget, What what) {
    if (is_empty(rect)) return {};
    GANTRY_ASSIGN(auto band, cut_rows(rect.row, budget));
    GANTRY_TRY(cut_rows(rect.row + rect.rows, budget));
    const std::int64_t end = rect.col + rect.cols;
    for (; band != bands_.end() && band->first < rect.row + rect.rows; ++band) {
      GANTRY_ASSIGN(auto tile, cut_cols(band->second, rect.col, budget));
      for (; tile != band->second.end() && tile->first < end; ++tile) {
        GANTRY_TRY(cut_tile(band->second, tile, end, budget));
        GANTRY_TRY(budget.take_looks(1));
        GANTRY_TRY(what(tile->second));
      }
    }
    return {};
  }

 private:
  using Band = std::map<std::int64_t, Tile>;  // by the first column
  using Bands = std::map<std::int64_t, Band>;

  /// The band that begins there.
  [[nodiscard]] Result<Bands::iterator> cut_rows(std::int64_t row, CheckBudget& budget);
  /// The tile that begins there.
  [[nodiscard]] static Result<Band::iterator> cut_cols(Band& band, std::int64_t col,
                                                       CheckBudget& budget);
  /// Ends the tile there, if it goes on.
  [[nodiscard]] static Result<void> cut_tile(Band& band, Band::iterator tile, std::int64_t col,
                                             CheckBudget& budget);

  Bands bands_;  // by the first row
};

/// check_plan() with another budget than usual.
[[nodiscard]] Result<PlanFacts> check_plan(const Plan& plan, const PlanLimits& limits,
                                           const CheckBudget& budget);

}  // namespace gantry
