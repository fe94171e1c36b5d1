#pragma once  // engine/thread/lane_queue.hpp: the moves of one lane, cut into units.

#include <gantry/engine.hpp>
#include <limits>
#include <span>
#include <vector>

#include "core/engine/execute.hpp"
#include "core/engine/lane_progress.hpp"

namespace gantry {

/// One move on its way through a lane. `move`, `cache` and `node` do not change while its units are
/// executed without the lock.
struct LaneSlot {
  Move move;
  CacheUse cache = CacheUse::reader_soon;
  unsigned node = 0;  // index of the group of workers near its destination
  std::uint64_t ticket = 0;
  Bytes lane_bytes = 0;    // bytes of the lane's moves up to and including this one, ever
  Bytes taken = 0;         // bytes in units that were handed out
  unsigned in_flight = 0;  // units that are being executed
  bool over = false;       // no more units are handed out
  // What ended the move early: the event nearest to its front (I3).
  Bytes event_at = std::numeric_limits<Bytes>::max();
  Executed event;
  std::uint64_t helper_cpu_ns = 0;
};

/// A piece of a move, handed out to one thread.
struct Unit {
  LaneSlot* slot = nullptr;
  Bytes offset = 0;  // as part_of() counts
  Bytes bytes = 0;
};

// The order of a lane. Knows neither threads nor locks: all members except stage() and
// execute_unit() are called under the engine's lock.
//   I1  Tickets end in order: ended < every ticket with units in flight <= next_.
//   I2  Units of a move are handed out from its front on.
//   I3  So all before the nearest event was handed out, and is done when nothing is in flight.
//   I4  A slot is reused only after its ticket ended: nobody holds a unit of it then.
class LaneQueue {
 public:
  LaneQueue(std::size_t depth, LaneProgress& progress) : slots_(depth), progress_(progress) {}

  [[nodiscard]] std::size_t depth() const noexcept { return slots_.size(); }
  [[nodiscard]] std::uint64_t given() const noexcept { return given_; }
  [[nodiscard]] std::uint64_t unended() const noexcept { return given_ - progress_.ended(); }
  /// Bytes submitted and neither done nor given up.
  [[nodiscard]] Bytes undone() const noexcept { return submitted_bytes_ - settled_bytes_; }

  /// Writes the `index`th move of the next batch into its free slot (I4). Called by the one
  /// submitter that submits, without the engine's lock: nobody looks at a slot before publish().
  void stage(std::size_t index, const Move& move, CacheUse cache, unsigned node) noexcept;
  /// Adds the staged moves to the lane.
  void publish(std::size_t count) noexcept;

  /// The move whose unit take() would hand out; null: there is none up to ticket `last`.
  [[nodiscard]] const LaneSlot* head(
      std::uint64_t last = std::numeric_limits<std::uint64_t>::max()) const noexcept;
  [[nodiscard]] Unit take(Bytes at_most,
                          std::uint64_t last = std::numeric_limits<std::uint64_t>::max()) noexcept;
  void finish(const Unit& unit, const Executed& executed, std::uint64_t helper_cpu_ns) noexcept;
  /// Moves that have not begun never will.
  void cancel() noexcept;

  /// Ends the moves at the front that are over, and calls `ended(completion)` for each before its
  /// ticket ends. Then call announce() of the lane's LaneProgress.
  template <class Ended>
  std::size_t settle(Ended ended) noexcept {
    std::size_t count = 0;
    while (const LaneSlot* front = front_if_over()) {
      const Completion completion = completion_of_front(*front);
      if (front->move.completion != nullptr) *front->move.completion = completion;
      ended(completion);
      progress_.retire(completion.outcome);
      ++count;
    }
    skip_over();
    return count;
  }

  /// Bytes of the move and of all before it that are not done.
  [[nodiscard]] Bytes left_until(std::uint64_t ticket) const noexcept;

 private:
  [[nodiscard]] LaneSlot& slot(std::uint64_t ticket) noexcept {
    return slots_[ticket % slots_.size()];
  }
  [[nodiscard]] const LaneSlot& slot(std::uint64_t ticket) const noexcept {
    return slots_[ticket % slots_.size()];
  }
  [[nodiscard]] const LaneSlot* front_if_over() const noexcept;
  [[nodiscard]] static Completion completion_of_front(const LaneSlot& front) noexcept;
  void close(LaneSlot& slot) noexcept;
  void note_event(LaneSlot& slot, Bytes at, const Executed& executed) noexcept;
  void end_without_units(LaneSlot& slot, Cause cause) noexcept;
  void skip_over() noexcept;

  std::vector<LaneSlot> slots_;
  LaneProgress& progress_;
  std::uint64_t given_ = 0;
  std::uint64_t next_ = 1;  // first ticket from which units are still to be taken
  Bytes submitted_bytes_ = 0;
  Bytes settled_bytes_ = 0;
};

/// Executes the unit in the calling thread, without the lock.
[[nodiscard]] Executed execute_unit(const Unit& unit) noexcept;

}  // namespace gantry
