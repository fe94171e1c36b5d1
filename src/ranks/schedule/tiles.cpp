#include "ranks/schedule/tiles.hpp"

#include <algorithm>

namespace gantry {
namespace {

constexpr std::string_view kFewer = "let its steps work on fewer and larger rectangles";

bool takes(std::size_t& from, std::size_t count) noexcept {
  if (count > from) return false;
  from -= count;
  return true;
}

}  // namespace

// ---- what it may cost ------------------------------------------------------------------------

Result<void> CheckBudget::take_tiles(std::size_t count) {
  if (takes(tiles, count)) return {};
  return fail(Code::too_large, "the plan's tensors are cut into too many rectangles",
              fmt::format("{}; a check follows {} of them", kFewer, kMostTiles));
}

Result<void> CheckBudget::take_looks(std::size_t count) {
  if (takes(looks, count)) return {};
  return fail(Code::too_large, "the plan takes too long to be checked",
              fmt::format("{}; a check looks at them {} times", kFewer, kMostLooks));
}

Result<void> CheckBudget::take_terms(std::size_t count) {
  if (count > kMostTermsOfSum)
    return fail(Code::too_large,
                fmt::format("a sum of {} terms, beyond {}", count, kMostTermsOfSum));
  if (takes(terms, count)) return {};
  return fail(Code::too_large, "the plan's sums have too many terms",
              fmt::format("a check makes {} of them in all", kMostTermsMade));
}

// ---- sums ------------------------------------------------------------------------------------

tl::expected<Terms, Term> joined(Terms terms) {
  if (!std::ranges::is_sorted(terms)) std::ranges::sort(terms);
  std::size_t count = 0;
  for (const Term& term : terms) {
    Term* const previous = count > 0 ? &terms[count - 1] : nullptr;
    if (previous == nullptr || !previous->is_alike(term)) {
      terms[count++] = term;
      continue;
    }
    if (!term.is_product() || term.first < previous->last) return tl::unexpected(term);
    if (term.first == previous->last)
      previous->last = term.last;
    else
      terms[count++] = term;
  }
  terms.resize(count);
  return terms;
}

Terms shifted(Terms terms, std::int64_t rows, std::int64_t cols) {
  for (Term& term : terms) {
    term.row += rows;
    term.col += cols;
  }
  return terms;
}

// ---- tiles -----------------------------------------------------------------------------------

Result<Tiles::Bands::iterator> Tiles::cut_rows(std::int64_t row, CheckBudget& budget) {
  auto next = bands_.lower_bound(row);
  if (next == bands_.begin() || (next != bands_.end() && next->first == row)) return next;
  const auto band = std::prev(next);
  const PlanRect& any = band->second.begin()->second.rect;
  if (any.row + any.rows <= row) return next;
  GANTRY_TRY(budget.take_tiles(band->second.size()));
  for (const auto& [col, tile] : band->second) GANTRY_TRY(budget.take_looks(tile.readers.size()));
  Band below = band->second;
  for (auto& [col, tile] : below) {
    tile.rect.rows -= row - tile.rect.row;
    tile.rect.row = row;
  }
  for (auto& [col, tile] : band->second) tile.rect.rows = row - tile.rect.row;
  return bands_.emplace_hint(next, row, std::move(below));
}

Result<Tiles::Band::iterator> Tiles::cut_cols(Band& band, std::int64_t col, CheckBudget& budget) {
  const auto next = band.lower_bound(col);
  if (next == band.begin() || (next != band.end() && next->first == col)) return next;
  const auto tile = std::prev(next);
  GANTRY_TRY(cut_tile(band, tile, col, budget));
  return std::next(tile);
}

Result<void> Tiles::cut_tile(Band& band, Band::iterator tile, std::int64_t col,
                             CheckBudget& budget) {
  PlanRect& whole = tile->second.rect;
  if (whole.col + whole.cols <= col) return {};
  GANTRY_TRY(budget.take_tiles(1));
  GANTRY_TRY(budget.take_looks(tile->second.readers.size()));
  Tile beside = tile->second;
  beside.rect.cols -= col - whole.col;
  beside.rect.col = col;
  whole.cols = col - whole.col;
  band.emplace_hint(std::next(tile), col, std::move(beside));
  return {};
}

}  // namespace gantry
