// How small moves fare in a lane of their own while a large one is under way in another.

#include <fmt/format.h>

#include <algorithm>

#include "../support/program/sizes.hpp"
#include "movers.hpp"

namespace gantry::bench {
namespace {

constexpr Bytes kLarge = Bytes{1} << 30;
constexpr Bytes kSmall = Bytes{4} << 10;
constexpr std::size_t kSamplesOfTurn = 400;  // at least: 1,200 in the three rounds of --quick
constexpr std::chrono::microseconds kBetween{20};

struct Lanes {
  std::shared_ptr<Lane> large;
  std::shared_ptr<Lane> small;
};

void spin(std::chrono::nanoseconds time) noexcept {
  const auto end = Stopwatch::Clock::now() + time;
  while (Stopwatch::Clock::now() < end) {
  }
}

/// Small moves, one after the other, until the large one has ended; those that began before count.
Result<void> sample(const Lanes& lanes, const Move& large, const Move& small, WaitStrategy waiting,
                    std::vector<double>& samples) {
  const auto ticket = lanes.large->submit(large, SubmitMode::queued);
  if (!ticket) return Unexpected(ticket.error());
  const Deadline deadline = patience();
  do {
    const auto begin = Stopwatch::Clock::now();
    const auto quick = lanes.small->submit(small, SubmitMode::queued);
    if (!quick) return Unexpected(quick.error());
    if (auto ended = await(*lanes.small, *quick, waiting, deadline); !ended) return ended;
    samples.push_back(Stopwatch::ns(Stopwatch::Clock::now() - begin));
    spin(kBetween);
  } while (lanes.large->outcome(*ticket) == Outcome::pending);
  return await(*lanes.large, *ticket);
}

Result<void> take_turn(Environment& environment, const Lanes& lanes, Bytes bytes,
                       WaitStrategy waiting, Series& series) {
  Arena& arena = environment.arena();
  // The small one lies in the last part of the buffers, which the large one leaves out.
  const Bytes small_bytes = std::min(kSmall, bytes / 2);
  const Bytes large_bytes = bytes - small_bytes;
  const Walk whole = Walk::over(1, bytes);
  arena.change(whole);
  const Move large = Move::copy({arena.destination(), large_bytes}, {arena.source(), large_bytes});
  const Move small = Move::copy({arena.destination() + large_bytes, small_bytes},
                                {arena.source() + large_bytes, small_bytes});
  std::vector<double> samples;
  std::size_t large_moves = 0;
  for (; samples.size() < kSamplesOfTurn; ++large_moves) {
    if (auto going = environment.check_interrupt(); !going) return going;
    if (auto done = sample(lanes, large, small, waiting, samples); !done) return done;
  }
  if (auto right = arena.verify(whole, environment.reader()); !right) return right;
  series.add(kLatencyP50, "ns", percentile(samples, 0.5));
  series.add(kLatencyP99, "ns", percentile(samples, 0.99));
  series.add(kLatencyMax, "ns", percentile(samples, 1));
  series.add("samples", "1", static_cast<double>(samples.size()));
  series.add("large_moves", "1", static_cast<double>(large_moves));
  return {};
}

Result<std::vector<Entrant>> enter_fairness(Environment& environment, Bytes bytes) {
  std::vector<Entrant> entrants;
  for (const NamedEngine& one : environment.engines()) {
    // The policy may let the caller copy: then nothing is under way meanwhile.
    if (one.name == kAutoEngine || !one.engine->capabilities().moves_itself) continue;
    const auto large = lane_of(*one.engine);
    if (!large) return Unexpected(large.error());
    const auto small = lane_of(*one.engine);
    if (!small) return Unexpected(small.error());
    const auto add = [&](std::string_view how, WaitStrategy waiting) {
      entrants.push_back(
          {fmt::format("{}/{}", one.subject, how),
           [&environment, lanes = Lanes{*large, *small}, bytes, waiting](Series& series) {
             return take_turn(environment, lanes, bytes, waiting, series);
           }});
    };
    add("automatic", WaitStrategy::automatic);
    add("sleeping", WaitStrategy::sleep);  // does not help itself: the workers have to come to it
  }
  return entrants;
}

}  // namespace

std::vector<Experiment> fairness_experiments(const Environment& environment) {
  const Bytes bytes = environment.settings().own_size(kLarge);
  return {{fmt::format("{}/{} beside {}", kFairness, format_size(std::min(kSmall, bytes / 2)),
                       format_size(bytes)),
           bytes, environment.settings().common.rounds,
           [bytes](Environment& there) { return enter_fairness(there, bytes); }}};
}

}  // namespace gantry::bench
