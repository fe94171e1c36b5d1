#include "tools/command_line/suggest.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace gantry::cli {
namespace {

/// How many slips lie between two words: letters added, left out, replaced, or swapped with their
/// neighbour (the distance of Damerau and Levenshtein, each part edited once).
std::size_t slips(std::string_view a, std::string_view b) {
  const std::size_t width = b.size() + 1;
  std::vector<std::size_t> table((a.size() + 1) * width);
  const auto at = [&](std::size_t i, std::size_t j) -> std::size_t& {
    return table[i * width + j];
  };
  for (std::size_t i = 0; i <= a.size(); ++i) at(i, 0) = i;
  for (std::size_t j = 0; j <= b.size(); ++j) at(0, j) = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = at(i - 1, j - 1) + (a[i - 1] == b[j - 1] ? 0 : 1);
      at(i, j) = std::min({replaced, at(i - 1, j) + 1, at(i, j - 1) + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        at(i, j) = std::min(at(i, j), at(i - 2, j - 2) + 1);
    }
  }
  return at(a.size(), b.size());
}

}  // namespace

std::string suggest_near(std::string_view word, const std::vector<std::string>& known) {
  if (known.empty()) return {};
  const auto nearest = std::ranges::min_element(
      known, {}, [word](const std::string& candidate) { return slips(word, candidate); });
  // A third of the letters wrong is a slip; more is another word.
  if (slips(word, *nearest) <= std::max<std::size_t>(1, word.size() / 3))
    return fmt::format("did you mean '{}'?", *nearest);
  return {};
}

std::string suggest(std::string_view word, const std::vector<std::string>& known) {
  if (known.empty()) return "there are none";
  const std::string near = suggest_near(word, known);
  return near.empty() ? fmt::format("known here: {}", fmt::join(known, ", ")) : near;
}

}  // namespace gantry::cli
