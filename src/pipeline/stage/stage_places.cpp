#include "pipeline/run/caught.hpp"
#include "pipeline/stage/stage_executor.hpp"

// Where the results of a stage go. The completer asks for a place when a result is there. If the
// device computes in place, the submitter asks before it launches, for all results that have none
// so far, but takes only places that can be had at once. So neither computing nor committing ever
// waits for a place that somebody else has to make.
//   I3  Only the thread that has the turn calls `place` and `committed`; the turn is taken and
//   ended
//       under mutex_.
//   I4  Places are given in the order of receipt: slot i has its destination when i < placed_. Both
//       belong to the thread that has the turn; a destination is the completer's alone once it has
//       seen it there.
namespace gantry {
namespace {

/// Not now: perhaps when others have been given back, and the completer waits for that.
bool is_for_later(Code code) noexcept {
  return code == Code::timed_out || code == Code::busy || code == Code::out_of_memory;
}

bool overlap(ConstByteSpan one, ConstByteSpan other) noexcept {
  const std::less<> before;
  return before(one.data(), other.data() + other.size()) &&
         before(other.data(), one.data() + one.size());
}

}  // namespace

Bytes StageExecutor::result_bytes(const StageSlot& slot) const {
  return slot.chunk.steps * job_.arguments()[output_].step_bytes;
}

// ---- whose turn it is ----------------------------------------------------------------------

// A commit is soon over; waiting for a place may take long.
bool StageExecutor::take_turn_ahead() {
  std::unique_lock lock(mutex_);
  moved_.wait(lock, [this] { return stop_ || turn_ != Turn::committing; });
  if (stop_ || turn_ != Turn::nobody) return false;
  turn_ = Turn::ahead;
  return true;
}

void StageExecutor::take_turn(Turn turn) {
  std::unique_lock lock(mutex_);
  moved_.wait(lock, [this] { return turn_ != Turn::ahead; });
  turn_ = turn;
  moved_.notify_all();
}

void StageExecutor::end_turn() {
  {
    const std::lock_guard lock(mutex_);
    turn_ = Turn::nobody;
  }
  moved_.notify_all();
}

// ---- places --------------------------------------------------------------------------------

Result<StageCallbacks::Destination> StageExecutor::place(const StageSlot& slot,
                                                         Deadline deadline) const {
  return caught([&] { return ends_.place(slot.info, result_bytes(slot), deadline); });
}

// For the submitter. Also asks for results before `number`, which were refused at their turn.
void StageExecutor::place_ahead(std::uint64_t number) {
  if (!zero_copy_.is_for_callers || ends_.places < 2 || !take_turn_ahead()) return;
  std::uint64_t committed = 0;
  {
    const std::lock_guard lock(mutex_);
    committed = completed_;
  }
  while (placed_ <= number && placed_ < committed + ends_.places && !is_place_refused_) {
    auto destination = place(slot(placed_), Deadline::now());
    if (!destination && is_for_later(destination.error().code)) break;
    is_place_refused_ = !destination;
    slot(placed_).destination.emplace(std::move(destination));
    ++placed_;
  }
  end_turn();
}

// For the submitter: makes the memory that the kernel writes to.
Result<void> StageExecutor::make_place(StageSlot& slot) {
  StageSlot::Array& output = slot.arrays[output_];
  const bool has_place = slot.destination && *slot.destination;
  const ByteSpan there = has_place ? (*slot.destination)->bytes : ByteSpan();
  bool is_fit = has_place && there.size() == result_bytes(slot) &&
                is_aligned(there.data(), zero_copy_.alignment);
  for (const StageSlot::Array& array : slot.arrays) is_fit = is_fit && !overlap(array.lies, there);
  if (!is_fit) return make_room(slot, output_);
  GANTRY_ASSIGN(output.over, device_.over(there, (*slot.destination)->keep));
  output.lies = there;
  return {};
}

// For the completer: the place of the oldest result that is not committed.
Result<StageCallbacks::Destination> StageExecutor::place_of(std::uint64_t number) {
  StageSlot& mine = slot(number);
  take_turn(Turn::committing);
  if (placed_ == number) {
    take_turn(Turn::waiting);
    mine.destination.emplace(place(mine, options_.deadline));
    ++placed_;
  }
  end_turn();
  return *mine.destination;
}

Result<void> StageExecutor::commit(StageSlot& slot) {
  take_turn(Turn::committing);
  auto committed = caught([&] { return ends_.committed(slot.info); });
  slot.destination.reset();
  end_turn();
  return committed;
}

}  // namespace gantry
