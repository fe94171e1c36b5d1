#include "results_table.hpp"

#include <algorithm>
#include <cstdio>
#include <tuple>

namespace vision {
namespace {

constexpr std::string_view kHeader =
    "frame,x,y,mean_r,mean_g,mean_b,std_r,std_g,std_b,sharpness,people\n";

auto order(const TileResult& row) {
  return std::tuple(row.place.frame, row.place.y, row.place.x);
}

void append(std::string& text, const char* format, auto... values) {
  std::array<char, 160> part{};  // the longest finite float has 39 digits before its point
  std::snprintf(part.data(), part.size(), format, values...);
  text += part.data();
}

void append_row(std::string& text, const TileResult& row) {
  append(text, "%u,%u,%u", row.place.frame, unsigned{row.place.x}, unsigned{row.place.y});
  for (const auto value : row.mean) append(text, ",%.2f", double{value});
  for (const auto value : row.deviation) append(text, ",%.2f", double{value});
  append(text, ",%.3f,", double{row.sharpness});
  if (row.people != TileResult::kNotInspected) append(text, "%d", row.people);
  text += '\n';
}

}  // namespace

void ResultsTable::add(std::span<const TileResult> tiles) {
  rows_.insert(rows_.end(), tiles.begin(), tiles.end());
}

std::string ResultsTable::csv() const {
  auto sorted = rows_;
  std::sort(sorted.begin(), sorted.end(),
            [](const auto& a, const auto& b) { return order(a) < order(b); });
  std::string text(kHeader);
  for (const auto& row : sorted) append_row(text, row);
  return text;
}

}  // namespace vision
