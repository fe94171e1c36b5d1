#pragma once  // channel/producer/wait_for_credit.hpp: how a producer waits for its consumers.

#include "channel/producer/producer.hpp"

namespace gantry {

inline constexpr std::chrono::nanoseconds kMarkTime = std::chrono::milliseconds(10);  // [F]

// [F] A consumer that takes a small message marks how far it has come, then looks whether the ring
// is full or the stream ended, both without a fence: only then does it look at who sleeps. Its mark
// may still be on its way when it does not see the newest publication; a producer that then sleeps
// would never be woken for it. So the first sleep after a publication is short, and whoever sleeps
// without limit has looked once more: by then the mark has come.

// Waits, under the lock but for its sleep, until `ready`, looking at the consumers' pages each
// turn. `ready` true wins over consumers that left: what they had already given back is good.
template <class Ready>
Result<void> Producer::Impl::wait_until(Lock& lock, Deadline deadline, Ready ready, Lost lost) {
  consumers_->refresh();
  if (ready()) return {};
  const std::uint64_t started = read_ticks();
  stop_heeding();
  caller_waits_ = true;
  auto waited = guarded([&] { return sleep_until(lock, deadline, ready, lost); });
  if (!lock.owns_lock()) lock.lock();  // the heap ran out while it slept
  consumers_->wake_up();
  caller_waits_ = false;
  heed_forwards();
  if (waited) metrics_.meter()->waited(read_ticks() - started);
  return waited;
}

// The same, when it is not yet so.
template <class Ready>
Result<void> Producer::Impl::sleep_until(Lock& lock, Deadline deadline, Ready ready, Lost lost) {
  const auto is_over = [&] {
    consumers_->refresh();
    return ready();
  };
  const auto is_stopping = [this] { return queue_ && queue_->is_stopping(); };
  const auto has_news = [&] {
    const Lock held = this->lock();
    return is_over() || (lost == Lost::is_an_error && consumers_->lost()) || is_stopping();
  };
  // Without a descriptor left nobody can wake it: it looks again and again instead.
  const SharedFd event = options_.acceptor->lend_event().value_or(SharedFd());
  WaitFlag* const intents[] = {&page().producer_sleeps};
  const SpinTime::Wait wait(spin_);
  LateLooks looks;
  bool marks_came = false;  // [F]
  for (;;) {
    if (lost == Lost::is_an_error) GANTRY_TRY(check_readers());
    if (is_stopping()) return fail(Code::closed, fmt::format("channel '{}': it ended", name_));
    WaitPoint point{intents, consumers_->fall_asleep(event), options_.interrupt_descriptor};
    lock.unlock();
    const Deadline until =
        marks_came && event ? deadline : Deadline::after(std::min(deadline.left(), kMarkTime));
    const Woken woken = wait_once(point, spin_.now(), until, has_news);
    lock.lock();
    if (woken == Woken::look) consumers_->drain_wakes(point.descriptors);
    if (is_over()) return {};
    if (woken == Woken::interrupted)
      return fail(Code::interrupted, fmt::format("channel '{}': interrupted", name_));
    if (woken == Woken::timed_out) marks_came = true;
    const bool is_late = woken == Woken::timed_out && deadline.passed();
    if (!is_late && !looks.are_spent(deadline)) continue;
    if (lost == Lost::is_an_error) GANTRY_TRY(check_readers());
    return fail(Code::timed_out,
                consumers_->count() != 0
                    ? fmt::format("channel '{}': the consumer gave no slot back in time", name_)
                    : fmt::format("channel '{}': no consumer joined in time", name_));
  }
}

}  // namespace gantry
