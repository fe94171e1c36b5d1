#pragma once  // engine/execute.hpp: executes a part of a move in the calling thread and catches
              // faults.

#include <gantry/engine.hpp>

namespace gantry {

/// Bytes that a CPU does of a move before it checks whether the move was cancelled or another lane
/// waits. Small enough for tens of microseconds, large enough to hide a lock.
inline constexpr Bytes kUnitBytes = Bytes{512} << 10;

/// The outcome of a part of a move. Offsets count from the part's front, or for Move::backwards()
/// from its end.
struct Executed {
  Bytes bytes_done = 0;  ///< Exact to a page after a fault. For compare: equal bytes.
  Cause cause = Cause::none;
  std::uintptr_t fault_address = 0;
  bool equal = true;         ///< For compare.
  std::uint32_t crc32c = 0;  ///< For CRCs: seed and part together, if `cause` is none.
};

/// True if the parts of a move depend on each other and must be done one after another, in order:
/// CRCs, which pass the last part's value on as `seed`, and overlapping copies.
[[nodiscard]] bool is_sequential(const Move& move) noexcept;

/// The part [offset, offset + bytes) of a move as a move of its own; for Move::backwards() counted
/// from the end.
[[nodiscard]] Move part_of(const Move& move, Bytes offset, Bytes bytes) noexcept;

/// Executes a checked move in the calling thread. With `catch_faults` a page that cannot be read or
/// written is an answer rather than a signal (see fault_guard.hpp for the limits). `cache` is
/// reader_soon or streaming.
[[nodiscard]] Executed execute(const Move& move, CacheUse cache, bool catch_faults) noexcept;

/// Executes a part of a move, with the CRC so far. Bytes count as for the whole move: if a part is
/// not itself done from the end, but the whole is, a part that fails counts as not done.
[[nodiscard]] Executed execute_part(const Move& whole, Bytes offset, Bytes bytes,
                                    std::uint32_t crc32c, CacheUse cache,
                                    bool catch_faults) noexcept;

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
