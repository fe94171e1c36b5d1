#include "core/engine/thread/lane_queue.hpp"

#include <algorithm>

#include "core/base/assert.hpp"
#include "core/engine/engine_counters.hpp"

namespace gantry {

void LaneQueue::stage(std::size_t index, const Move& move, CacheUse cache, unsigned node) noexcept {
  const std::uint64_t ticket = given_ + 1 + index;
  LaneSlot& slot = this->slot(ticket);
  slot = LaneSlot{};
  slot.move = move;
  slot.cache = cache;
  slot.node = node;
  slot.ticket = ticket;
}

void LaneQueue::publish(std::size_t count) noexcept {
  GANTRY_ASSERT(unended() + count <= depth());  // I4
  for (std::size_t i = 0; i < count; ++i) {
    LaneSlot& slot = this->slot(++given_);
    submitted_bytes_ += slot.move.bytes;
    slot.lane_bytes = submitted_bytes_;
    slot.over = slot.move.bytes == 0;
  }
  skip_over();
}

const LaneSlot* LaneQueue::head(std::uint64_t last) const noexcept {
  return next_ > std::min(given_, last) ? nullptr : &slot(next_);
}

Unit LaneQueue::take(Bytes at_most, std::uint64_t last) noexcept {
  const LaneSlot* found = head(last);
  if (found == nullptr) return {};
  LaneSlot& slot = this->slot(found->ticket);
  const Unit unit{&slot, slot.taken, std::min(at_most, slot.move.bytes - slot.taken)};
  GANTRY_DEBUG_ASSERT(unit.bytes > 0);  // a slot that is not over has more
  slot.taken += unit.bytes;
  ++slot.in_flight;
  slot.over = slot.taken == slot.move.bytes;
  skip_over();
  return unit;
}

void LaneQueue::finish(const Unit& unit, const Executed& executed,
                       std::uint64_t helper_cpu_ns) noexcept {
  LaneSlot& slot = *unit.slot;
  GANTRY_ASSERT(slot.in_flight > 0);
  --slot.in_flight;
  slot.helper_cpu_ns += helper_cpu_ns;
  settled_bytes_ += unit.bytes;
  GANTRY_ASSERT(settled_bytes_ <= submitted_bytes_);
  if (executed.cause != Cause::none) note_event(slot, unit.offset, executed);
  skip_over();
}

void LaneQueue::note_event(LaneSlot& slot, Bytes at, const Executed& executed) noexcept {
  close(slot);
  if (at >= slot.event_at) return;
  slot.event_at = at;
  slot.event = executed;
  slot.event.bytes_done += at;
}

void LaneQueue::close(LaneSlot& slot) noexcept {
  if (slot.over) return;
  slot.over = true;
  settled_bytes_ += slot.move.bytes - slot.taken;
}

void LaneQueue::end_without_units(LaneSlot& slot, Cause cause) noexcept {
  close(slot);
  Executed none;
  none.cause = cause;
  note_event(slot, slot.taken, none);
}

void LaneQueue::cancel() noexcept {
  for (std::uint64_t ticket = progress_.ended() + 1; ticket <= given_; ++ticket)
    if (LaneSlot& slot = this->slot(ticket); !slot.over) end_without_units(slot, Cause::cancelled);
  skip_over();
}

const LaneSlot* LaneQueue::front_if_over() const noexcept {
  const std::uint64_t ticket = progress_.ended() + 1;
  if (ticket > given_) return nullptr;
  const LaneSlot& front = slot(ticket);
  return front.over && front.in_flight == 0 ? &front : nullptr;
}

// I3: no unit is in flight, so all before the event is done, or all that was taken.
Completion LaneQueue::completion_of_front(const LaneSlot& front) noexcept {
  Executed executed = front.event;
  if (front.event_at == std::numeric_limits<Bytes>::max()) executed.bytes_done = front.taken;
  Completion completion = completion_of(executed, CopyEngine::thread, front.cache);
  completion.helper_cpu_ns = front.helper_cpu_ns;
  return completion;
}

void LaneQueue::skip_over() noexcept {
  while (next_ <= given_ && slot(next_).over) ++next_;
}

Bytes LaneQueue::left_until(std::uint64_t ticket) const noexcept {
  if (ticket > given_ || ticket <= progress_.ended()) return 0;
  const Bytes until = slot(ticket).lane_bytes;
  return until > settled_bytes_ ? until - settled_bytes_ : 0;
}

Executed execute_unit(const Unit& unit) noexcept {
  const LaneSlot& slot = *unit.slot;
  return execute(part_of(slot.move, unit.offset, unit.bytes), slot.cache);
}

}  // namespace gantry
