#include "engine/thread/lane_queue.hpp"

#include <algorithm>

#include "base/assert.hpp"
#include "engine/engine_counters.hpp"

namespace gantry {
namespace {

// A sequential move that was begun is resumed, not taken from the front of the queue.
bool is_all_out(const LaneSlot& slot) noexcept {
  return slot.over || (slot.sequential && slot.taken > 0);
}

bool has_begun(const LaneSlot& slot) noexcept {
  return slot.taken > 0;
}

}  // namespace

void LaneQueue::stage(std::size_t index, const Move& move, CacheUse cache, unsigned node) noexcept {
  const std::uint64_t ticket = given_ + 1 + index;
  LaneSlot& slot = this->slot(ticket);
  slot = LaneSlot{};
  slot.move = move;
  slot.cache = cache;
  slot.sequential = is_sequential(move);
  slot.node = node;
  slot.ticket = ticket;
  slot.batch_first = given_ + 1;
  slot.crc32c = move.seed;
}

void LaneQueue::publish(std::size_t count) noexcept {
  for (std::size_t i = 0; i < count; ++i) {
    LaneSlot& slot = this->slot(++given_);
    submitted_bytes_ += slot.move.bytes;
    slot.lane_bytes = submitted_bytes_;
    slot.over = slot.move.bytes == 0 && !slot.move.fence;
  }
  skip_over();
}

const LaneSlot* LaneQueue::head(std::uint64_t last) const noexcept {
  if (resume_ != nullptr && resume_->ticket <= last) return resume_;
  if (next_ > std::min(given_, last)) return nullptr;
  const LaneSlot& slot = this->slot(next_);
  // An empty fenced move has no units: it ends when it comes to the front.
  const bool may_start = !slot.move.fence || progress_.ended() + 1 == slot.ticket;
  return may_start && slot.move.bytes > 0 ? &slot : nullptr;
}

Unit LaneQueue::take(Bytes at_most, std::uint64_t last) noexcept {
  const LaneSlot* found = head(last);
  if (found == nullptr) return {};
  LaneSlot& slot = this->slot(found->ticket);
  if (&slot == resume_) resume_ = slot.resume_next;
  const Unit unit{&slot, slot.taken, std::min(at_most, slot.move.bytes - slot.taken)};
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
  if (executed.cause != Cause::none || !executed.equal)
    note_event(slot, unit.offset, executed);
  else if (slot.sequential)
    slot.crc32c = executed.crc32c;
  if (slot.sequential && !slot.over) resume_later(slot);
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
  resume_ = nullptr;
  skip_over();
}

const LaneSlot* LaneQueue::front_if_over() noexcept {
  const std::uint64_t ticket = progress_.ended() + 1;
  if (ticket > given_) return nullptr;
  LaneSlot& front = slot(ticket);
  if (front.move.fence && !front.over && !has_begun(front)) {
    if (last_failed_ >= front.batch_first) end_without_units(front, Cause::abandoned);
    front.over = front.over || front.move.bytes == 0;
  }
  return front.over && front.in_flight == 0 ? &front : nullptr;
}

// I3: no unit is in flight, so all before the event is done, or all that was taken.
Completion LaneQueue::completion_of_front(const LaneSlot& front) noexcept {
  Executed executed = front.event;
  if (front.event_at == std::numeric_limits<Bytes>::max()) {
    executed.bytes_done = front.taken;
    executed.crc32c = front.crc32c;
  }
  Completion completion = completion_of(executed, front.move, CopyEngine::thread, front.cache);
  completion.helper_cpu_ns = front.helper_cpu_ns;
  return completion;
}

// Sorted by ticket, so that the lane's oldest goes on first. There are as many as workers: few.
void LaneQueue::resume_later(LaneSlot& slot) noexcept {
  LaneSlot** at = &resume_;
  while (*at != nullptr && (*at)->ticket < slot.ticket) at = &(*at)->resume_next;
  slot.resume_next = *at;
  *at = &slot;
}

void LaneQueue::skip_over() noexcept {
  while (next_ <= given_ && is_all_out(slot(next_))) ++next_;
}

Bytes LaneQueue::left_until(std::uint64_t ticket) const noexcept {
  if (ticket > given_ || ticket <= progress_.ended()) return 0;
  const Bytes until = slot(ticket).lane_bytes;
  return until > settled_bytes_ ? until - settled_bytes_ : 0;
}

Executed execute_unit(const Unit& unit, bool catch_faults) noexcept {
  const LaneSlot& slot = *unit.slot;
  return execute_part(slot.move, unit.offset, unit.bytes, slot.crc32c, slot.cache, catch_faults);
}

}  // namespace gantry
