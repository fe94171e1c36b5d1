// What a copy that leaves its data in the cache, or past it, costs its reader on another core.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "../support/program/sizes.hpp"
#include "movers.hpp"

namespace gantry::bench {
namespace {

constexpr Bytes kSmallest = Bytes{256} << 10;
constexpr Bytes kLargest = Bytes{256} << 20;
constexpr Bytes kWindow = Bytes{64} << 20;
constexpr Bytes kTurnBytes = Bytes{32} << 20;
constexpr Bytes kMostMoves = 128;  // of a turn: each wakes the reader
constexpr std::array kUses = {CacheUse::reader_soon, CacheUse::streaming, CacheUse::automatic};

using CopyPiece = std::function<Result<void>(const Move&)>;

Result<void> take_turn(Environment& environment, const Walk& pieces, const CopyPiece& copy,
                       Series& series) {
  Arena& arena = environment.arena();
  const Walk walk = pieces.with_moves(std::clamp(kTurnBytes / pieces.bytes, Bytes{1}, kMostMoves));
  arena.change(walk);
  std::vector<double> copying;
  std::vector<double> reading;
  std::vector<double> both;
  Bytes at = 0;
  for (std::uint64_t left = walk.moves; left > 0; --left, at = walk.next(at)) {
    const Move move = piece_move(arena, walk, at);
    const auto begin = Stopwatch::Clock::now();
    if (auto copied = copy(move); !copied) return copied;
    const double copy_ns = Stopwatch::ns(Stopwatch::Clock::now() - begin);
    environment.reader().start([&] { return checksum({move.destination, move.bytes}); });
    const Reader::Reading read = environment.reader().finish();
    copying.push_back(copy_ns);
    reading.push_back(read.ns);
    both.push_back(copy_ns + read.ns);
  }
  if (auto right = arena.verify(walk, environment.reader()); !right) return right;
  series.add(kLatencyP50, "ns", median(both));
  series.add("copy_time", "ns", median(copying));
  series.add("read_time", "ns", median(reading));
  return {};
}

Result<std::vector<Entrant>> enter_cache(Environment& environment, Bytes bytes) {
  std::vector<Entrant> entrants;
  const auto add = [&](std::string subject, CopyPiece copy) {
    entrants.push_back(
        {std::move(subject),
         [&environment, walk = Walk::over(std::max(kWindow, bytes), bytes), copy = std::move(copy)](
             Series& series) { return take_turn(environment, walk, copy, series); }});
  };
  add(std::string(kMemcpy), [](const Move& move) -> Result<void> {
    std::memcpy(move.destination, move.source, move.bytes);
    return {};
  });
  auto lane = lane_of(*environment.find(kInlineEngine)->engine);
  if (!lane) return Unexpected(lane.error());
  for (const CacheUse use : kUses)
    add(fmt::format("{}/{}", environment.find(kInlineEngine)->subject, to_string(use)),
        [lane = *lane, use](Move move) -> Result<void> {
          move.cache = use;
          const auto ticket = lane->submit(move, SubmitMode::synchronous);
          if (!ticket) return Unexpected(ticket.error());
          return await(*lane, *ticket);
        });
  return entrants;
}

}  // namespace

std::vector<Experiment> cache_experiments(const Environment& environment) {
  std::vector<Bytes> sizes;
  for (Bytes bytes = kSmallest; bytes <= kLargest; bytes *= 2) sizes.push_back(bytes);
  std::vector<Experiment> all;
  for (const Bytes bytes : environment.settings().own_sizes(sizes))
    all.push_back({fmt::format("{}/{}", kCache, format_size(bytes)), bytes,
                   environment.settings().common.rounds,
                   [bytes](Environment& there) { return enter_cache(there, bytes); }});
  return all;
}

}  // namespace gantry::bench
