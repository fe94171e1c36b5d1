#include "suggest.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

namespace gantry::run {
namespace {

/// Levenshtein's distance: insertions, deletions and replacements of one character.
std::size_t edits(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, diagonal + 1, row[j] + 1});
    }
  }
  return row[b.size()];
}

}  // namespace

std::string suggest(std::string_view word, const std::vector<std::string>& known) {
  if (known.empty()) return "there are none";
  const auto nearest = std::ranges::min_element(
      known, {}, [word](const std::string& candidate) { return edits(word, candidate); });
  // A third of the letters wrong is a slip; more is another word.
  if (edits(word, *nearest) <= std::max<std::size_t>(1, word.size() / 3))
    return fmt::format("did you mean '{}'?", *nearest);
  return fmt::format("known here: {}", fmt::join(known, ", "));
}

}  // namespace gantry::run
