#pragma once  // bench/engine/movers.hpp: the ways of doing the moves of a walk.

#include "turns.hpp"

namespace gantry::bench {

inline constexpr std::string_view kMemcpy = "memcpy";
inline constexpr std::string_view kCopier = "gantry/copier";

/// Moves every piece of a walk from the arena's source to its destination; done when it returns.
using Mover = std::function<Result<void>(const Walk&)>;

/// Of a move that has to end, however slow the machine: only a broken engine is slower.
[[nodiscard]] inline Deadline patience() noexcept {
  return Deadline::after(std::chrono::minutes(2));
}
/// Waits for it; an error unless it was done.
[[nodiscard]] Result<void> await(Lane& lane, Ticket ticket,
                                 WaitStrategy waiting = WaitStrategy::automatic,
                                 Deadline deadline = patience());
/// A lane of the engine's, which entrants may share.
[[nodiscard]] Result<std::shared_ptr<Lane>> lane_of(Engine& engine);
/// The copy of the piece of `walk` at `at`.
[[nodiscard]] Move piece_move(Arena& arena, const Walk& walk, Bytes at) noexcept;

[[nodiscard]] Mover memcpy_mover(Arena& arena);
/// Copier, without tickets.
[[nodiscard]] Mover copier_mover(Arena& arena, Bytes streaming_from);
/// Each move submitted as one that is waited for, and waited for.
[[nodiscard]] Result<Mover> waited_mover(Arena& arena, Engine& engine);
/// `in_flight` moves submitted as queued ones, each on its own, then the last one waited for.
[[nodiscard]] Result<Mover> queued_mover(Arena& arena, Engine& engine, unsigned in_flight);

/// An entrant whose turn goes over the pieces of `walk`, whole rounds of them, until a turn's time
/// is filled; checks the data; reports times, throughput and CPU time of one move.
[[nodiscard]] Entrant mover_entrant(Environment& environment, std::string subject, const Walk& walk,
                                    Mover mover);

}  // namespace gantry::bench
