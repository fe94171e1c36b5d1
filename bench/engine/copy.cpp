// Moves that are waited for one by one, and moves of which several are under way.

#include <fmt/format.h>

#include <algorithm>

#include "../support/program/sizes.hpp"
#include "movers.hpp"

namespace gantry::bench {
namespace {

constexpr Bytes kCopyWindow = Bytes{64} << 20;  // of the pieces that are gone through
constexpr Bytes kMostRotated = Bytes{1} << 20;  // larger ones are in no cache anyway
constexpr unsigned kInFlight = 16;

Result<std::vector<Entrant>> enter_copy(Environment& environment, const Walk& walk) {
  Arena& arena = environment.arena();
  std::vector<Entrant> entrants;
  entrants.push_back(mover_entrant(environment, std::string(kMemcpy), walk, memcpy_mover(arena)));
  entrants.push_back(mover_entrant(environment, std::string(kCopier), walk,
                                   copier_mover(arena, environment.streaming_from())));
  for (const NamedEngine& one : environment.engines()) {
    auto mover = waited_mover(arena, *one.engine);
    if (!mover) return Unexpected(mover.error());
    entrants.push_back(mover_entrant(environment, one.subject, walk, std::move(*mover)));
  }
  return entrants;
}

Result<std::vector<Entrant>> enter_queued(Environment& environment, const Walk& walk,
                                          unsigned in_flight) {
  Arena& arena = environment.arena();
  std::vector<Entrant> entrants;
  entrants.push_back(mover_entrant(environment, std::string(kMemcpy), walk, memcpy_mover(arena)));
  for (const NamedEngine& one : environment.engines()) {
    auto mover = queued_mover(arena, *one.engine, in_flight);
    if (!mover) return Unexpected(mover.error());
    entrants.push_back(mover_entrant(environment, one.subject, walk, std::move(*mover)));
  }
  return entrants;
}

}  // namespace

std::vector<Experiment> copy_experiments(const Environment& environment) {
  std::vector<Experiment> all;
  const auto add = [&](std::string name, Bytes window, Bytes bytes) {
    all.push_back({std::move(name), bytes, environment.settings().common.rounds,
                   [walk = Walk::over(window, bytes)](Environment& there) {
                     return enter_copy(there, walk);
                   }});
  };
  for (const Bytes bytes : environment.settings().common.sizes) {
    add(fmt::format("{}/{}", kCopy, format_size(bytes)), 1, bytes);
    if (bytes <= kMostRotated)
      add(fmt::format("{}/rotating/{}", kCopy, format_size(bytes)), kCopyWindow, bytes);
  }
  return all;
}

std::vector<Experiment> queued_experiments(const Environment& environment) {
  std::vector<Experiment> all;
  const Bytes room = environment.arena_bytes();
  for (const Bytes bytes : environment.settings().common.sizes) {
    // Moves under way at the same time have destinations of their own.
    const Bytes pieces = room / std::bit_ceil(bytes);
    const auto in_flight = static_cast<unsigned>(std::min<Bytes>(kInFlight, pieces));
    const Walk walk = Walk::over(std::bit_ceil(bytes) * in_flight, bytes);
    const auto add = [&](std::string name, const Walk& over) {
      all.push_back({std::move(name), bytes, environment.settings().common.rounds,
                     [=](Environment& there) { return enter_queued(there, over, in_flight); }});
    };
    add(fmt::format("{}/{}x{}", kQueued, in_flight, format_size(bytes)), walk);
    if (bytes <= kMostRotated)
      add(fmt::format("{}/rotating/{}x{}", kQueued, in_flight, format_size(bytes)),
          Walk::over(kCopyWindow, bytes));
  }
  return all;
}

}  // namespace gantry::bench
