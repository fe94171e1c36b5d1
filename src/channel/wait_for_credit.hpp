#pragma once  // channel/wait_for_credit.hpp: how a producer waits for its readers.

#include "channel/producer.hpp"

namespace gantry {

// Waits, under the lock but for its sleep, until `ready`, looking at the readers' pages each turn.
// `ready` true wins over readers that left: what they had already given back is good.
template <class Ready>
Result<void> Producer::Impl::wait_until(Lock& lock, Deadline deadline, Ready ready, Lost lost) {
  readers_->refresh();
  if (ready()) return {};
  const std::uint64_t started = read_ticks();
  stop_heeding();
  caller_waits_ = true;
  auto waited = sleep_until(lock, deadline, ready, lost);
  caller_waits_ = false;
  heed_forwards();
  if (waited) metrics_.meter()->waited(read_ticks() - started);
  return waited;
}

// The same, when it is not yet so.
template <class Ready>
Result<void> Producer::Impl::sleep_until(Lock& lock, Deadline deadline, Ready ready, Lost lost) {
  const auto is_over = [&] {
    readers_->refresh();
    return ready();
  };
  const auto is_stopping = [this] { return queue_ && queue_->is_stopping(); };
  const auto has_news = [&] {
    const Lock held = this->lock();
    return is_over() || (lost == Lost::is_an_error && readers_->lost()) || is_stopping();
  };
  SleepIntent* const intents[] = {&page().producer_sleeps};
  const SpinTime::Wait wait(spin_);
  for (;;) {
    if (lost == Lost::is_an_error) GANTRY_TRY(check_readers());
    if (is_stopping()) return fail(Code::closed, fmt::format("channel '{}': it ended", name_));
    lock.unlock();
    WaitPoint point{
        intents, {{readers_->bells().descriptor(), POLLIN, 0}}, options_.interrupt_descriptor};
    const Woken woken = wait_once(point, spin_.now(), deadline, has_news);
    lock.lock();
    if (woken == Woken::look) readers_->bells().drain();
    if (is_over()) return {};
    if (woken == Woken::interrupted)
      return fail(Code::interrupted, fmt::format("channel '{}': interrupted", name_));
    if (woken != Woken::timed_out) continue;
    if (lost == Lost::is_an_error) GANTRY_TRY(check_readers());
    return fail(Code::timed_out,
                readers_->count() != 0
                    ? fmt::format("channel '{}': the consumer gave no slot back in time", name_)
                    : fmt::format("channel '{}': no consumer joined in time", name_));
  }
}

}  // namespace gantry
