#include "core/engine/thread/thread_lane.hpp"

#include "core/base/result.hpp"
#include "core/engine/check.hpp"

namespace gantry {
namespace {

tl::unexpected<Error> fail_forked() {
  return fail(Code::closed, "a lane of the thread engine: a forked child has no copy threads",
              "make an engine in the child");
}

}  // namespace

Result<void> ThreadLane::open() {
  GANTRY_TRY(core_->open(entry_));
  is_open_ = true;
  return {};
}

ThreadLane::~ThreadLane() {
  if (!is_open_ || !core_->is_here()) return;
  static_cast<void>(wait(Ticket{given()}, Deadline::never(), WaitStrategy::automatic));
  core_->close(entry_);
}

Result<Ticket> ThreadLane::submit(std::span<const Move> batch, SubmitMode mode) {
  GANTRY_TRY(check_batch(batch, options_.depth));
  if (!core_->is_here()) return fail_forked();
  std::unique_lock submitting(submit_mutex_);
  if (batch.empty()) return Ticket{given()};
  GANTRY_TRY(wait_for_room(batch.size()));
  for (std::size_t i = 0; i < batch.size(); ++i)
    entry_.moves.stage(i, batch[i], core_->cache_for(batch[i]), core_->near(batch[i]));
  // With moves before it the workers are awake anyway.
  const bool alone =
      mode == SubmitMode::synchronous && batch.size() == 1 && progress().ended() == given();
  core_->publish(entry_, batch.size(), alone);
  const Ticket last = give_tickets(batch.size());
  submitting.unlock();
  if (alone) core_->begin_alone(entry_);
  return last;
}

// Waits for room for all of a batch; the waiting submitter keeps later ones behind it.
Result<void> ThreadLane::wait_for_room(std::size_t count) {
  if (given() + count <= options_.depth) return {};
  const Ticket last{given() + count - options_.depth};  // its end makes the room
  if (progress().has_ended(last)) return {};
  if (options_.full == LaneOptions::Full::refuse)
    return fail(Code::busy,
                fmt::format("a lane of {} moves: {} are unfinished, {} more do not fit",
                            options_.depth, given() - progress().ended(), count),
                "wait for some to end, or open the lane with a larger depth");
  static_cast<void>(wait(last, Deadline::never(), WaitStrategy::automatic));
  return {};
}

std::size_t ThreadLane::poll() {
  if (!core_->is_here()) return fail_all_in_child();
  return core_->help(entry_, Ticket{given()}, ThreadCore::Help::when_quicker).value_or(0);
}

bool ThreadLane::help(Ticket ticket) {
  if (!core_->is_here()) return fail_all_in_child() > 0;
  return core_->help(entry_, ticket, ThreadCore::Help::when_quicker).has_value();
}

std::chrono::nanoseconds ThreadLane::left(Ticket ticket) const noexcept {
  return core_->is_here() ? core_->left(entry_, ticket) : std::chrono::nanoseconds{};
}

Result<void> ThreadLane::be_watched() {
  if (!core_->is_here()) return fail_forked();
  return {};
}

void ThreadLane::cancel() noexcept {
  if (core_->is_here()) core_->cancel(entry_);
}

std::size_t ThreadLane::fail_all_in_child() noexcept {
  // Relaxed: a second thread waits for the tickets, not for this.
  if (orphaned_.exchange(true, std::memory_order_relaxed)) return 0;
  std::size_t count = 0;
  for (; progress().ended() < given(); ++count) progress().retire(Outcome::failed);
  if (count > 0) progress().announce();
  return count;
}

Explanation ThreadLane::explain(const Move& move, SubmitMode mode) const {
  Explanation explanation;
  explanation.engine = CopyEngine::thread;
  explanation.cache = core_->cache_for(move);
  explanation.predicted = core_->cost().of(move.bytes);
  explanation.waiting = mode == SubmitMode::synchronous ? WaitStrategy::automatic
                                                        : waiting_for(explanation.predicted);
  explanation.candidates.push_back({"thread", true, explanation.predicted, {}});
  explanation.reasons.emplace_back("the lane is of the thread engine, which knows no other");
  return explanation;
}

}  // namespace gantry
