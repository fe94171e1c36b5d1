#include "calibration/calibration.hpp"

#include <algorithm>
#include <bit>

#include "base/result.hpp"
#include "base/sizes.hpp"
#include "calibration/calibration_bench.hpp"
#include "calibration/reshape_samples.hpp"
#include "engine/policy/policy.hpp"

namespace gantry {
namespace {

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
  GANTRY_ASSIGN(const ReshapePlan plan, sample_reshape(kind, bytes));
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
