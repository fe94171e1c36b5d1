#include <algorithm>

#include "engine/policy/policy.hpp"

namespace gantry {
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
  switch (source) {
    case Calibration::Source::defaults:
      return "defaults";
    case Calibration::Source::quick:
      return "quick";
    case Calibration::Source::full:
      return "full";
  }
  return "unknown";
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

}  // namespace gantry
