// Whether the policy does what it says: its explanations against its counters.

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "../support/program/sizes.hpp"
#include "movers.hpp"

namespace gantry::bench {
namespace {

constexpr unsigned kMoves = 16;

using EngineCounts = std::array<std::uint64_t, kCopyEngines>;

EngineCounts counted(const Engine& engine) {
  const EngineReport report = engine.report();
  EngineCounts counts{};
  for (std::size_t i = 0; i < kCopyEngines; ++i) counts[i] = report.by_engine[i].moves;
  return counts;
}

/// The moves of `walk`, each explained right before it is submitted.
Result<EngineCounts> explain_and_move(Arena& arena, Lane& lane, const Walk& walk, SubmitMode use) {
  EngineCounts explained{};
  Result<Ticket> ticket = Ticket{};
  Bytes at = 0;
  for (std::uint64_t left = walk.moves; left > 0; --left, at = walk.next(at)) {
    const Move move = piece_move(arena, walk, at);
    ++explained[static_cast<std::size_t>(lane.explain(move, use).engine)];
    ticket = lane.submit(move, use);
    if (!ticket) return Unexpected(ticket.error());
    if (use == SubmitMode::queued) continue;
    if (auto ended = await(lane, *ticket); !ended) return Unexpected(ended.error());
  }
  if (auto ended = await(lane, *ticket); !ended) return Unexpected(ended.error());
  return explained;
}

/// The share of moves that were counted where their explanations said.
Result<void> take_turn(Environment& environment, const NamedEngine& policy, Lane& lane,
                       const Walk& walk, SubmitMode use, Series& series) {
  environment.arena().change(walk);
  const EngineCounts before = counted(*policy.engine);
  const auto explained = explain_and_move(environment.arena(), lane, walk, use);
  if (!explained) return Unexpected(explained.error());
  const EngineCounts after = counted(*policy.engine);
  if (auto right = environment.arena().verify(walk, environment.reader()); !right) return right;
  std::uint64_t agreeing = 0;
  for (std::size_t i = 0; i < kCopyEngines; ++i) {
    const std::uint64_t done = after[i] - before[i];
    agreeing += std::min(done, (*explained)[i]);
    if (done > 0 || (*explained)[i] > 0)
      series.add(to_string(static_cast<CopyEngine>(i)), "1", static_cast<double>(done));
  }
  series.add("explained_as_counted", "1",
             static_cast<double>(agreeing) / static_cast<double>(walk.moves));
  return {};
}

Result<std::vector<Entrant>> enter_policy(Environment& environment, const Walk& walk,
                                          SubmitMode use) {
  const NamedEngine* const policy = environment.find(kAutoEngine);
  if (policy == nullptr) return std::vector<Entrant>{};
  auto lane = lane_of(*policy->engine);
  if (!lane) return Unexpected(lane.error());
  return std::vector<Entrant>{
      {policy->subject, [&environment, policy, lane = *lane, walk, use](Series& series) {
         return take_turn(environment, *policy, *lane, walk, use, series);
       }}};
}

}  // namespace

std::vector<Experiment> policy_experiments(const Environment& environment) {
  std::vector<Experiment> all;
  for (const SubmitMode use : {SubmitMode::synchronous, SubmitMode::queued})
    for (const Bytes bytes : environment.settings().common.sizes) {
      const Bytes pieces =
          std::min<Bytes>(kMoves, environment.arena_bytes() / std::bit_ceil(bytes));
      const Walk walk = Walk::over(std::bit_ceil(bytes) * pieces, bytes);
      all.push_back({fmt::format("{}/{}/{}", kPolicy, to_string(use), format_size(bytes)), bytes,
                     environment.settings().common.rounds,
                     [=](Environment& there) { return enter_policy(there, walk, use); }});
    }
  return all;
}

}  // namespace gantry::bench
