#include "engine/policy/policy.hpp"

#include <algorithm>

#include "base/sizes.hpp"
#include "engine/execute.hpp"

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

CopyEngine kind_of(std::string_view engine) noexcept {
  if (engine == "thread") return CopyEngine::thread;
  if (engine.starts_with("dsa")) return CopyEngine::dsa;  // on a model it says so
  if (engine == "kernel") return CopyEngine::kernel;
  return CopyEngine::inline_;
}

Policy::Policy(Calibration calibration, std::vector<Member> members)
    : calibration_(std::move(calibration)), members_(std::move(members)) {
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

void Policy::add_corrections(Verdict& verdict, std::size_t engine,
                             const Move& move) const noexcept {
  if (members_[engine].kind != CopyEngine::dsa) return;
  if (!is_aligned(move, members_[engine].alignment)) verdict.unaligned_ns += kUnalignedNs;
  const Bytes pages = move.bytes / kSmallestPage + 1;
  if (!move.resident) verdict.pages_ns += kPageNs * static_cast<double>(pages);
}

Verdict Policy::weigh_one(std::size_t engine, std::span<const Move> batch,
                          const Situation& situation) const noexcept {
  const bool one_awaited = situation.use == SubmitMode::synchronous && batch.size() == 1;
  Verdict verdict;
  verdict.possible = !situation.refused[engine];
  for (const Move& move : batch) {
    const Costs& costs = costs_[engine][curve_of(move)];
    verdict.possible = verdict.possible && executes(members_[engine], move.kind);
    verdict.predicted_ns += (one_awaited ? costs.synchronous : costs.queued).at(move.bytes);
    verdict.caller_ns += costs.caller.at(move.bytes);
    add_corrections(verdict, engine, move);
  }
  verdict.ahead_ns =
      static_cast<double>(situation.ahead[engine]) / costs_[engine][0].queued.bytes_per_ns();
  verdict.shares_cpu =
      members_[engine].kind == CopyEngine::thread && situation.free_cpus < kNothingFree;
  if (verdict.shares_cpu) verdict.predicted_ns *= 2;
  verdict.predicted_ns += verdict.ahead_ns + verdict.pages_ns + verdict.unaligned_ns;
  return verdict;
}

Verdicts Policy::weigh(std::span<const Move> batch, const Situation& situation) const noexcept {
  Verdicts verdicts;
  for (std::size_t i = 0; i < members_.size(); ++i) verdicts[i] = weigh_one(i, batch, situation);
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

Choice Policy::choose(std::span<const Move> batch, const Situation& situation) const noexcept {
  return {pick(weigh(batch, situation), situation.use), cache_for(batch.front())};
}

}  // namespace gantry
