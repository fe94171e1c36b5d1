#include "image/snapshot/page_map.hpp"

#include <algorithm>

#include "base/result.hpp"

namespace gantry::snapshot {
namespace {

std::uint64_t end_of(const std::vector<Run>& runs) noexcept {
  return runs.empty() ? 0 : runs.back().at + runs.back().pages;
}

Result<void> add(std::vector<Run>& runs, std::uint64_t page, std::uint64_t count,
                 std::uint64_t pages) {
  if (page >= pages || count > pages - page)
    return fail(Code::invalid_argument,
                fmt::format("page {} and {} more: there are {}", page, count - 1, pages));
  if (!runs.empty() && runs.back().page + runs.back().pages == page)
    runs.back().pages += count;
  else
    runs.push_back({page, count, end_of(runs)});
  return {};
}

}  // namespace

Result<PageMap> PageMap::make(std::uint64_t pages, const std::vector<std::uint64_t>& touched,
                              const std::vector<std::array<std::uint64_t, 2>>& runs) {
  PageMap map;
  auto& [first, rest] = map.runs_;
  for (const std::uint64_t page : touched) GANTRY_TRY(add(first, page, 1, pages));
  for (const auto& [page, count] : runs) {
    if (count == 0) return fail(Code::invalid_argument, fmt::format("0 pages from {} on", page));
    if (!rest.empty() && page < rest.back().page + rest.back().pages)
      return fail(Code::invalid_argument, fmt::format("page {} does not follow", page));
    GANTRY_TRY(add(rest, page, count, pages));
  }
  for (const Run& run : first) map.by_page_.push_back({run, Part::first});
  for (const Run& run : rest) map.by_page_.push_back({run, Part::rest});
  std::ranges::sort(map.by_page_, {}, [](const Known& known) { return known.run.page; });
  for (std::size_t i = 1; i < map.by_page_.size(); ++i) {
    const Run& before = map.by_page_[i - 1].run;
    if (const Run& run = map.by_page_[i].run; run.page < before.page + before.pages)
      return fail(Code::invalid_argument, fmt::format("page {} is there twice", run.page));
  }
  return map;
}

std::optional<PageMap::Place> PageMap::find(std::uint64_t page) const noexcept {
  const auto behind = std::ranges::upper_bound(by_page_, page, {},
                                               [](const Known& known) { return known.run.page; });
  if (behind == by_page_.begin()) return std::nullopt;
  const Known& known = *std::prev(behind);
  if (page - known.run.page >= known.run.pages) return std::nullopt;
  return Place{known.part, known.run.at + (page - known.run.page)};
}

std::uint64_t PageMap::pages_of(Part part) const noexcept {
  return end_of(runs(part));
}

std::vector<Run> PageMap::runs_of(Part part, std::uint64_t at, std::uint64_t pages) const {
  std::vector<Run> found;
  const std::vector<Run>& all = runs(part);
  auto run = std::ranges::upper_bound(all, at, {}, &Run::at);
  if (run != all.begin()) --run;
  for (; run != all.end() && run->at < at + pages; ++run) {
    const std::uint64_t begin = std::max(run->at, at);
    const std::uint64_t end = std::min(run->at + run->pages, at + pages);
    if (begin < end) found.push_back({run->page + (begin - run->at), end - begin, begin});
  }
  return found;
}

}  // namespace gantry::snapshot
