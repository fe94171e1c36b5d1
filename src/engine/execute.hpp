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

/// Executes a checked move in the calling thread. With `catch_faults` a page that cannot be read or
/// written is an answer rather than a signal (see fault_guard.hpp for the limits). `cache` is
/// reader_soon or streaming.
[[nodiscard]] Executed execute(const Move& move, CacheUse cache, bool catch_faults) noexcept;

/// Requests to end a move early; both must outlive it. Relaxed: no data comes with them.
struct CancelRequests {
  const std::atomic<bool>& of_lane;
  const std::atomic<bool>& of_engine;
  [[nodiscard]] bool any() const noexcept {
    return of_lane.load(std::memory_order_relaxed) || of_engine.load(std::memory_order_relaxed);
  }
};

/// The same unit by unit, until it ends or is asked to end (Cause::cancelled).
[[nodiscard]] Executed execute_in_units(const Move& move, CacheUse cache, bool catch_faults,
                                        const CancelRequests& requests) noexcept;

/// `move.cache`; if it is `automatic`, by size.
[[nodiscard]] CacheUse resolve_cache(const Move& move, Bytes streaming_from) noexcept;

}  // namespace gantry
