#include "schedule/tiles.hpp"

#include <algorithm>

namespace gantry {

bool add_terms(Terms& to, const Terms& more) {
  for (Term term : more) {
    const auto clashes = [&term](const Term& there) {
      return there.is_alike(term) &&
             (!term.is_product() || (there.first < term.last && term.first < there.last));
    };
    if (std::ranges::any_of(to, clashes)) return false;
    // A sum that goes on where another one ends is one sum.
    for (const bool behind : {true, false}) {
      const auto next = std::ranges::find_if(to, [&](const Term& there) {
        return there.is_alike(term) && term.is_product() &&
               (behind ? there.last == term.first : there.first == term.last);
      });
      if (next == to.end()) continue;
      term.first = std::min(term.first, next->first);
      term.last = std::max(term.last, next->last);
      to.erase(next);
    }
    to.insert(std::ranges::upper_bound(to, term), term);
  }
  return true;
}

Terms shifted(Terms terms, std::int64_t rows, std::int64_t cols) {
  for (Term& term : terms) {
    term.row += rows;
    term.col += cols;
  }
  return terms;
}

void Tiles::cut_rows(std::int64_t row) {
  auto band = bands_.upper_bound(row);
  if (band == bands_.begin()) return;
  --band;
  const PlanRect& any = band->second.begin()->second.rect;
  if (any.row == row || any.row + any.rows <= row) return;
  Band below = band->second;
  for (auto& [col, tile] : below) {
    tile.rect.rows -= row - tile.rect.row;
    tile.rect.row = row;
  }
  for (auto& [col, tile] : band->second) tile.rect.rows = row - tile.rect.row;
  bands_.emplace(row, std::move(below));
}

void Tiles::cut_cols(Band& band, std::int64_t col) {
  auto tile = band.upper_bound(col);
  if (tile == band.begin()) return;
  --tile;
  PlanRect& whole = tile->second.rect;
  if (whole.col == col || whole.col + whole.cols <= col) return;
  Tile beside = tile->second;
  beside.rect.cols -= col - whole.col;
  beside.rect.col = col;
  whole.cols = col - whole.col;
  band.emplace(col, std::move(beside));
}

}  // namespace gantry
