#include "pipeline/caught.hpp"
#include "pipeline/stage_conveyor.hpp"

// Where the results of a stage go. The collector asks for a place when a result is there. Where the
// device computes in place, the feeder asks before it launches, for all that have none so far, but
// takes only what is to be had at once, so that neither what is computed nor what has landed ever
// waits for a place that somebody else has to make.
//   I3  `place` and `landed` are called by who has the turn; it is taken and ended under mutex_.
//   I4  Places are given in the order of receipt: slot i has its landing when i < placed_. Both are
//       of who has the turn, and a landing is the collector's alone once it has seen it there.
namespace gantry {
namespace {

/// Not now: perhaps when others have been given back, and the collector waits for that.
bool is_for_later(Code code) noexcept {
  return code == Code::timed_out || code == Code::out_of_memory;
}

bool overlap(ConstByteSpan one, ConstByteSpan other) noexcept {
  const std::less<> before;
  return before(one.data(), other.data() + other.size()) &&
         before(other.data(), one.data() + one.size());
}

}  // namespace

Bytes StageConveyor::result_bytes(const StageSlot& slot) const {
  return slot.chunk.steps * job_.arguments()[output_].step_bytes;
}

// ---- whose turn it is ----------------------------------------------------------------------

// What lands is soon over; who waits for a place may wait long.
bool StageConveyor::take_turn_ahead() {
  std::unique_lock lock(mutex_);
  moved_.wait(lock, [this] { return stop_ || turn_ != Turn::landing; });
  if (stop_ || turn_ != Turn::nobody) return false;
  turn_ = Turn::ahead;
  return true;
}

void StageConveyor::take_turn(Turn turn) {
  std::unique_lock lock(mutex_);
  moved_.wait(lock, [this] { return turn_ != Turn::ahead; });
  turn_ = turn;
  moved_.notify_all();
}

void StageConveyor::end_turn() {
  {
    const std::lock_guard lock(mutex_);
    turn_ = Turn::nobody;
  }
  moved_.notify_all();
}

// ---- places --------------------------------------------------------------------------------

Result<StageEnds::Landing> StageConveyor::place(const StageSlot& slot, Deadline deadline) const {
  return caught([&] { return ends_.place(slot.info, result_bytes(slot), deadline); });
}

// The feeder's. For those before `number`, too: they were refused when it was their turn.
void StageConveyor::place_ahead(std::uint64_t number) {
  if (!sharing_.is_for_callers || ends_.places < 2 || !take_turn_ahead()) return;
  std::uint64_t landed = 0;
  {
    const std::lock_guard lock(mutex_);
    landed = collected_;
  }
  while (placed_ <= number && placed_ < landed + ends_.places && !is_place_refused_) {
    auto landing = place(slot(placed_), Deadline::now());
    if (!landing && is_for_later(landing.error().code)) break;
    is_place_refused_ = !landing;
    slot(placed_).landing.emplace(std::move(landing));
    ++placed_;
  }
  end_turn();
}

// The feeder's: what the kernel writes to.
Result<void> StageConveyor::make_place(StageSlot& slot) {
  StageSlot::Array& output = slot.arrays[output_];
  const bool has_place = slot.landing && *slot.landing;
  const ByteSpan there = has_place ? (*slot.landing)->bytes : ByteSpan();
  bool is_fit = has_place && there.size() == result_bytes(slot) &&
                is_aligned(there.data(), sharing_.alignment);
  for (const StageSlot::Array& array : slot.arrays) is_fit = is_fit && !overlap(array.lies, there);
  if (!is_fit) return make_room(slot, output_);
  GANTRY_ASSIGN(output.over, device_.over(there, (*slot.landing)->keep));
  output.lies = there;
  return {};
}

// The collector's, for the oldest that has not landed.
Result<StageEnds::Landing> StageConveyor::place_of(std::uint64_t number) {
  StageSlot& mine = slot(number);
  take_turn(Turn::landing);
  if (placed_ == number) {
    take_turn(Turn::waiting);
    mine.landing.emplace(place(mine, options_.deadline));
    ++placed_;
  }
  end_turn();
  return *mine.landing;
}

Result<void> StageConveyor::land(StageSlot& slot) {
  take_turn(Turn::landing);
  auto landed = caught([&] { return ends_.landed(slot.info); });
  slot.landing.reset();
  end_turn();
  return landed;
}

}  // namespace gantry
