#include "image/snapshot/page_loader.hpp"

#include <algorithm>
#include <thread>
#include <utility>

#include "core/base/assert.hpp"
#include "core/base/crc32c.hpp"
#include "core/base/event.hpp"
#include "core/base/os/thread_urgency.hpp"
#include "core/base/os/worker_thread.hpp"
#include "core/base/result.hpp"
#include "image/tables.hpp"
#include "image/unpack_chunk.hpp"

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

constexpr Bytes kGrainBytes = kGrainPages * kPageBytes;
constexpr std::size_t kAtATime = 4;  // reads

bool is_packed(const ImageChunk& chunk) noexcept {
  return chunk.coding.codec != Codec::none;
}

}  // namespace

/// A thread that reads the frame of a grain alone, beside the workers. While
/// nobody waits for anything it reads where the frames of packed chunks lie.
class PageFetcher {
 public:
  explicit PageFetcher(PageLoader& loader) : loader_(loader) {}

  /// Before start().
  [[nodiscard]] Result<void> prepare(FileIo& io) {
    const StartsUrgent urgent;
    GANTRY_ASSIGN(lane_, io.open_lane());
    for (std::size_t i = 0; i < kAtATime; ++i) {
      GANTRY_ASSIGN(LoadMemory memory, take_memory({}, kMostFrameBytes + 2 * kImageBorder));
      buffers_.push_back(std::move(memory));
    }
    GANTRY_ASSIGN(raw_, take_memory({}, kMostFrameBytes));
    heads_.resize(loader_.chunks.size());
    return {};
  }

  [[nodiscard]] Result<void> start() {
    const StartsUrgent urgent;
    GANTRY_ASSIGN(thread_, start_thread("a thread that fetches pages", [this] {
                    ::pthread_setname_np(::pthread_self(), "gantry-pages");
                    if (auto done = guarded([this] { return run(); }); !done)
                      loader_.end(std::move(done).error());
                  }));
    return {};
  }

  void cancel() noexcept {
    if (lane_) lane_->cancel();
  }
  void join() noexcept {
    if (thread_.joinable()) thread_.join();
  }

 private:
  /// What is read of the file for one grain, or for one head.
  struct Read {
    Grain grain;
    Bytes bytes = 0;   // of what is wanted
    Bytes before = 0;  // read in front of it, up to a border
    Ticket ticket{};
    ByteSpan into{};  // all that is read
  };
  [[nodiscard]] Result<void> run() {
    GANTRY_TRY(fetch_until(Until::working_set));
    GANTRY_TRY(read_heads());
    return fetch_until(Until::all);
  }
  // Whoever waits goes first.
  [[nodiscard]] Result<void> read_heads() {
    std::vector<Grain> some;
    for (const std::size_t chunk : loader_.order()) {
      if (!is_packed(loader_.chunks[chunk])) continue;
      some.push_back({chunk, 0});
      if (some.size() < kAtATime) continue;
      GANTRY_TRY(fetch_until(Until::now));
      GANTRY_TRY(need_heads(some));
      some.clear();
    }
    return need_heads(some);
  }

  [[nodiscard]] Result<void> fetch_until(Until until) {
    for (;;) {
      const auto grains = loader_.take_urgent(kAtATime, until);
      if (grains.empty()) return {};
      GANTRY_TRY(fetch(grains));
    }
  }

  [[nodiscard]] Result<void> fetch(std::span<const Grain> grains) {
    GANTRY_TRY(need_heads(grains));
    std::vector<Read> reads;
    for (const Grain grain : grains) {
      const ImageChunk& chunk = loader_.chunks[grain.chunk];
      const Bytes at = grain.index * kGrainBytes;
      Bytes from = at, bytes = std::min(kGrainBytes, chunk.raw_bytes - at);
      if (is_packed(chunk)) {
        const auto frames = codec::read_head(chunk.coding, heads_[grain.chunk], chunk.stored_bytes,
                                             chunk.raw_bytes);
        if (!frames) return bad(frames.error(), grain.chunk);
        const codec::Frame& frame = (*frames)[at / chunk.coding.frame_bytes];
        from = frame.at, bytes = frame.stored;
      }
      GANTRY_ASSIGN(const Read read, begin(grain, from, bytes, reads.size()));
      reads.push_back(read);
    }
    for (const Read& read : reads) {
      GANTRY_ASSIGN(const ConstByteSpan stored, finish(read));
      GANTRY_TRY(unpack(read, stored));
    }
    return {};
  }

  [[nodiscard]] Result<void> need_heads(std::span<const Grain> grains) {
    std::vector<Read> reads;
    for (const Grain grain : grains) {
      const ImageChunk& chunk = loader_.chunks[grain.chunk];
      if (!is_packed(chunk) || !heads_[grain.chunk].empty()) continue;
      const Bytes bytes =
          std::min<Bytes>(codec::head_bytes(chunk.coding, chunk.raw_bytes), chunk.stored_bytes);
      GANTRY_ASSIGN(const Read read, begin(grain, 0, bytes, reads.size()));
      reads.push_back(read);
    }
    for (const Read& read : reads) {
      GANTRY_ASSIGN(const ConstByteSpan head, finish(read));
      heads_[read.grain.chunk].assign(head.begin(), head.end());
    }
    return {};
  }

  [[nodiscard]] Result<Read> begin(Grain grain, Bytes from, Bytes bytes, std::size_t slot) {
    const Bytes border = loader_.file->alignment();
    const Bytes at = loader_.chunks[grain.chunk].offset + from;
    Read read{grain, bytes, at % border, {}, {}};
    read.into = buffers_[slot].bytes.first((read.before + bytes + border - 1) / border * border);
    auto ticket = lane_->submit(
        {FileTransfer::Kind::read, loader_.file, at - read.before, read.into, buffers_[slot].keep});
    if (!ticket) return bad(ticket.error(), grain.chunk);
    read.ticket = *ticket;
    return read;
  }

  [[nodiscard]] Result<ConstByteSpan> finish(const Read& read) {
    if (auto done = lane_->wait(read.ticket, loader_.ends); !done)
      return bad(done.error(), read.grain.chunk);
    return ConstByteSpan(read.into).subspan(read.before, read.bytes);
  }
  // All grains of the frame: they are unpacked anyway.
  [[nodiscard]] Result<void> unpack(const Read& read, ConstByteSpan stored) {
    const ImageChunk& chunk = loader_.chunks[read.grain.chunk];
    Grain first = read.grain;
    ConstByteSpan raw = stored;
    if (is_packed(chunk)) {
      const Bytes grains = chunk.coding.frame_bytes / kGrainBytes;
      first.index -= first.index % grains;
      const Bytes from = first.index * kGrainBytes;
      const ByteSpan into =
          raw_.bytes.first(std::min<Bytes>(chunk.coding.frame_bytes, chunk.raw_bytes - from));
      if (auto done = decoder_.decode_frame(chunk.coding, stored, into); !done)
        return bad(done.error(), first.chunk);
      raw = into;
    }
    return loader_.fetched(first, raw, read.into.size());
  }

  [[nodiscard]] tl::unexpected<Error> bad(const Error& error, std::size_t chunk) const {
    return fail(
        error.code,
        fmt::format("{}: {}", image::chunk_place(loader_.path, chunk, loader_.chunks[chunk].offset),
                    error.message),
        error.code == Code::timed_out ? "allow more time: RestoreOptions::deadline"
        : error.hint.empty()          ? "copy it again from where it came, or save it anew"
                                      : error.hint);
  }

  PageLoader& loader_;
  std::unique_ptr<FileLane> lane_;
  std::vector<LoadMemory> buffers_;  // a read each
  LoadMemory raw_;
  std::vector<std::vector<std::byte>> heads_;  // of chunks; empty: not read, or not packed
  codec::Decoder decoder_;
  std::thread thread_;
};

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
  if (faults != nullptr) {
    fetcher_ = std::make_unique<PageFetcher>(*this);
    GANTRY_TRY(fetcher_->prepare(*io));
  }
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

// Of the working set, which is read deeply, a CPU has work enough with one worker. The rest is read
// piece by piece, once all is made that the worker has read before.
std::optional<LoadJob::Turn> PageLoader::take(Worker& worker, bool is_idle) {
  std::unique_lock lock(mutex_);
  const bool is_spare =
      faults_ != nullptr && options_.workers == 0 && worker.number >= (workers.size() + 1) / 2;
  while (is_spare && next_ < first_chunks_ && !has_ended_) spared_.wait(lock);
  if (next_ == first_chunks_) spared_.notify_all();
  const auto is_over = [&] { return has_ended_ || next_ == order_.size(); };  // P4
  const bool in_pieces = faults_ != nullptr && next_ >= first_chunks_;
  if (is_over() || (in_pieces && !is_idle)) return std::nullopt;
  if (in_pieces && !std::exchange(worker.gives_way, true)) {
    give_way();
    leave_alone(lock);
    if (is_over()) return std::nullopt;
  }
  return Turn{order_[next_++], {}, in_pieces ? kPieceBytes : 0};
}

// The program has the machine for itself first, to use what it waited for: threads that make pages
// beside it slow it down even where they have a CPU of their own.
void PageLoader::leave_alone(std::unique_lock<std::mutex>& lock) {
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
  GANTRY_DEBUG_ASSERT(grain.chunk >= order_.front());
  GANTRY_DEBUG_ASSERT(grain.chunk - order_.front() < first_grain_.size());
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
  const std::uint8_t before = state_of(grain).fetch_or(kThere);  // P2
  const bool is_waited = (before & kWaited) != 0;
  GANTRY_DEBUG_ASSERT((before & kClaimed) != 0);  // P1
  GANTRY_DEBUG_ASSERT((before & kThere) == 0);    // P1
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

Result<void> PageLoader::there(Worker& worker, const Came& came) {
  const ByteSpan memory = worker.raw.empty() ? ByteSpan() : worker.raw.front().bytes;
  const auto take = [&](Bytes from, ConstByteSpan frame) {
    return make({came.chunk, from / (kGrainPages * kPageBytes)}, frame);
  };
  GANTRY_TRY(image::unpack_frames(worker.decoder, path, came.chunk, chunks[came.chunk], came.stored,
                                  memory, take));
  const std::lock_guard lock(mutex_);
  report_.stored_bytes += came.stored.size();
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
