#pragma once  // engine/execute.hpp: executes a part of a move in the calling thread and catches
              // faults.

#include <gantry/engine.hpp>

namespace gantry {

/// Bytes that a CPU does of a move before it checks whether the move was cancelled or another lane
/// waits. Small enough for tens of microseconds, large enough to hide a lock.
inline constexpr Bytes kUnitBytes = Bytes{512} << 10;

/// The outcome of a part of a move. Offsets count from the part's front.
struct Executed {
  Bytes bytes_done = 0;  ///< Exact to a page after a fault.
  Cause cause = Cause::none;
  std::uintptr_t fault_address = 0;
};

/// The part [offset, offset + bytes) of a move as a move of its own.
[[nodiscard]] Move part_of(const Move& move, Bytes offset, Bytes bytes) noexcept;

/// Executes a checked move in the calling thread. A page that cannot be read or written
/// is an answer rather than a signal (see fault_guard.hpp for the limits). `cache` is
/// reader_soon or streaming.
[[nodiscard]] Executed execute(const Move& move, CacheUse cache) noexcept;

/// The same unit by unit, until it ends or `cancelled` asks it to end (Cause::cancelled). That is
/// read relaxed: no data comes with it.
[[nodiscard]] Executed execute_in_units(const Move& move, CacheUse cache,
                                        const std::atomic<bool>& cancelled) noexcept;

/// `move.cache`; if it is `automatic`, by size.
[[nodiscard]] CacheUse resolve_cache(const Move& move, Bytes streaming_from) noexcept;

}  // namespace gantry
