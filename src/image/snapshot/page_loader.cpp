#include "image/snapshot/page_loader.hpp"

#include <algorithm>

#include "base/crc32c.hpp"
#include "base/event.hpp"
#include "base/result.hpp"
#include "image/tables.hpp"

namespace gantry::snapshot {
namespace {

constexpr std::uint64_t kChunkPages = kImageChunkBytes / kPageBytes;
constexpr std::size_t kChunkGrains = kChunkPages / kGrainPages;
constexpr std::size_t kAhead = 2;
// So many times as long as its working set took the program is left alone, but only for such a part
// of what the rest will take.
constexpr double kAlone = 3, kMostAlone = 0.5;
// Of the rest each worker reads one such piece at a time: a page out of turn waits behind them.
constexpr Bytes kPieceBytes = Bytes{128} << 10;

std::size_t grains_of(const ImageChunk& chunk) noexcept {
  return (chunk.raw_bytes / kPageBytes + kGrainPages - 1) / kGrainPages;
}

}  // namespace

PageLoader::PageLoader(const Image& image, const Memory& memory, Checked tables,
                       const RestoreOptions& options)
    : LoadJob(image, options.deadline),
      memory_(memory),
      tables_(std::move(tables)),
      options_(options) {
  for (const Part part : {Part::first, Part::rest}) {
    const ImagePartition& partition = partitions[partition_of(part)];
    for (std::size_t i = 0; i < partition.chunks; ++i) {
      order_.push_back(partition.first_chunk + i);
      first_grain_.push_back(grains_);
      grains_ += grains_of(chunks[order_.back()]);
    }
    if (part == Part::first) first_grains_ = grains_, first_chunks_ = order_.size();
  }
  states_ = std::vector<std::atomic<std::uint8_t>>(grains_);
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
  std::shared_ptr<FileIo> io = options_.file_io;
  if (io == nullptr) {
    GANTRY_ASSIGN(io, make_plain_file_io());
  }
  if (faults != nullptr) GANTRY_TRY(fetcher_.emplace(*this).prepare(*io));
  GANTRY_TRY(LoadJob::start({.file_io = io,
                             .pool = {},
                             .workers = options_.workers,
                             .has_places = false,
                             .ahead = kAhead,
                             .reads_pieces = faults != nullptr},
                            order_));
  if (fetcher_) GANTRY_TRY(fetcher_->start());  // its errors cancel the workers' lanes
  const std::lock_guard lock(mutex_);
  report_.workers = static_cast<unsigned>(workers.size());
  return {};
}

void PageLoader::stop() noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (!error_ && !has(What::all))
      error_ = Error{Code::interrupted, path + ": its snapshot is gone", {}};
    has_ended_ = true;  // under the lock, or the fetcher would fall asleep behind it
  }
  cancel_lanes();
  if (fetcher_) fetcher_->cancel();
  urged_.notify_all();
  spared_.notify_all();
  join();
  if (fetcher_) fetcher_->join();
}

// Of the working set, which is read deeply, a CPU has work enough with one worker.
std::optional<std::size_t> PageLoader::take(std::size_t worker) {
  std::unique_lock lock(mutex_);
  const bool is_spare =
      faults_ != nullptr && options_.workers == 0 && worker >= (workers.size() + 1) / 2;
  while (is_spare && next_ < first_chunks_ && !has_ended_) spared_.wait(lock);
  if (next_ == first_chunks_) spared_.notify_all();
  if (has_ended_ || next_ == order_.size()) return std::nullopt;  // P4
  return order_[next_++];
}

Bytes PageLoader::piece_of(std::size_t chunk) const {
  const ImagePartition& rest = partitions[partition_of(Part::rest)];
  return faults_ != nullptr && chunk >= rest.first_chunk ? kPieceBytes : 0;
}

// The program has the machine for itself first, to use what it waited for: threads that make pages
// beside it slow it down even where they have a CPU of their own.
void PageLoader::begin_pieces() {
  std::unique_lock lock(mutex_);
  while (!has(What::working_set) && !has_ended_) spared_.wait(lock);
  const auto first = report_.until_working_set;
  const double rest = static_cast<double>(map_.pages_of(Part::rest)) /
                      static_cast<double>(std::max<std::uint64_t>(map_.pages_of(Part::first), 1));
  const auto alone = std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::min(kAlone, kMostAlone * rest) * first);
  const auto until = began_ + first + alone;
  const auto left = [&] {
    return std::min<std::chrono::nanoseconds>(until - std::chrono::steady_clock::now(),
                                              ends.left());
  };
  while (!wants_all_ && !has_ended_ && left().count() > 0) spared_.wait_for(lock, left());
}

// ---- grains

PageMap::Place PageLoader::place_of_grain(Grain grain) const noexcept {
  const ImagePartition& rest = partitions[partition_of(Part::rest)];
  const Part part = rest.chunks > 0 && grain.chunk >= rest.first_chunk ? Part::rest : Part::first;
  return {part, (grain.chunk - partitions[partition_of(part)].first_chunk) * kChunkPages +
                    grain.index * kGrainPages};
}

Grain PageLoader::grain_of(PageMap::Place place) const noexcept {
  return {partitions[partition_of(place.part)].first_chunk + place.at / kChunkPages,
          place.at % kChunkPages / kGrainPages};
}

std::uint64_t PageLoader::pages_of(Grain grain) const noexcept {
  return std::min(kGrainPages,
                  chunks[grain.chunk].raw_bytes / kPageBytes - grain.index * kGrainPages);
}

std::atomic<std::uint8_t>& PageLoader::state_of(Grain grain) noexcept {
  return states_[first_grain_[grain.chunk - order_.front()] + grain.index];
}

bool PageLoader::claim(Grain grain) noexcept {
  if (has_ended_) return false;                                 // P4
  return (state_of(grain).fetch_or(kClaimed) & kClaimed) == 0;  // P1
}

Result<void> PageLoader::check_pages(Grain grain, ConstByteSpan raw) const {
  const PageMap::Place place = place_of_grain(grain);
  const std::uint64_t before = place.part == Part::first ? 0 : map_.pages_of(Part::first);
  for (std::uint64_t i = 0; i < pages_of(grain); ++i) {
    const std::uint32_t crc = crc32c(raw.subspan(i * kPageBytes, kPageBytes));
    if (const std::uint32_t wanted = tables_.crcs[before + place.at + i]; crc != wanted)
      return fail(Code::invalid_argument,
                  fmt::format("{}: a page is not the one that was saved: its CRC is {:08x}, not "
                              "{:08x}",
                              image::chunk_place(path, grain.chunk, chunks[grain.chunk].offset),
                              crc, wanted),
                  "copy it again from where it came, or save it anew");
  }
  return {};
}

Result<void> PageLoader::make_pages(Grain grain, ConstByteSpan raw) {
  const PageMap::Place place = place_of_grain(grain);
  // What is recorded stays unmapped, so that the first touch raises a fault. To the end: a write
  // may have made pages around (of a huge one), which a copy would then take for those that were
  // saved.
  const bool maps = faults_ != nullptr && !options_.record;
  for (const Run& run : map_.runs_of(place.part, place.at, pages_of(grain))) {
    const ConstByteSpan bytes =
        raw.subspan((run.at - place.at) * kPageBytes, run.pages * kPageBytes);
    if (maps)
      GANTRY_TRY(faults_->copy(run.page * kPageBytes, bytes));
    else
      GANTRY_TRY(memory_.write(run.page, bytes));
  }
  return {};
}

Result<void> PageLoader::mark(Grain grain) {
  const bool is_waited = (state_of(grain).fetch_or(kThere) & kWaited) != 0;  // P2
  pages_there_ += pages_of(grain);
  const bool is_first = place_of_grain(grain).part == Part::first;
  const bool has_first = is_first && ++first_there_ == first_grains_;
  const bool has_all = ++there_ == grains_;
  if (!is_waited && !has_first && !has_all) return {};
  std::vector<std::uint64_t> woken;
  {
    const std::lock_guard lock(mutex_);
    const auto now = std::chrono::steady_clock::now() - began_;
    if (has_first) report_.until_working_set = now;
    if (has_all) report_.elapsed = now;
    const auto here = std::ranges::partition(
        waiting_, [&](std::uint64_t page) { return grain_of(*map_.find(page)) != grain; });
    woken.assign(here.begin(), here.end());  // P3
    waiting_.erase(here.begin(), here.end());
  }
  Result<void> mapped;
  for (const std::uint64_t page : woken) {
    const Bytes at = page * kPageBytes;
    if (auto done = faults_->map(at, kPageBytes); !done) {
      mapped = std::move(done);
      // Who sleeps there would sleep on, unless the watching has ended.
      if (!has(What::all) || options_.record) faults_->poison(at, kPageBytes);
    }
  }
  if (has_first || has_all) {
    moved_.notify_all();
    urged_.notify_all();
    spared_.notify_all();
  }
  if (!has_all) return mapped;
  // When all is there the watching may have ended meanwhile: whoever waits was woken by that.
  if (over_ >= 0) ring(over_);
  return {};
}

// All grains from `first` on that `raw` has and nobody made.
Result<void> PageLoader::make(Grain first, ConstByteSpan raw) {
  for (Grain grain = first; !raw.empty(); ++grain.index) {
    const ConstByteSpan bytes = raw.first(pages_of(grain) * kPageBytes);
    raw = raw.subspan(bytes.size());
    if (!claim(grain)) continue;
    GANTRY_TRY(check_pages(grain, bytes));
    GANTRY_TRY(make_pages(grain, bytes));
    GANTRY_TRY(mark(grain));
  }
  return {};
}

Result<void> PageLoader::frame(std::size_t chunk, Bytes from, ConstByteSpan raw) {
  return make({chunk, from / (kGrainPages * kPageBytes)}, raw);
}

Result<void> PageLoader::there(std::size_t chunk, ConstByteSpan, std::chrono::nanoseconds,
                               std::chrono::nanoseconds) {
  const std::lock_guard lock(mutex_);
  report_.stored_bytes += chunks[chunk].stored_bytes;
  return {};
}

Result<void> PageLoader::fetched(Grain first, ConstByteSpan raw, Bytes stored) {
  {
    const std::lock_guard lock(mutex_);
    report_.stored_bytes += stored;
    ++report_.out_of_turn;
  }
  return make(first, raw);
}

void PageLoader::end(Error error) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (error_ || has(What::all)) return;
    error_ = std::move(error);
    has_ended_ = true;
    report_.elapsed = std::chrono::steady_clock::now() - began_;
  }
  cancel_lanes();
  if (fetcher_) fetcher_->cancel();
  if (faults_ != nullptr) {
    dead_.tell(memory_.mapped(), faults_->poison_signal(), *error_);
    poison();
  }
  moved_.notify_all();
  urged_.notify_all();
  spared_.notify_all();
}

// P4. Grains whose pages are being made meanwhile were checked: either is right.
void PageLoader::poison() noexcept {
  const auto poison_grain = [&](Grain grain) -> Result<void> {
    const PageMap::Place place = place_of_grain(grain);
    for (const Run& run : map_.runs_of(place.part, place.at, pages_of(grain)))
      faults_->poison(run.page * kPageBytes, run.pages * kPageBytes);
    return {};
  };
  for (const std::size_t chunk : order_)
    for (Grain grain{chunk, 0}; grain.index < grains_of(chunks[chunk]); ++grain.index) {
      if ((state_of(grain) & kThere) != 0) continue;
      if (guarded([&] { return poison_grain(grain); })) continue;
      return faults_->poison(0, memory_.mapped().size());  // no memory for runs
    }
}

// ---- who waits

PageLoader::Answer PageLoader::touched(std::uint64_t page) {
  const auto place = map_.find(page);
  if (!place) return Answer::map;
  const Grain grain = grain_of(*place);
  const std::lock_guard lock(mutex_);
  if (has_ended_) return (state_of(grain) & kThere) != 0 ? Answer::map : Answer::never;
  waiting_.push_back(page);
  const std::uint8_t before = state_of(grain).fetch_or(kWaited);  // P3
  if ((before & kThere) != 0) {
    waiting_.pop_back();
    return Answer::map;
  }
  // Of the working set what is on its way comes at once.
  const std::size_t turn = grain.chunk - order_.front();
  if (before == 0 && (turn >= first_chunks_ || turn >= next_)) {
    urgent_.push_back(grain);
    urged_.notify_all();
  }
  return Answer::wait;
}

std::vector<Grain> PageLoader::take_urgent(std::size_t most, Until until) {
  std::unique_lock lock(mutex_);
  const auto has_come = [&] {
    return until == Until::now || has_ended_ || has(What::all) ||
           (until == Until::working_set && has(What::working_set));
  };
  std::vector<Grain> taken;
  for (;;) {
    while (urgent_.empty() && !has_come()) urged_.wait(lock);
    if (has_ended_) return {};  // P4
    while (taken.size() < most && !urgent_.empty()) {
      if ((state_of(urgent_.front()) & kClaimed) == 0) taken.push_back(urgent_.front());
      urgent_.pop_front();
    }
    if (!taken.empty() || has_come()) return taken;
  }
}

Result<void> PageLoader::wait(What what, Deadline deadline) {
  std::unique_lock lock(mutex_);
  if (what == What::all) {
    wants_all_ = true;
    spared_.notify_all();
  }
  while (!has(what) && !error_) {
    if (deadline.passed())
      return fail(
          Code::timed_out,
          fmt::format("{}: {} of {} MiB were there when time was up", path,
                      pages_there_ * kPageBytes >> 20, (report_.bytes - report_.zero_bytes) >> 20),
          "allow more time");
    if (deadline.is_never())
      moved_.wait(lock);
    else
      moved_.wait_for(lock, deadline.left());
  }
  if (!has(what)) return tl::unexpected(*error_);
  return {};
}

std::optional<Error> PageLoader::error() {
  const std::lock_guard lock(mutex_);
  return error_;
}

void PageLoader::add_to(RestoreReport& report) {
  const std::lock_guard lock(mutex_);
  const RestoreReport given = std::exchange(report, report_);
  report.loaded_bytes = pages_there_ * kPageBytes;
  report.is_lazy = given.is_lazy;
  report.why_not_lazy = given.why_not_lazy;
  report.faults = given.faults;
  if (!error_ && !has(What::all)) report.elapsed = std::chrono::steady_clock::now() - began_;
}

}  // namespace gantry::snapshot
