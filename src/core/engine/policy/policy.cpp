#include "core/engine/policy/policy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/base/assert.hpp"
#include "core/base/sizes.hpp"
#include "core/engine/execute.hpp"
#include "core/engine/human.hpp"

namespace gantry {
namespace {

constexpr double kNothingFree = 0.5;     // of a CPU: a sample between "one" and "none"
constexpr double kUnalignedNs = 400;     // the device's published difference
constexpr double kPageNs = 100;          // for a page that is present
constexpr double kLeastFreedNs = 2'000;  // of the caller's time; for less a hand-over does not pay
constexpr Bytes kLargestAsked = Bytes{1} << 30;

const EngineCosts* find(const Calibration& calibration, std::string_view name) {
  const auto& all = calibration.engines;
  const auto found = std::ranges::find(all, name, &EngineCosts::engine);
  return found == all.end() || found->points.empty() ? nullptr : &*found;
}

bool executes(const Member& member, Move::Kind kind) noexcept {
  return std::ranges::find(member.kinds, kind) != member.kinds.end();
}

bool is_aligned(const Move& move, Bytes alignment) noexcept {
  const auto on = [&](const std::byte* at) {
    return reinterpret_cast<std::uintptr_t>(at) % alignment == 0;
  };
  return on(move.destination) && on(move.source);
}

// An engine that gains something at one size, and nothing at the next larger one that was measured,
// gained by a disturbance of the first engine's measurement: its costs begin earlier than its
// gains.
std::vector<CostPoint> without_flukes(std::vector<CostPoint> points, const CostCurve& first) {
  if (first.empty()) return points;
  const auto gains = [&first](const CostPoint& point) {
    return point.synchronous_ns < first.at(point.bytes);
  };
  for (std::size_t i = 0; i + 1 < points.size(); ++i)
    if (gains(points[i]) && !gains(points[i + 1]))
      points[i].synchronous_ns = first.at(points[i].bytes);
  return points;
}

}  // namespace

// ---- costs ---------------------------------------------------------------------------------

void CostCurve::add(Bytes bytes, double ns) {
  GANTRY_DEBUG_ASSERT(bytes > 0 && ns > 0);
  GANTRY_DEBUG_ASSERT(points_.empty() || bytes > points_.back().bytes);
  points_.push_back({bytes, ns, std::log2(static_cast<double>(bytes)), std::log2(ns)});
}

double CostCurve::at(Bytes bytes) const noexcept {
  if (points_.empty()) return 0;
  const auto above = std::ranges::lower_bound(points_, bytes, {}, &Point::bytes);
  if (above == points_.begin()) return points_.front().ns;
  if (above == points_.end()) return static_cast<double>(bytes) / bytes_per_ns();
  const Point& low = *(above - 1);
  const double part =
      (std::log2(static_cast<double>(bytes)) - low.log_bytes) / (above->log_bytes - low.log_bytes);
  return std::exp2(low.log_ns + part * (above->log_ns - low.log_ns));
}

double CostCurve::bytes_per_ns() const noexcept {
  return points_.empty() ? 1 : static_cast<double>(points_.back().bytes) / points_.back().ns;
}

namespace {

// Used where nothing was measured. They are cautious for everything but inline, so that an
// unmeasured machine hands over only what surely gains. dsa: published for Sapphire Rapids.
struct Estimate {
  double start_ns;         // synchronous
  double queued_start_ns;  // a move's share
  double caller_ns;        // 0: all of it
  double bytes_per_ns;
};
constexpr Estimate kInline{30, 30, 0, 10};
constexpr Estimate kThread{20'000, 5'000, 2'000, 10};
constexpr Estimate kDsa{1'200, 400, 300, 28.5};

constexpr Bytes kCommonCache = Bytes{32} << 20;  // if the machine does not tell, or a hypervisor
                                                 // tells the whole host's

}  // namespace

std::string_view to_string(Calibration::Source source) noexcept {
  constexpr std::array<std::string_view, 3> kNames{"defaults", "quick", "full"};
  const auto number = static_cast<std::size_t>(source);
  return number < kNames.size() ? kNames[number] : "unknown";
}

EngineCosts estimated_costs(std::string_view engine) {
  const CopyEngine kind = kind_of(engine);
  const Estimate& guess = kind == CopyEngine::thread ? kThread
                          : kind == CopyEngine::dsa  ? kDsa
                                                     : kInline;
  EngineCosts costs{std::string(engine), false, {}};
  for (Bytes bytes = 64; bytes <= Bytes{1} << 30; bytes *= 4) {
    const double moving = static_cast<double>(bytes) / guess.bytes_per_ns;
    costs.points.push_back({bytes, guess.start_ns + moving, guess.queued_start_ns + moving,
                            guess.caller_ns > 0 ? guess.caller_ns : guess.start_ns + moving});
  }
  return costs;
}

Calibration default_calibration(Bytes last_level_bytes, unsigned sharers) {
  const Bytes cache =
      std::min(last_level_bytes == 0 ? kCommonCache : last_level_bytes, kCommonCache);
  Calibration calibration;
  calibration.streaming_from = cache;
  calibration.cache_share = std::max(cache / std::max(sharers, 2u), Bytes{1} << 20);
  return calibration;
}

std::optional<Bytes> break_even(const Calibration& calibration, std::string_view engine,
                                SubmitMode mode) {
  const auto points_of = [&](std::string_view name) -> const std::vector<CostPoint>* {
    const auto found = std::ranges::find(calibration.engines, name, &EngineCosts::engine);
    return found == calibration.engines.end() ? nullptr : &found->points;
  };
  const auto* own = points_of(engine);
  const auto* others = points_of("inline");
  if (own == nullptr || others == nullptr) return std::nullopt;
  std::optional<Bytes> from;
  for (const CostPoint& point : *own) {
    const auto other = std::ranges::find(*others, point.bytes, &CostPoint::bytes);
    if (other == others->end()) continue;
    const bool gains =
        mode == SubmitMode::synchronous
            ? point.synchronous_ns * Policy::kSynchronousMargin < other->synchronous_ns
            : point.queued_ns <= other->queued_ns * Policy::kQueuedMargin &&
                  point.caller_ns < other->caller_ns;
    if (!gains)
      from.reset();
    else if (!from)
      from = point.bytes;
  }
  return from;
}

// ---- the choice ----------------------------------------------------------------------------

CopyEngine kind_of(std::string_view engine) noexcept {
  if (engine == "thread") return CopyEngine::thread;
  if (engine.starts_with("dsa")) return CopyEngine::dsa;  // on a model it says so
  if (engine == "kernel") return CopyEngine::kernel;
  return CopyEngine::inline_;
}

Policy::Policy(Calibration calibration, std::vector<Member> members)
    : calibration_(std::move(calibration)), members_(std::move(members)) {
  GANTRY_ASSERT(!members_.empty());
  GANTRY_ASSERT(members_.size() <= kMaxPolicyEngines);
  for (const Member& member : members_) costs_.push_back(curves_of(member));
  if (calibration_.streaming_from != 0) streaming_from_ = calibration_.streaming_from;
  for (const SubmitMode mode : {SubmitMode::synchronous, SubmitMode::queued})
    for (std::size_t curve = 0; curve < kCurves; ++curve)
      small_below_[mode == SubmitMode::queued][curve] = first_gain(curve, mode);
}

// What was not measured of reshapes costs as a copy of the bytes that are made.
Policy::CostsByClass Policy::curves_of(const Member& member) const {
  const EngineCosts* measured = find(calibration_, member.name);
  const std::vector<CostPoint> copies =
      measured != nullptr ? measured->points : estimated_costs(member.name).points;
  CostsByClass all;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const bool known = i > 0 && measured != nullptr && !measured->reshapes[i - 1].empty();
    const std::vector<CostPoint> points =
        without_flukes(known ? measured->reshapes[i - 1] : copies,
                       costs_.empty() ? CostCurve() : costs_.front()[i].synchronous);
    for (const CostPoint& point : points) {
      all[i].synchronous.add(point.bytes, point.synchronous_ns);
      all[i].queued.add(point.bytes, point.queued_ns);
      all[i].caller.add(point.bytes, point.caller_ns);
    }
  }
  return all;
}

// What nothing can make quicker: nobody's moves are ahead, all pages are there, every worker has a
// CPU.
Verdicts Policy::at_best(std::size_t curve, Bytes bytes, SubmitMode mode) const noexcept {
  Verdicts verdicts;
  for (std::size_t i = 0; i < members_.size(); ++i) {
    const Costs& costs = costs_[i][curve];
    verdicts[i].possible =
        executes(members_[i], curve == 0 ? Move::Kind::copy : Move::Kind::reshape);
    verdicts[i].predicted_ns =
        (mode == SubmitMode::synchronous ? costs.synchronous : costs.queued).at(bytes);
    verdicts[i].caller_ns = costs.caller.at(bytes);
  }
  return verdicts;
}

Bytes Policy::first_gain(std::size_t curve, SubmitMode mode) const noexcept {
  Bytes small = 0;  // up to here the first engine is chosen
  for (Bytes octave = 64; octave <= kLargestAsked; octave *= 2)
    for (Bytes quarter = 4; quarter < 8; ++quarter) {
      const Bytes bytes = octave / 4 * quarter;
      if (pick(at_best(curve, bytes, mode), mode) != 0) return small;
      small = bytes;
    }
  return std::numeric_limits<Bytes>::max();
}

Verdict Policy::weigh_one(std::size_t engine, const Move& move,
                          const Situation& situation) const noexcept {
  const Member& member = members_[engine];
  const Costs& costs = costs_[engine][curve_of(move)];
  Verdict verdict;
  verdict.possible = !situation.refused[engine] && executes(member, move.kind);
  verdict.predicted_ns =
      (situation.use == SubmitMode::synchronous ? costs.synchronous : costs.queued).at(move.bytes);
  verdict.caller_ns = costs.caller.at(move.bytes);
  if (member.kind == CopyEngine::dsa) {
    if (!is_aligned(move, member.alignment)) verdict.unaligned_ns = kUnalignedNs;
    const Bytes pages = move.bytes / kSmallestPage + 1;
    if (!move.resident) verdict.pages_ns = kPageNs * static_cast<double>(pages);
  }
  verdict.ahead_ns =
      static_cast<double>(situation.ahead[engine]) / costs_[engine][0].queued.bytes_per_ns();
  verdict.shares_cpu = member.kind == CopyEngine::thread && situation.free_cpus < kNothingFree;
  if (verdict.shares_cpu) verdict.predicted_ns *= 2;
  verdict.predicted_ns += verdict.ahead_ns + verdict.pages_ns + verdict.unaligned_ns;
  return verdict;
}

Verdicts Policy::weigh(const Move& move, const Situation& situation) const noexcept {
  Verdicts verdicts;
  for (std::size_t i = 0; i < members_.size(); ++i) verdicts[i] = weigh_one(i, move, situation);
  return verdicts;
}

std::size_t Policy::pick_synchronous(const Verdicts& verdicts) const noexcept {
  std::size_t best = 0;
  for (std::size_t i = 1; i < members_.size(); ++i) {
    if (!verdicts[i].possible) continue;
    // Another engine needs a margin over the first, which costs less CPU; and a prediction is no
    // promise.
    const double margin = best == 0 ? kSynchronousMargin : 1;
    if (verdicts[i].predicted_ns * margin < verdicts[best].predicted_ns || !verdicts[best].possible)
      best = i;
  }
  return best;
}

// Picks, of those about as quick as the quickest, the one that leaves the caller most time.
std::size_t Policy::pick_queued(const Verdicts& verdicts) const noexcept {
  double quickest = std::numeric_limits<double>::max();
  for (std::size_t i = 0; i < members_.size(); ++i)
    if (verdicts[i].possible) quickest = std::min(quickest, verdicts[i].predicted_ns);
  std::size_t best = members_.size();
  for (std::size_t i = 0; i < members_.size(); ++i) {
    if (!verdicts[i].possible || verdicts[i].predicted_ns > quickest * kQueuedMargin) continue;
    const double gain = best == 0 ? kLeastFreedNs : 0;
    if (best == members_.size() || verdicts[i].caller_ns + gain < verdicts[best].caller_ns)
      best = i;
  }
  return best == members_.size() ? 0 : best;
}

std::size_t Policy::pick(const Verdicts& verdicts, SubmitMode mode) const noexcept {
  return mode == SubmitMode::synchronous ? pick_synchronous(verdicts) : pick_queued(verdicts);
}

// ---- saying why ----------------------------------------------------------------------------

namespace {

std::chrono::nanoseconds whole(double ns) {
  return std::chrono::nanoseconds(static_cast<std::int64_t>(ns));
}

void append(std::string& text, const std::string& more) {
  if (!text.empty()) text += ", ";
  text += more;
}

std::string cache_reason(const Calibration& calibration, const Move& move, CacheUse cache) {
  const std::string share = human_bytes(calibration.cache_share);
  if (move.cache == CacheUse::streaming) return "streaming stores were asked for";
  if (move.cache == CacheUse::reader_soon && move.bytes <= calibration.cache_share)
    return fmt::format("temporal stores: a reader soon after finds up to {} in the cache", share);
  const std::string why =
      cache == CacheUse::streaming ? fmt::format("streaming stores: they are quicker from {} on",
                                                 human_bytes(calibration.streaming_from))
      : calibration.streaming_from == 0
          ? "temporal stores: streaming ones are quicker at no size here"
          : fmt::format("temporal stores: streaming ones are quicker only from {} on",
                        human_bytes(calibration.streaming_from));
  return move.cache == CacheUse::reader_soon
             ? fmt::format("{}, and no reader finds more than {} in the cache", why, share)
             : why;
}

std::string reshape_reason(const Move& move) {
  const ByteRange source = move.plan->source_of({move.plan_from, move.bytes});
  return fmt::format("a {} reshape: {} in, {} out", to_string(move.plan->kind()),
                     human_bytes(source.bytes), human_bytes(move.bytes));
}

std::string source_reason(const Calibration& calibration) {
  if (calibration.source == Calibration::Source::defaults)
    return "the times are estimates: nothing was measured (gantry calibrate)";
  return fmt::format("the times were measured on this machine ({} calibration)",
                     to_string(calibration.source));
}

}  // namespace

std::string Policy::why(std::size_t engine, const Verdict& verdict, const Move& move) const {
  const Member& member = members_[engine];
  if (!verdict.possible) return fmt::format("does not take it (a {})", to_string(move.kind));
  std::string text;
  if (verdict.shares_cpu)
    append(text, "no CPU is free for its worker at this moment: twice the time");
  if (verdict.ahead_ns > 0)
    append(text, fmt::format("{} until what is ahead has been done", human_time(verdict.ahead_ns)));
  if (verdict.pages_ns > 0)
    append(text, fmt::format("{} for pages that may be missing", human_time(verdict.pages_ns)));
  if (verdict.unaligned_ns > 0)
    append(text, fmt::format("{} for ends that are not on {} bytes",
                             human_time(verdict.unaligned_ns), member.alignment));
  if (engine != 0)
    append(text, fmt::format("{} of the caller's time", human_time(verdict.caller_ns)));
  return text;
}

void Policy::add_reasons(Explanation& explanation, const Move& move, const Situation& situation,
                         const Verdicts& verdicts, std::size_t chosen) const {
  const SubmitMode use = situation.use;
  const std::string& first = members_.front().name;
  auto& reasons = explanation.reasons;
  if (move.kind == Move::Kind::reshape && move.plan != nullptr)
    reasons.push_back(reshape_reason(move));
  if (is_small(move, use)) {
    const Bytes from = small_below(move, use);
    reasons.push_back(
        from == std::numeric_limits<Bytes>::max()
            ? fmt::format("no engine gains on {} at any size, {}", first, to_string(use))
            : fmt::format("below {} no engine gains on {}, {}", human_bytes(from), first,
                          to_string(use)));
  } else if (chosen == 0 && std::ranges::any_of(verdicts, &Verdict::shares_cpu)) {
    reasons.push_back("no CPU is free for a copy thread at this moment");
  } else if (chosen == 0) {
    reasons.push_back(
        use == SubmitMode::synchronous
            ? fmt::format("nobody ends it {:.0f} % sooner than {}, which costs the least CPU",
                          (kSynchronousMargin - 1) * 100, first)
            : fmt::format("nobody who is as quick leaves the caller more time than {}", first));
  } else if (use == SubmitMode::synchronous) {
    reasons.push_back(fmt::format(
        "it ends in {} of {}'s time",
        fmt::format("{:.0f} %", 100 * verdicts[chosen].predicted_ns / verdicts[0].predicted_ns),
        first));
  } else {
    reasons.push_back(fmt::format("it takes {} of the caller's time, {} takes {}",
                                  human_time(verdicts[chosen].caller_ns), first,
                                  human_time(verdicts[0].caller_ns)));
  }
  reasons.push_back(cache_reason(calibration_, move, explanation.cache));
  reasons.push_back(source_reason(calibration_));
}

Explanation Policy::explain(const Move& move, const Situation& situation) const {
  const Verdicts verdicts = weigh(move, situation);
  const std::size_t chosen = is_small(move, situation.use) ? 0 : pick(verdicts, situation.use);
  Explanation explanation;
  explanation.engine = members_[chosen].kind;
  explanation.cache = cache_for(move);
  explanation.predicted = whole(verdicts[chosen].predicted_ns);
  for (std::size_t i = 0; i < members_.size(); ++i)
    explanation.candidates.push_back({members_[i].name, verdicts[i].possible,
                                      whole(verdicts[i].predicted_ns), why(i, verdicts[i], move)});
  add_reasons(explanation, move, situation, verdicts, chosen);
  return explanation;
}

}  // namespace gantry
