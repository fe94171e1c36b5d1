#pragma once  // engine/execute.hpp: a part of a move, done by the calling thread, faults caught.

#include <gantry/engine.hpp>

namespace gantry {

/// How much a CPU does of a move before it looks up: whether it was cancelled, whether another
/// lane waits. Small enough for tens of microseconds, large enough to hide a lock.
inline constexpr Bytes kUnitBytes = Bytes{512} << 10;

/// What came of a part of a move. Offsets count from the part's front, or for Move::backwards()
/// from its end.
struct Executed {
  Bytes bytes_done = 0;  ///< Exact to a page after a fault. Of compare: equal bytes.
  Cause cause = Cause::none;
  std::uintptr_t fault_address = 0;
  bool equal = true;         ///< Of compare.
  std::uint32_t crc32c = 0;  ///< Of the CRCs: seed and part together, when `cause` is none.
};

/// Whether the parts of a move depend on each other and must be done one after another, in order
/// (the CRCs: pass the last part's value on as `seed`; overlapping copies).
[[nodiscard]] bool is_sequential(const Move& move) noexcept;

/// The part [offset, offset + bytes) of a move as a move of its own; for Move::backwards() counted
/// from the end.
[[nodiscard]] Move part_of(const Move& move, Bytes offset, Bytes bytes) noexcept;

/// Executes a checked move in the calling thread. With `catch_faults` a page that cannot be read
/// or written is an answer rather than a signal (see fault_guard.hpp for the limits).
/// `cache` is reader_soon or streaming.
[[nodiscard]] Executed execute(const Move& move, CacheUse cache, bool catch_faults) noexcept;

/// The part of a move, with the CRC so far. Its bytes count as the whole's do: a part that is not
/// done from the end itself and fails counts as not done where the whole is.
[[nodiscard]] Executed execute_part(const Move& whole, Bytes offset, Bytes bytes,
                                    std::uint32_t crc32c, CacheUse cache,
                                    bool catch_faults) noexcept;

/// Who may ask a move to end early; both outlive it. Relaxed: requests, no data comes with them.
struct CancelRequests {
  const std::atomic<bool>& of_lane;
  const std::atomic<bool>& of_engine;
  [[nodiscard]] bool any() const noexcept {
    return of_lane.load(std::memory_order_relaxed) || of_engine.load(std::memory_order_relaxed);
  }
};

/// The same unit by unit, until it has come to its end or is asked to end (Cause::cancelled).
[[nodiscard]] Executed execute_in_units(const Move& move, CacheUse cache, bool catch_faults,
                                        const CancelRequests& requests) noexcept;

/// `move.cache`, or by size where it is `automatic`.
[[nodiscard]] CacheUse resolve_cache(const Move& move, Bytes streaming_from) noexcept;

}  // namespace gantry
