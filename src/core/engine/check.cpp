#include "core/engine/check.hpp"

#include <algorithm>
#include <array>

#include "core/base/result.hpp"

namespace gantry {
namespace {

struct Range {
  std::string_view name;
  std::uintptr_t from = 0;
  Bytes bytes = 0;
};

struct Ranges {
  std::array<Range, 2> all{};
  std::size_t count = 0;
  void add(std::string_view name, const std::byte* at, Bytes bytes) noexcept {
    all[count++] = {name, reinterpret_cast<std::uintptr_t>(at), bytes};
  }
};

// The ranges that a move of this kind touches; the source first.
Ranges ranges_of(const Move& move) noexcept {
  Ranges ranges;
  const Bytes bytes = move.bytes;
  const bool reshapes = move.kind == Move::Kind::reshape;
  if (move.reads()) ranges.add("source", move.source, reshapes ? move.source_bytes : bytes);
  ranges.add("destination", move.destination, bytes);
  return ranges;
}

tl::unexpected<Error> refuse(const Move& move, const std::string& why, std::string hint = {}) {
  return fail(Code::invalid_argument,
              fmt::format("a {} of {} bytes: {}", to_string(move.kind), move.bytes, why),
              std::move(hint));
}

Result<void> check_overlap(const Move& move, const Range& one, const Range& other) {
  if (one.from >= other.from + other.bytes || other.from >= one.from + one.bytes) return {};
  return refuse(move, fmt::format("the {} at {:#x} and the {} at {:#x} overlap", one.name, one.from,
                                  other.name, other.from));
}

Result<void> check_reshape(const Move& move) {
  if (move.plan == nullptr) return refuse(move, "it has no plan", "make it with Move::reshape()");
  const ReshapePlan& plan = *move.plan;
  if (move.source_bytes < plan.source_bytes())
    return refuse(move, fmt::format("the source has {} bytes, its plan reads {}: {}",
                                    move.source_bytes, plan.source_bytes(), plan.text()));
  if (move.plan_from > plan.destination_bytes() ||
      move.bytes > plan.destination_bytes() - move.plan_from)
    return refuse(move, fmt::format("from byte {} on its plan makes {}: {}", move.plan_from,
                                    plan.destination_bytes() -
                                        std::min(move.plan_from, plan.destination_bytes()),
                                    plan.text()));
  return {};
}

Result<void> slow_check(const Move& move) {
  if (move.kind == Move::Kind::reshape) GANTRY_TRY(check_reshape(move));
  const Ranges ranges = ranges_of(move);
  for (std::size_t i = 0; i < ranges.count; ++i) {
    const Range& range = ranges.all[i];
    if (range.from == 0) return refuse(move, fmt::format("the {} is null", range.name));
    if (range.from + range.bytes < range.from)
      return refuse(move, fmt::format("the {} at {:#x} would wrap around the end of memory",
                                      range.name, range.from));
    for (std::size_t k = 0; k < i; ++k) GANTRY_TRY(check_overlap(move, ranges.all[k], range));
  }
  return {};
}

}  // namespace

Result<void> check_move(const Move& move) {
  if (move.bytes == 0) return {};
  if (static_cast<std::size_t>(move.kind) >= kMoveKinds)
    return fail(Code::invalid_argument,
                fmt::format("a move of kind {}: there are 0 to {}",
                            static_cast<unsigned>(move.kind), kMoveKinds - 1));
  if (static_cast<unsigned>(move.cache) > static_cast<unsigned>(CacheUse::streaming))
    return fail(Code::invalid_argument, fmt::format("a move with cache use {}: there are 0 to 2",
                                                    static_cast<unsigned>(move.cache)));
  if (is_sound_copy(move)) [[likely]]  // the common case without a list of ranges
    return {};
  return slow_check(move);
}

Result<void> check_batch(std::span<const Move> batch, std::size_t depth) {
  if (batch.size() > depth)
    return fail(Code::invalid_argument,
                fmt::format("a batch of {} moves on a lane for {}", batch.size(), depth),
                "open the lane with more depth, or submit in parts");
  for (const Move& move : batch) GANTRY_TRY(check_move(move));
  return {};
}

Result<void> check_lane(const LaneOptions& options) {
  if (options.depth == 0 || options.depth > kMaxLaneDepth)
    return fail(Code::invalid_argument, fmt::format("a lane for {} moves: 1 to {} are possible",
                                                    options.depth, kMaxLaneDepth));
  return {};
}

}  // namespace gantry
