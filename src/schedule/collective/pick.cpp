#include <fmt/format.h>

#include <algorithm>
#include <gantry/schedule/collective.hpp>
#include <limits>

#include "base/result.hpp"
#include "schedule/quote.hpp"

namespace gantry {
namespace {

/// What of a collective's bytes decides.
enum class Measure : std::uint8_t {
  to_all,  ///< What a rank sends if it sends everything to everybody.
  whole,
};
using Threshold = Bytes CollectiveThresholds::*;
constexpr Threshold kAlways = nullptr;

/// A way to do a collective, up to a size. Of each collective the smaller one comes first.
struct Way {
  std::string_view collective;
  std::string_view program;
  Measure measure;
  Threshold up_to;
  bool hands_on;  ///< In chunks, so that the next rank begins before all is there.
  std::string_view reason;
};

constexpr std::string_view kAtOnce = "starts cost as much as bytes: each with each";
constexpr std::string_view kRing =
    "each byte goes over each link once; starts are hidden in chunks";
constexpr std::string_view kOnly = "there is one way";
constexpr Way kWays[] = {
    {"all-gather", "all-gather-at-once", Measure::whole, &CollectiveThresholds::moved_at_once,
     false, kAtOnce},
    {"all-gather", "all-gather-ring", Measure::whole, kAlways, true, kRing},
    {"reduce-scatter", "reduce-scatter-at-once", Measure::whole, &CollectiveThresholds::at_once,
     false, kAtOnce},
    {"reduce-scatter", "reduce-scatter-ring", Measure::whole, kAlways, true, kRing},
    {"all-reduce", "all-reduce-direct", Measure::to_all, &CollectiveThresholds::direct, false,
     "starts cost more than bytes: one step"},
    {"all-reduce", "all-reduce-at-once", Measure::whole, &CollectiveThresholds::at_once, false,
     kAtOnce},
    {"all-reduce", "all-reduce-ring", Measure::whole, kAlways, true, kRing},
    {"all-to-all", "all-to-all", Measure::whole, kAlways, false, kOnly},
    {"all-to-all-counts", "all-to-all-counts", Measure::whole, kAlways, false, kOnly},
    {"broadcast", "broadcast-at-once", Measure::to_all, &CollectiveThresholds::moved_at_once, false,
     "the root's link is not full: one step"},
    {"broadcast", "broadcast-chain", Measure::whole, kAlways, true, kRing},
};

Bytes measured(Measure measure, unsigned ranks, Bytes bytes) noexcept {
  Bytes all = 0;
  if (measure == Measure::whole || ranks <= 1) return bytes;
  const bool overflows = __builtin_mul_overflow(bytes, Bytes{ranks} - 1, &all);
  return overflows ? std::numeric_limits<Bytes>::max() : all;
}

// Of one transfer, before it is cut.
Bytes transfer_of(const Way& way, unsigned ranks, Bytes bytes) noexcept {
  const bool is_whole = way.collective == "broadcast" || way.program == "all-reduce-direct";
  return is_whole ? bytes : bytes / ranks;
}

CollectiveChoice choice_of(const Way& way, unsigned ranks, Bytes bytes,
                           const CollectiveThresholds& thresholds) {
  const Bytes transfer = transfer_of(way, ranks, bytes);
  CollectiveChoice choice{.program = std::string(way.program), .variant = {}, .reason = {}};
  if (way.hands_on) {
    const Bytes chunks = transfer / std::max<Bytes>(thresholds.chunk, 1);
    const auto most = static_cast<Bytes>(std::max<std::int64_t>(thresholds.most_chunks, 1));
    choice.chunks = static_cast<std::int64_t>(std::clamp<Bytes>(chunks, 1, most));
  }
  const Bytes piece = transfer / static_cast<Bytes>(choice.chunks);
  choice.variant = piece <= thresholds.eager ? "eager" : "rendezvous";
  choice.reason = fmt::format("{} bytes in {} ranks: {}; transfers of {} bytes, {} {}", bytes,
                              ranks, way.reason, piece,
                              piece <= thresholds.eager ? "up to" : "above", thresholds.eager);
  return choice;
}

}  // namespace

Result<CollectiveChoice> pick_collective(std::string_view collective, unsigned ranks, Bytes bytes,
                                         const CollectiveThresholds& thresholds) {
  return guarded([&]() -> Result<CollectiveChoice> {
    if (ranks == 0) return fail(Code::invalid_argument, "a collective of 0 ranks");
    for (const Way& way : kWays) {
      if (way.collective != collective) continue;
      if (way.up_to == kAlways || measured(way.measure, ranks, bytes) <= thresholds.*way.up_to)
        return choice_of(way, ranks, bytes, thresholds);
    }
    return fail(Code::not_found, "there is no collective " + quote(collective),
                "all-gather, reduce-scatter, all-reduce, all-to-all, all-to-all-counts, broadcast");
  });
}

}  // namespace gantry
