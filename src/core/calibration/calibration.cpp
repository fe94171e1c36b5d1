#include "core/calibration/calibration.hpp"

#include <algorithm>
#include <bit>
#include <gantry/memory.hpp>
#include <numeric>
#include <utility>

#include "core/base/assert.hpp"
#include "core/base/clock.hpp"
#include "core/base/result.hpp"
#include "core/base/sizes.hpp"
#include "core/engine/policy/policy.hpp"

namespace gantry {
namespace {

// ---- one measurement -----------------------------------------------------------------------

/// Rounds of a measurement: at least one, until its time is up.
class Rounds {
 public:
  Rounds(std::uint64_t budget_ns, unsigned most) noexcept
      : end_ns_(monotonic_ns() + budget_ns), left_(most) {}
  [[nodiscard]] bool another() noexcept {
    const bool more = !begun_ || (left_ > 0 && monotonic_ns() < end_ns_);
    begun_ = true;
    if (left_ > 0) --left_;
    return more;
  }

 private:
  std::uint64_t end_ns_;
  unsigned left_;
  bool begun_ = false;
};

/// 0 if there are none.
double median_of(std::vector<double> values) noexcept {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// The buffers, lanes and clock of one calibration in progress. Used by one thread.
class CalibrationBench {
 public:
  [[nodiscard]] static Result<CalibrationBench> make(
      std::span<const std::shared_ptr<Engine>> engines, Bytes bytes);

  struct Subject {
    std::string name;
    std::unique_ptr<Lane> lane;
    bool reshapes = false;  ///< Itself, rather than by the caller's CPU.
  };
  [[nodiscard]] std::vector<Subject>& subjects() noexcept { return subjects_; }
  /// Null if there is no such engine.
  [[nodiscard]] Lane* lane_of(std::string_view engine) noexcept;
  [[nodiscard]] Bytes bytes() const noexcept { return source_.size(); }

  enum class Memory : std::uint8_t {
    same,   ///< Always the first bytes: they are in the cache if they fit.
    other,  ///< Other bytes each time, as payloads are: first-level caches do not help.
  };
  /// A move: a copy of so many bytes, or what a plan makes.
  struct Work {
    Bytes bytes = 0;  ///< Of the destination.
    CacheUse cache = CacheUse::automatic;
    const ReshapePlan* plan = nullptr;  ///< Must outlive it; null: a copy.
    /// Of the larger side.
    [[nodiscard]] Bytes footprint() const noexcept {
      return plan == nullptr ? bytes : std::max(bytes, plan->source_bytes());
    }
  };
  /// Has it done repeatedly if it is small, and awaits each time; returns the nanoseconds of one.
  [[nodiscard]] Result<double> awaited(Lane& lane, const Work& work, WaitStrategy waiting,
                                       Memory memory);
  /// Queues up to 16, of other bytes each time, then awaits them.
  struct Queued {
    double share_ns = 0;
    double caller_ns = 0;
  };
  [[nodiscard]] Result<Queued> queued(Lane& lane, const Work& work);
  /// Copies, then reads what was written; returns the nanoseconds a byte of the reading.
  [[nodiscard]] Result<double> reading(Lane& lane, Bytes bytes, CacheUse cache);

 private:
  CalibrationBench() = default;
  [[nodiscard]] Move move_of(Bytes offset, const Work& work) const noexcept;

  [[nodiscard]] Bytes next_offset(Bytes bytes) noexcept;

  Bytes cursor_ = 0;
  Region source_;
  Region destination_;
  std::vector<Subject> subjects_;
};

// bytes that are moved between two readings of the clock
constexpr Bytes kAtOnce = Bytes{8} << 20;
constexpr Bytes kReshapedAtOnce = Bytes{1} << 20;  // there are more kinds of them
constexpr Bytes kMostRepeats = 256;
constexpr Bytes kQueuedMoves = 16;

Bytes repeats_of(const CalibrationBench::Work& work) {
  const Bytes at_once = work.plan == nullptr ? kAtOnce : kReshapedAtOnce;
  return std::clamp<Bytes>(at_once / work.footprint(), 1, kMostRepeats);
}

Result<void> await(Lane& lane, Result<Ticket> ticket,
                   WaitStrategy waiting = WaitStrategy::automatic) {
  if (!ticket) return tl::unexpected(std::move(ticket).error());
  if (lane.wait(*ticket, Deadline::never(), waiting) == Outcome::done) return {};
  return fail(Code::system, "calibrating: a copy failed");
}

double per(std::uint64_t ns, Bytes count) {
  GANTRY_ASSERT(count > 0);
  return std::max(static_cast<double>(ns) / static_cast<double>(count), 0.1);  // never zero
}

// Several sums, so that the reading waits for memory and not for the addition before.
std::uint64_t sum_of(ConstByteSpan bytes) noexcept {
  const auto* at = reinterpret_cast<const std::uint64_t*>(bytes.data());
  std::uint64_t sums[4] = {};
  for (Bytes i = 0; i + 4 <= bytes.size() / sizeof *at; i += 4)
    for (Bytes j = 0; j < 4; ++j) sums[j] += at[i + j];
  return std::accumulate(std::begin(sums), std::end(sums), std::uint64_t{0});
}

Result<CalibrationBench> CalibrationBench::make(std::span<const std::shared_ptr<Engine>> engines,
                                                Bytes bytes) {
  CalibrationBench bench;
  const RegionOptions private_memory{.shareable = false};
  GANTRY_ASSIGN(bench.source_, Region::create(bytes, "gantry-calibration", private_memory));
  GANTRY_ASSIGN(bench.destination_, Region::create(bytes, "gantry-calibration", private_memory));
  GANTRY_TRY(bench.source_.touch(0, bytes));
  GANTRY_TRY(bench.destination_.touch(0, bytes));
  for (const auto& engine : engines) {
    auto lane = engine->open_lane();
    if (!lane && bench.subjects_.empty()) return tl::unexpected(std::move(lane).error());
    if (!lane) continue;  // an engine that cannot be used need not be known
    const auto kinds = engine->capabilities().kinds;
    bench.subjects_.push_back({std::string(engine->name()), std::move(*lane),
                               std::ranges::find(kinds, Move::Kind::reshape) != kinds.end()});
  }
  return bench;
}

Lane* CalibrationBench::lane_of(std::string_view engine) noexcept {
  const auto found = std::ranges::find(subjects_, engine, &Subject::name);
  return found == subjects_.end() ? nullptr : found->lane.get();
}

Move CalibrationBench::move_of(Bytes offset, const Work& work) const noexcept {
  const ByteSpan to{destination_.data() + offset, work.bytes};
  Move move =
      work.plan == nullptr
          ? Move::copy(to, {source_.data() + offset, work.bytes})
          : Move::reshape(to, {source_.data() + offset, work.plan->source_bytes()}, *work.plan);
  move.cache = work.cache;
  move.resident = true;
  return move;
}

Bytes CalibrationBench::next_offset(Bytes bytes) noexcept {
  GANTRY_ASSERT(bytes <= this->bytes());
  if (cursor_ + bytes > this->bytes()) cursor_ = 0;
  constexpr Bytes kLine = 64;  // what follows begins at one
  return std::exchange(cursor_, cursor_ + (bytes + kLine - 1) / kLine * kLine);
}

Result<double> CalibrationBench::awaited(Lane& lane, const Work& work, WaitStrategy waiting,
                                         Memory memory) {
  const Bytes repeats = repeats_of(work);
  const std::uint64_t start = monotonic_ns();
  for (Bytes i = 0; i < repeats; ++i) {
    const Bytes offset = memory == Memory::other ? next_offset(work.footprint()) : 0;
    GANTRY_TRY(await(lane, lane.submit(move_of(offset, work), SubmitMode::synchronous), waiting));
  }
  return per(monotonic_ns() - start, repeats);
}

Result<CalibrationBench::Queued> CalibrationBench::queued(Lane& lane, const Work& work) {
  const Bytes moves = std::clamp<Bytes>(this->bytes() / work.footprint(), 1, kQueuedMoves);
  const std::uint64_t cpu = thread_cpu_ns();
  const std::uint64_t start = monotonic_ns();
  Result<Ticket> last = Ticket{};
  for (Bytes i = 0; i < moves && last; ++i)
    last = lane.submit(move_of(next_offset(work.footprint()), work), SubmitMode::queued);
  const std::uint64_t cpu_spent = thread_cpu_ns() - cpu;
  GANTRY_TRY(await(lane, std::move(last)));
  return Queued{per(monotonic_ns() - start, moves), per(cpu_spent, moves)};
}

Result<double> CalibrationBench::reading(Lane& lane, Bytes bytes, CacheUse cache) {
  GANTRY_TRY(await(lane, lane.submit(move_of(0, {bytes, cache}), SubmitMode::synchronous)));
  const std::uint64_t start = monotonic_ns();
  const volatile std::uint64_t sum = sum_of({destination_.data(), bytes});
  static_cast<void>(sum);
  return static_cast<double>(monotonic_ns() - start) / static_cast<double>(bytes);
}

// ---- all of them ---------------------------------------------------------------------------

constexpr std::uint64_t kMs = 1'000'000;

// A plan's times are for its measurements; touching the memory takes further time.
struct Plan {
  std::vector<Bytes> sizes;
  std::uint64_t size_ns;   // for all engines together at one size
  std::uint64_t sweep_ns;  // for all sizes; those not reached by then are left out
  unsigned rounds;
  std::vector<Bytes> reshape_sizes;  // of the destination
  std::uint64_t reshape_ns;          // for all engines together at one size of one class
};
const Plan kQuick{{kKiB, 16 * kKiB, 128 * kKiB, 512 * kKiB, kMiB, 4 * kMiB, 16 * kMiB},
                  50 * kMs,
                  400 * kMs,
                  7,
                  {16 * kKiB, 128 * kKiB, kMiB},
                  8 * kMs};
const Plan kFull{
    {64, 256, kKiB, 4 * kKiB, 16 * kKiB, 64 * kKiB, 256 * kKiB, 512 * kKiB, kMiB, 2 * kMiB,
     4 * kMiB, 8 * kMiB, 16 * kMiB, 32 * kMiB, 64 * kMiB, 256 * kMiB},
    700 * kMs,
    13'000 * kMs,
    31,
    {kKiB, 4 * kKiB, 16 * kKiB, 64 * kKiB, 256 * kKiB, kMiB, 4 * kMiB, 16 * kMiB, 64 * kMiB},
    60 * kMs};

constexpr std::uint64_t kStreamingNs = 300 * kMs;  // for one size
constexpr std::uint64_t kReadingNs = 150 * kMs;
constexpr std::uint64_t kHelpingNs = 400 * kMs;
constexpr std::uint64_t kAllNs = 17'000 * kMs;  // nothing new begins later
constexpr unsigned kCacheRounds = 9;
constexpr double kStreamingGain = 1.03;  // a smaller gain is noise
constexpr double kTellsApart = 1.3;      // reading from memory over reading from the cache

Bytes largest_that_fits(const Plan& plan, Bytes limit) {
  const Bytes largest = plan.sizes.back();
  return limit == 0 ? largest : std::clamp<Bytes>(std::bit_floor(limit / 2), 16 * kMiB, largest);
}

/// The steps of one calibration, in their order.
class Sweep {
 public:
  Sweep(CalibrationBench& bench, const Plan& plan, const MeasureOptions& options)
      : bench_(bench), plan_(plan), options_(options) {}

  Result<void> costs();
  Result<void> reshapes();
  Result<void> streaming();
  Result<void> share();
  Result<void> helping();
  [[nodiscard]] Calibration take() { return std::move(found_); }

 private:
  using Work = CalibrationBench::Work;
  Result<std::vector<CostPoint>> points_of(Work work, std::uint64_t limit_ns);
  Result<void> reshapes_at(ReshapeClass kind, Bytes bytes);
  Result<bool> streams_quicker(Lane& lane, Bytes bytes);
  Result<double> reading_at(Lane& lane, Bytes bytes, CacheUse cache);
  [[nodiscard]] Result<void> step(std::string_view what, double done) const {
    if (!options_.on_step || options_.on_step(what, done)) return {};
    return fail(Code::interrupted, "calibrating: interrupted");
  }
  [[nodiscard]] bool late(std::uint64_t limit_ns) const {
    return monotonic_ns() - started_ns_ > limit_ns;
  }

  CalibrationBench& bench_;
  const Plan& plan_;
  const MeasureOptions& options_;
  std::uint64_t started_ns_ = monotonic_ns();
  Calibration found_ = default_estimates();

  [[nodiscard]] Calibration default_estimates() const;
};

Calibration Sweep::default_estimates() const {
  Calibration calibration = default_calibration(options_.last_level, options_.sharers);
  for (const auto& subject : bench_.subjects())
    calibration.engines.push_back({subject.name, false, {}});
  return calibration;
}

Result<void> Sweep::costs() {
  for (std::size_t i = 0; i < plan_.sizes.size(); ++i) {
    if (plan_.sizes[i] > bench_.bytes() || late(plan_.sweep_ns)) break;
    const double part = static_cast<double>(i) / static_cast<double>(plan_.sizes.size());
    GANTRY_TRY(step("what the engines cost", options_.quick ? 0.9 * part : 0.2 + 0.6 * part));
    GANTRY_ASSIGN(const auto points, points_of({plan_.sizes[i]}, plan_.size_ns));
    for (std::size_t engine = 0; engine < points.size(); ++engine)
      found_.engines[engine].points.push_back(points[engine]);
  }
  return {};
}

// One for each engine; those that would have the caller do a reshape have one of 0 bytes.
Result<std::vector<CostPoint>> Sweep::points_of(Work work, std::uint64_t limit_ns) {
  struct Samples {
    std::vector<double> awaited, queued, caller;
  };
  const bool past = found_.streaming_from != 0 && work.bytes >= found_.streaming_from;
  work.cache = past ? CacheUse::streaming : CacheUse::reader_soon;
  std::vector<Samples> all(bench_.subjects().size());
  Rounds rounds(limit_ns, plan_.rounds);
  while (rounds.another())
    for (std::size_t i = 0; i < all.size(); ++i) {
      const auto& subject = bench_.subjects()[i];
      if (work.plan != nullptr && !subject.reshapes) continue;
      GANTRY_ASSIGN(const double awaited,
                    bench_.awaited(*subject.lane, work, WaitStrategy::automatic,
                                   CalibrationBench::Memory::other));
      GANTRY_ASSIGN(const auto queued, bench_.queued(*subject.lane, work));
      all[i].awaited.push_back(awaited);
      all[i].queued.push_back(queued.share_ns);
      all[i].caller.push_back(queued.caller_ns);
    }
  std::vector<CostPoint> points;
  for (const Samples& one : all)
    points.push_back({one.awaited.empty() ? 0 : work.bytes, median_of(one.awaited),
                      median_of(one.queued), median_of(one.caller)});
  return points;
}

// All classes at a size before the next one: what a slow machine leaves out are large ones.
Result<void> Sweep::reshapes() {
  if (options_.sample_reshape == nullptr) return {};
  GANTRY_TRY(step("what reshapes cost", options_.quick ? 0.9 : 0.8));
  const std::uint64_t begin = monotonic_ns();
  const std::uint64_t limit = 2 * plan_.reshape_ns * plan_.reshape_sizes.size() * kReshapeClasses;
  for (const Bytes bytes : plan_.reshape_sizes)
    for (std::size_t i = 0; i < kReshapeClasses; ++i)
      if (monotonic_ns() - begin <= limit && !late(kAllNs))
        GANTRY_TRY(reshapes_at(static_cast<ReshapeClass>(i), bytes));
  return {};
}

Result<void> Sweep::reshapes_at(ReshapeClass kind, Bytes bytes) {
  GANTRY_ASSIGN(const ReshapePlan plan, options_.sample_reshape(kind, bytes));
  const Work work{plan.destination_bytes(), CacheUse::automatic, &plan};
  if (work.footprint() > bench_.bytes()) return {};
  GANTRY_ASSIGN(const auto points, points_of(work, plan_.reshape_ns));
  for (std::size_t i = 0; i < points.size(); ++i)
    if (points[i].bytes != 0)
      found_.engines[i].reshapes[static_cast<std::size_t>(kind)].push_back(points[i]);
  return {};
}

Result<bool> Sweep::streams_quicker(Lane& lane, Bytes bytes) {
  std::vector<double> temporal, streaming;
  Rounds rounds(kStreamingNs, kCacheRounds);
  while (rounds.another()) {
    GANTRY_ASSIGN(const double kept,
                  bench_.awaited(lane, {bytes, CacheUse::reader_soon}, WaitStrategy::automatic,
                                 CalibrationBench::Memory::same));
    GANTRY_ASSIGN(const double past,
                  bench_.awaited(lane, {bytes, CacheUse::streaming}, WaitStrategy::automatic,
                                 CalibrationBench::Memory::same));
    temporal.push_back(kept);
    streaming.push_back(past);
  }
  return median_of(temporal) > median_of(streaming) * kStreamingGain;
}

// From the largest size down, so that a size counts only if all above it gain, too.
Result<void> Sweep::streaming() {
  Lane* const lane = bench_.lane_of("inline");
  if (lane == nullptr) return {};
  found_.streaming_from = 0;
  for (Bytes bytes = std::bit_floor(bench_.bytes()); bytes >= kMiB; bytes /= 2) {
    if (late(kAllNs)) return {};
    GANTRY_TRY(step("stores past the cache", 0));
    GANTRY_ASSIGN(const bool quicker, streams_quicker(*lane, bytes));
    if (!quicker) return {};
    found_.streaming_from = bytes;
  }
  return {};
}

Result<double> Sweep::reading_at(Lane& lane, Bytes bytes, CacheUse cache) {
  std::vector<double> samples;
  Rounds rounds(kReadingNs, kCacheRounds);
  while (rounds.another()) {
    GANTRY_ASSIGN(const double sample, bench_.reading(lane, bytes, cache));
    samples.push_back(sample);
  }
  return median_of(samples);
}

// The cache that the machine reports may be the host's, shared with strangers. So this measures up
// to which size a reader finds what was just written sooner than half-way to memory.
Result<void> Sweep::share() {
  Lane* const lane = bench_.lane_of("inline");
  if (lane == nullptr) return {};
  GANTRY_TRY(step("what readers find in the cache", 0.9));
  const Bytes largest = std::bit_floor(bench_.bytes());
  GANTRY_ASSIGN(const double memory, reading_at(*lane, largest, CacheUse::streaming));
  GANTRY_ASSIGN(const double cache, reading_at(*lane, kMiB / 2, CacheUse::reader_soon));
  if (memory < cache * kTellsApart) return {};
  Bytes found = kMiB / 2;
  for (Bytes bytes = kMiB; bytes <= std::min(largest / 2, 64 * kMiB) && !late(kAllNs); bytes *= 2) {
    GANTRY_ASSIGN(const double here, reading_at(*lane, bytes, CacheUse::reader_soon));
    if (here > (memory + cache) / 2) break;
    found = bytes;
  }
  const Bytes told = options_.last_level == 0 ? found : options_.last_level;
  found_.cache_share = std::min(found, std::max(told / std::max(options_.sharers, 1u), kMiB));
  return {};
}

Result<void> Sweep::helping() {
  Lane* const lane = bench_.lane_of("thread");
  if (lane == nullptr || late(kAllNs)) return {};
  GANTRY_TRY(step("what a waiter's help gains", 0.95));
  const Bytes bytes = std::min(64 * kMiB, bench_.bytes());
  std::vector<double> alone, together;
  Rounds rounds(kHelpingNs, kCacheRounds);
  while (rounds.another()) {
    GANTRY_ASSIGN(const double one, bench_.awaited(*lane, {bytes}, WaitStrategy::sleep,
                                                   CalibrationBench::Memory::other));
    GANTRY_ASSIGN(const double both, bench_.awaited(*lane, {bytes}, WaitStrategy::automatic,
                                                    CalibrationBench::Memory::other));
    alone.push_back(one);
    together.push_back(both);
  }
  found_.helping_gain = std::clamp(median_of(alone) / median_of(together), 0.1, 10.0);
  return {};
}

}  // namespace

Result<Calibration> measure_calibration(std::span<const std::shared_ptr<Engine>> engines,
                                        const MeasureOptions& options) {
  const Plan& plan = options.quick ? kQuick : kFull;
  GANTRY_ASSIGN(CalibrationBench bench,
                CalibrationBench::make(engines, largest_that_fits(plan, options.memory_limit)));
  Sweep sweep(bench, plan, options);
  if (!options.quick) GANTRY_TRY(sweep.streaming());  // first: the sweep copies accordingly
  GANTRY_TRY(sweep.costs());
  GANTRY_TRY(sweep.reshapes());
  if (!options.quick) {
    GANTRY_TRY(sweep.share());
    GANTRY_TRY(sweep.helping());
  }
  Calibration calibration = sweep.take();
  calibration.source = options.quick ? Calibration::Source::quick : Calibration::Source::full;
  return calibration;
}

}  // namespace gantry
