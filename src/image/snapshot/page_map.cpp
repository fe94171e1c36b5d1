#include "image/snapshot/page_map.hpp"

#include <algorithm>

#include "base/result.hpp"

namespace gantry::snapshot {
namespace {

constexpr unsigned kPlaceBits = 32;
static_assert(kMostPages <= std::uint64_t{1} << kPlaceBits);

Result<void> check_run(std::uint64_t page, std::uint64_t count, std::uint64_t pages) {
  if (page >= pages || count > pages - page)
    return fail(Code::invalid_argument,
                count == 1 ? fmt::format("page {}: there are {} pages, from 0 on", page, pages)
                           : fmt::format("{} pages from {} on: there are {}", count, page, pages));
  return {};
}

std::uint64_t end_of(const PageMap::PageRun& run) noexcept {
  return run[0] + run[1];
}

}  // namespace

Result<PageMap> PageMap::make(std::uint64_t pages, std::span<const std::uint64_t> touched,
                              std::span<const PageRun> runs) {
  PageMap map;
  map.touched_ = touched;
  map.runs_ = runs;
  map.by_page_.reserve(touched.size());
  for (const std::uint64_t page : touched) {
    GANTRY_TRY(check_run(page, 1, pages));
    map.by_page_.push_back(page << kPlaceBits | map.by_page_.size());
  }
  map.run_at_.reserve(runs.size());
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const auto& [page, count] = runs[i];
    if (count == 0) return fail(Code::invalid_argument, fmt::format("0 pages from {} on", page));
    if (i != 0 && page < end_of(runs[i - 1]))
      return fail(Code::invalid_argument, fmt::format("page {} does not follow", page));
    GANTRY_TRY(check_run(page, count, pages));
    map.run_at_.push_back(static_cast<std::uint32_t>(map.rest_pages_));
    map.rest_pages_ += count;
  }
  std::ranges::sort(map.by_page_);
  GANTRY_TRY(map.check_once());
  return map;
}

Result<void> PageMap::check_once() const {
  auto run = runs_.begin();
  for (std::size_t i = 0; i < by_page_.size(); ++i) {
    const std::uint64_t page = by_page_[i] >> kPlaceBits;
    while (run != runs_.end() && end_of(*run) <= page) ++run;
    const bool is_in_run = run != runs_.end() && (*run)[0] <= page;
    if (is_in_run || (i != 0 && by_page_[i - 1] >> kPlaceBits == page))
      return fail(Code::invalid_argument, fmt::format("page {} is there twice", page));
  }
  return {};
}

std::optional<PageMap::Place> PageMap::find(std::uint64_t page) const noexcept {
  const auto touched = std::ranges::lower_bound(by_page_, page << kPlaceBits);
  if (touched != by_page_.end() && *touched >> kPlaceBits == page)
    return Place{Part::first, static_cast<std::uint32_t>(*touched)};
  const auto behind =
      std::ranges::upper_bound(runs_, page, {}, [](const PageRun& run) { return run[0]; });
  if (behind == runs_.begin() || end_of(*std::prev(behind)) <= page) return std::nullopt;
  const auto run = static_cast<std::size_t>(std::prev(behind) - runs_.begin());
  return Place{Part::rest, run_at_[run] + (page - runs_[run][0])};
}

std::vector<Run> PageMap::runs_of(Part part, std::uint64_t at, std::uint64_t pages) const {
  std::vector<Run> found;
  const std::uint64_t end = at + std::min(pages, pages_of(part) - at);
  if (part == Part::first) {
    for (std::uint64_t place = at; place < end; ++place) {
      if (found.empty() || found.back().page + found.back().pages != touched_[place])
        found.push_back({touched_[place], 0, place});
      ++found.back().pages;
    }
    return found;
  }
  auto run = static_cast<std::size_t>(std::ranges::upper_bound(run_at_, at) - run_at_.begin());
  for (run -= run == 0 ? 0 : 1; run < runs_.size() && run_at_[run] < end; ++run) {
    const std::uint64_t begin = std::max<std::uint64_t>(run_at_[run], at);
    const std::uint64_t behind = std::min(run_at_[run] + runs_[run][1], end);
    found.push_back({runs_[run][0] + (begin - run_at_[run]), behind - begin, begin});
  }
  return found;
}

}  // namespace gantry::snapshot
