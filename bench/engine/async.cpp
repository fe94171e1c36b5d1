// What a move costs its submitter who has something else to do, and what it costs altogether.

#include <fmt/format.h>

#include "../support/program/sizes.hpp"
#include "movers.hpp"

namespace gantry::bench {
namespace {

constexpr Bytes kCopyBytes = Bytes{64} << 20;
constexpr int kMovesOfTurn = 3;

/// What one move took. The caller's CPU time is that of handing it over and of learning its end.
struct Cost {
  double end_ns = 0;  ///< From submit() to the end.
  Spent spent;        ///< `wall_ns` is not used.
};
using Once = std::function<Result<Cost>(const Walk&)>;

/// The caller's own work; about 20 us of it. Its result is used so that it is done.
std::uint64_t compute(std::uint64_t state) noexcept {
  for (int i = 0; i < 10'000; ++i) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
  }
  return state;
}

/// Submits, computes on until the move has ended, looking now and then; what it computes is not
/// charged, but submitting, every look and the final wait() are.
Result<Cost> submit_and_compute(Lane& lane, const Move& move) {
  const Stopwatch all;
  const Stopwatch submitting;
  const auto ticket = lane.submit(move, SubmitMode::queued);
  const double submit_ns = submitting.spent().caller_ns;
  if (!ticket) return Unexpected(ticket.error());
  const Deadline deadline = patience();
  std::uint64_t state = 0x9e3779b97f4a7c15;
  std::uint64_t looks = 1;
  for (; lane.outcome(*ticket) == Outcome::pending; ++looks) {
    state = compute(state);
    asm volatile("" : : "r"(state));
    if (deadline.passed()) break;
  }
  const Spent until_end = all.spent();
  const Stopwatch learning;
  for (std::uint64_t i = 0; i < looks; ++i) static_cast<void>(lane.outcome(*ticket));
  if (auto ended = await(lane, *ticket); !ended) return Unexpected(ended.error());
  const double learn_ns = learning.spent().caller_ns;
  return Cost{until_end.wall_ns, {0, submit_ns + learn_ns, until_end.helper_ns}};
}

/// Submits and sleeps until the move has ended.
Result<Cost> submit_and_sleep(Lane& lane, const Move& move) {
  const Stopwatch all;
  const auto ticket = lane.submit(move, SubmitMode::queued);
  if (!ticket) return Unexpected(ticket.error());
  if (auto ended = await(lane, *ticket, WaitStrategy::sleep); !ended)
    return Unexpected(ended.error());
  const Spent spent = all.spent();
  return Cost{spent.wall_ns, spent};
}

Once by_lane(Environment& environment, std::shared_ptr<Lane> lane,
             Result<Cost> (*submit)(Lane&, const Move&)) {
  return [&environment, lane = std::move(lane), submit](const Walk& walk) {
    return submit(*lane, piece_move(environment.arena(), walk, 0));
  };
}

/// Waited for by who submitted it, nothing else going on.
Once by_mover(Mover mover) {
  return [mover = std::move(mover)](const Walk& walk) -> Result<Cost> {
    const Stopwatch all;
    if (auto moved = mover(walk); !moved) return Unexpected(moved.error());
    const Spent spent = all.spent();
    return Cost{spent.wall_ns, spent};
  };
}

Result<void> take_turn(Environment& environment, const Walk& walk, const Once& once,
                       Series& series) {
  std::vector<double> end_ns;
  std::vector<double> caller_ns;
  std::vector<double> helper_ns;
  for (int i = 0; i < kMovesOfTurn; ++i) {
    environment.arena().change(walk);
    const auto cost = once(walk);
    if (!cost) return Unexpected(cost.error());
    if (auto right = environment.arena().verify(walk, environment.reader()); !right) return right;
    end_ns.push_back(cost->end_ns);
    caller_ns.push_back(cost->spent.caller_ns);
    helper_ns.push_back(cost->spent.helper_ns);
  }
  const double caller = median(caller_ns);
  const double helper = median(helper_ns);
  series.add(kLatencyP50, "ns", median(end_ns));
  series.add(kCallerCpu, "ns", caller);
  series.add(kHelperCpu, "ns", helper);
  series.add(kTotalCpu, "ns", caller + helper);
  return {};
}

Result<std::vector<Entrant>> enter_async(Environment& environment, Bytes bytes) {
  std::vector<Entrant> entrants;
  const auto add = [&](std::string subject, Once once) {
    entrants.push_back({std::move(subject), [&environment, walk = Walk::over(1, bytes),
                                             once = std::move(once)](Series& series) {
                          return take_turn(environment, walk, once, series);
                        }});
  };
  add(std::string(kMemcpy), by_mover(memcpy_mover(environment.arena())));
  auto waited = waited_mover(environment.arena(), *environment.find(kInlineEngine)->engine);
  if (!waited) return Unexpected(waited.error());
  add(environment.find(kInlineEngine)->subject, by_mover(std::move(*waited)));
  for (const NamedEngine& one : environment.engines()) {
    if (one.name == kInlineEngine) continue;
    auto lane = lane_of(*one.engine);
    if (!lane) return Unexpected(lane.error());
    add(one.subject + "/computing", by_lane(environment, *lane, submit_and_compute));
    add(one.subject + "/sleeping", by_lane(environment, *lane, submit_and_sleep));
  }
  return entrants;
}

}  // namespace

std::vector<Experiment> async_experiments(const Environment& environment) {
  const Bytes bytes = environment.settings().own_size(kCopyBytes);
  return {{fmt::format("{}/{}", kAsync, format_size(bytes)), bytes,
           environment.settings().common.rounds,
           [bytes](Environment& there) { return enter_async(there, bytes); }}};
}

}  // namespace gantry::bench
