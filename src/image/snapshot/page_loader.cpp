#include "image/snapshot/page_loader.hpp"

#include <algorithm>

#include "base/event.hpp"
#include "base/result.hpp"
#include "image/snapshot/tables.hpp"

namespace gantry::snapshot {
namespace {

constexpr std::uint64_t kChunkPages = kImageChunkBytes / kPageBytes;
constexpr std::size_t kAhead = 2;  // a page out of turn waits behind what is under way

}  // namespace

PageLoader::PageLoader(const Image& image, const Memory& memory, PageMap map,
                       const RestoreOptions& options)
    : LoadJob(image, options.deadline),
      memory_(memory),
      map_(std::move(map)),
      options_(options),
      is_taken_(chunks.size()),
      is_there_(chunks.size()) {
  for (const Part part : {Part::first, Part::rest}) {
    const ImagePartition& partition = partitions[partition_of(part)];
    for (std::size_t i = 0; i < partition.chunks; ++i) order_.push_back(partition.first_chunk + i);
    if (part == Part::first) first_chunks_ = order_.size();
  }
  report_.bytes = memory.pages() * kPageBytes;
  report_.first_bytes = map_.pages_of(Part::first) * kPageBytes;
  report_.zero_bytes = report_.bytes - report_.first_bytes - map_.pages_of(Part::rest) * kPageBytes;
}

PageLoader::~PageLoader() {
  stop();
}

Result<void> PageLoader::start(const Image& image, FaultSource* faults, int over) {
  faults_ = faults;
  over_ = over;
  GANTRY_ASSIGN(report_.way, open_file(image));
  GANTRY_TRY(LoadJob::start({.file_io = options_.file_io,
                             .pool = {},
                             .workers = options_.workers,
                             .has_places = false,
                             .ahead = kAhead,
                             .urgent = faults != nullptr},
                            order_));
  const std::lock_guard lock(mutex_);
  report_.workers = static_cast<unsigned>(workers.size());
  return {};
}

void PageLoader::stop() noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (!error_ && there_ < order_.size())
      error_ = Error{Code::interrupted, path + ": its snapshot is gone", {}};
  }
  cancel_lanes();
  urged_.notify_all();
  join();
}

std::optional<std::size_t> PageLoader::take(std::size_t worker) {
  std::unique_lock lock(mutex_);
  const bool takes_only_urgent = faults_ != nullptr && worker + 1 == workers.size();
  while (takes_only_urgent && urgent_.empty() && !error_ && taken_ < order_.size())
    urged_.wait(lock);
  if (error_ || taken_ == order_.size()) return std::nullopt;  // P4
  std::size_t chunk = 0;
  if (!urgent_.empty()) {
    chunk = urgent_.front();
    urgent_.pop_front();
    ++report_.out_of_turn;
  } else {
    while (is_taken_[order_[next_]]) ++next_;
    chunk = order_[next_];
  }
  is_taken_[chunk] = true;  // P1
  if (++taken_ == order_.size()) urged_.notify_all();
  return chunk;
}

PageLoader::Place PageLoader::place_of_chunk(std::size_t chunk) const noexcept {
  const ImagePartition& rest = partitions[partition_of(Part::rest)];
  const Part part = rest.chunks > 0 && chunk >= rest.first_chunk ? Part::rest : Part::first;
  const std::uint64_t at = (chunk - partitions[partition_of(part)].first_chunk) * kChunkPages;
  return {part, at, chunks[chunk].raw_bytes / kPageBytes};
}

std::size_t PageLoader::chunk_of(PageMap::Place place) const noexcept {
  return partitions[partition_of(place.part)].first_chunk + place.at / kChunkPages;
}

Result<void> PageLoader::make_pages(std::size_t chunk, ConstByteSpan raw) {
  const Place place = place_of_chunk(chunk);
  const bool maps = faults_ != nullptr && !leaves_unmapped_.load(std::memory_order_relaxed);
  for (const Run& run : map_.runs_of(place.part, place.at, place.pages)) {
    const ConstByteSpan bytes =
        raw.subspan((run.at - place.at) * kPageBytes, run.pages * kPageBytes);
    if (maps)
      GANTRY_TRY(faults_->copy(run.page * kPageBytes, bytes));
    else
      GANTRY_TRY(memory_.write(run.page, bytes));
  }
  return {};
}

// Returns pages of the chunk that somebody waits for.
std::vector<std::uint64_t> PageLoader::mark(std::size_t chunk) {
  const std::lock_guard lock(mutex_);
  if (error_) return {};
  is_there_[chunk] = true;  // P2
  report_.loaded_bytes += chunks[chunk].raw_bytes;
  report_.stored_bytes += chunks[chunk].stored_bytes;
  const auto now = std::chrono::steady_clock::now() - began_;
  if (place_of_chunk(chunk).part == Part::first && ++first_there_ == first_chunks_)
    report_.until_working_set = now;
  if (++there_ == order_.size()) report_.elapsed = now;
  const auto here = std::ranges::partition(
      waiting_, [&](std::uint64_t page) { return chunk_of(*map_.find(page)) != chunk; });
  std::vector<std::uint64_t> woken(here.begin(), here.end());
  waiting_.erase(here.begin(), here.end());
  return woken;  // P3
}

Result<void> PageLoader::there(std::size_t chunk, ConstByteSpan raw, std::chrono::nanoseconds,
                               std::chrono::nanoseconds) {
  GANTRY_TRY(make_pages(chunk, raw));
  Result<void> mapped;
  for (const std::uint64_t page : mark(chunk))
    if (mapped) mapped = faults_->map(page * kPageBytes, kPageBytes);
  moved_.notify_all();
  const bool is_over = is_whole();
  if (over_ >= 0 && is_over) ring(over_);
  // When all is there the watching may have ended meanwhile: whoever waits was woken by that.
  return is_over ? Result<void>() : mapped;
}

void PageLoader::end(Error error) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (error_ || there_ == order_.size()) return;
    error_ = std::move(error);
    report_.elapsed = std::chrono::steady_clock::now() - began_;
  }
  cancel_lanes();
  if (faults_ != nullptr) poison();
  moved_.notify_all();
  urged_.notify_all();
}

// P4. Chunks whose pages are being made meanwhile were checked: either is right.
void PageLoader::poison() {
  for (const std::size_t chunk : order_) {
    {
      const std::lock_guard lock(mutex_);
      if (is_there_[chunk]) continue;
    }
    const Place place = place_of_chunk(chunk);
    for (const Run& run : map_.runs_of(place.part, place.at, place.pages))
      faults_->poison(run.page * kPageBytes, run.pages * kPageBytes);
  }
}

PageLoader::Answer PageLoader::touched(std::uint64_t page) {
  const auto place = map_.find(page);
  if (!place) return Answer::map;
  const std::size_t chunk = chunk_of(*place);
  const std::lock_guard lock(mutex_);
  if (is_there_[chunk]) return Answer::map;
  if (error_) return Answer::never;
  waiting_.push_back(page);  // P3
  if (!is_taken_[chunk] && std::ranges::find(urgent_, chunk) == urgent_.end()) {
    urgent_.push_back(chunk);
    urged_.notify_all();
  }
  return Answer::wait;
}

Result<void> PageLoader::wait(What what, Deadline deadline) {
  std::unique_lock lock(mutex_);
  while (!has(what) && !error_) {
    if (deadline.passed())
      return fail(Code::timed_out,
                  fmt::format("{}: {} of {} chunks were there when time was up", path, there_,
                              order_.size()),
                  "allow more time");
    if (deadline.is_never())
      moved_.wait(lock);
    else
      moved_.wait_for(lock, deadline.left());
  }
  if (!has(what)) return tl::unexpected(*error_);
  return {};
}

bool PageLoader::is_whole() {
  const std::lock_guard lock(mutex_);
  return has(What::all);
}

std::optional<Error> PageLoader::error() {
  const std::lock_guard lock(mutex_);
  return error_;
}

void PageLoader::add_to(RestoreReport& report) {
  const std::lock_guard lock(mutex_);
  const RestoreReport given = std::exchange(report, report_);
  report.is_lazy = given.is_lazy;
  report.why_not_lazy = given.why_not_lazy;
  report.faults = given.faults;
  if (!error_ && there_ < order_.size()) report.elapsed = std::chrono::steady_clock::now() - began_;
}

}  // namespace gantry::snapshot
