// How the time until a move ends is spent: latency against the waiting thread's CPU.

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "../support/program/sizes.hpp"
#include "movers.hpp"

namespace gantry::bench {
namespace {

constexpr std::array kWaitingSizes = {Bytes{4} << 10,  Bytes{64} << 10, Bytes{1} << 20,
                                      Bytes{16} << 20, Bytes{64} << 20, Bytes{256} << 20,
                                      Bytes{1} << 30};
constexpr std::array kWays = {WaitStrategy::poll, WaitStrategy::hybrid, WaitStrategy::sleep,
                              WaitStrategy::automatic};
constexpr Bytes kBurstBytes = Bytes{64} << 20;  // of small moves together
constexpr Bytes kMostWaitingMoves = 200;
constexpr Bytes kFewestMoves = 3;

Result<void> take_turn(Environment& environment, Lane& lane, const Walk& walk, WaitStrategy waiting,
                       Series& series) {
  environment.arena().change(walk);
  std::vector<double> latency_ns;
  std::vector<double> cpu_ns;
  for (Bytes left = std::clamp(kBurstBytes / walk.bytes, kFewestMoves, kMostWaitingMoves); left > 0;
       --left) {
    const Move move = piece_move(environment.arena(), walk, 0);
    const Deadline deadline = patience();
    const auto begin = Stopwatch::Clock::now();
    const auto ticket = lane.submit(move, SubmitMode::queued);
    if (!ticket) return Unexpected(ticket.error());
    const auto cpu = thread_cpu_time();
    if (auto ended = await(lane, *ticket, waiting, deadline); !ended) return ended;
    const auto end = Stopwatch::Clock::now();
    cpu_ns.push_back(Stopwatch::ns(thread_cpu_time() - cpu));
    latency_ns.push_back(Stopwatch::ns(end - begin));
  }
  if (auto right = environment.arena().verify(walk, environment.reader()); !right) return right;
  series.add(kLatencyP50, "ns", median(latency_ns));
  series.add(kWaitingCpu, "ns", median(cpu_ns));
  return {};
}

/// What the lane says that a wait for a move that was queued does where it does not help.
void explain_to(Series& series, const Explanation& explanation) {
  series.add("explained_poll", "1", explanation.waiting == WaitStrategy::poll ? 1 : 0);
  series.add("explained_hybrid", "1", explanation.waiting == WaitStrategy::hybrid ? 1 : 0);
}

Result<std::vector<Entrant>> enter_waiting(Environment& environment, Bytes bytes) {
  std::vector<Entrant> entrants;
  const Walk walk = Walk::over(1, bytes);
  for (const NamedEngine& one : environment.engines()) {
    if (one.name == kAutoEngine || !one.engine->capabilities().moves_itself) continue;
    auto opened = lane_of(*one.engine);
    if (!opened) return Unexpected(opened.error());
    const std::shared_ptr<Lane> lane = std::move(*opened);
    for (const WaitStrategy waiting : kWays) {
      entrants.push_back({fmt::format("{}/{}", one.subject, to_string(waiting)),
                          [&environment, lane, walk, waiting](Series& series) {
                            return take_turn(environment, *lane, walk, waiting, series);
                          }});
    }
    entrants.push_back({one.subject, [&environment, lane, walk](Series& series) {
                          const Move move = piece_move(environment.arena(), walk, 0);
                          explain_to(series, lane->explain(move, SubmitMode::queued));
                          return Result<void>{};
                        }});
  }
  return entrants;
}

}  // namespace

std::vector<Experiment> waiting_experiments(const Environment& environment) {
  std::vector<Experiment> all;
  for (const Bytes bytes : environment.settings().own_sizes(kWaitingSizes))
    all.push_back({fmt::format("{}/{}", kWaiting, format_size(bytes)), bytes,
                   environment.settings().common.rounds,
                   [bytes](Environment& there) { return enter_waiting(there, bytes); }});
  return all;
}

}  // namespace gantry::bench
