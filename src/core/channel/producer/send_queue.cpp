#include "core/channel/producer/send_queue.hpp"

#include <poll.h>

#include <array>

#include "core/base/assert.hpp"
#include "core/base/clock.hpp"
#include "core/base/event.hpp"
#include "core/base/futex.hpp"
#include "core/base/os/disown.hpp"
#include "core/base/os/numa_nodes.hpp"
#include "core/base/os/socket.hpp"
#include "core/base/os/worker_thread.hpp"
#include "core/channel/wire/step.hpp"
#include "core/channel/wire/waiter.hpp"

namespace gantry {
namespace {

constexpr std::size_t kRememberedFailures = 1024;

}  // namespace

Result<void> SendQueue::prepare() {
  if (retired_) return {};
  GANTRY_ASSIGN(retired_, gantry::make_event());
  if (!is_without_cpu(cpus_)) return {};
  handed_over_ = std::make_shared<HandedOver>(0);
  return {};
}

Result<Ticket> SendQueue::push_done(Result<void> result) {
  GANTRY_DEBUG_ASSERT(is_idle());
  GANTRY_TRY(prepare());
  // Relaxed: only this thread writes it.
  if (!result) note_failure(given_.load(std::memory_order_relaxed) + 1, std::move(result).error());
  return give_done();
}

Ticket SendQueue::give_done() noexcept {
  GANTRY_DEBUG_ASSERT(is_idle());
  // Relaxed: only this thread writes it.
  const std::uint64_t ticket = given_.load(std::memory_order_relaxed) + 1;
  ++done_by_caller_;
  note_ended(ticket);
  given_.store(ticket, std::memory_order_release);  // I2 [J]
  GANTRY_CHECK_INVARIANTS(*this);
  return Ticket{ticket};
}

Result<Ticket> SendQueue::push(SendJob&& job) {
  // Relaxed: only this thread writes it.
  const std::uint64_t ticket = given_.load(std::memory_order_relaxed) + 1;
  if (ticket - ended_.load(std::memory_order_acquire) > Producer::kMaxUnsent)  // [E]
    return fail(Code::busy, fmt::format("{} messages wait to be sent", Producer::kMaxUnsent),
                "wait for one of their tickets");
  GANTRY_TRY(prepare());
  if (handed_over_ && !thread_.joinable()) gives_way_to(handed_over_);
  // Relaxed: a hint for whoever waits.
  if (handed_over_) handed_over_->fetch_add(1, std::memory_order_relaxed);
  job_of(ticket) = std::move(job);
  given_.store(ticket, std::memory_order_release);  // I2 [J]
  GANTRY_STEP(job_pushed);
  pushed_.fetch_add(1, std::memory_order_seq_cst);                   // I3 [S]
  if (sleeps_.load(std::memory_order_seq_cst)) futex_wake(pushed_);  // I3 [S]
  if (thread_.joinable()) {
    GANTRY_CHECK_INVARIANTS(*this);
    return Ticket{ticket};
  }
  if (auto started = start_thread("a thread", [this] { serve(); })) {
    thread_ = std::move(*started);
  } else {
    retire(tl::unexpected(std::move(started).error()));
  }
  GANTRY_CHECK_INVARIANTS(*this);
  return Ticket{ticket};
}

void SendQueue::serve() {
  bind_this_thread(cpus_);
  for (;;) {
    const std::uint32_t seen = pushed_.load(std::memory_order_seq_cst);
    if (has_job()) {
      GANTRY_STEP(job_begun);
      SendJob& job = job_of(ended_.load(std::memory_order_relaxed) + 1);
      retire(is_stopping() ? fail(Code::closed, "the producer ended first")
                           : guarded([&] { return execute_(job); }));
      continue;
    }
    if (is_stopping()) return;
    if (ending_.exchange(false, std::memory_order_relaxed)) at_end_();  // I9
    const auto news = [&] { return pushed_.load(std::memory_order_seq_cst) != seen; };
    const SpinTime::Wait wait(idle_spin_);
    if (poll_for(idle_spin_.now(), Deadline::never(), news)) continue;
    sleeps_.store(true, std::memory_order_seq_cst);   // I3 [S]
    if (!news()) futex_wait(pushed_, seen);           // I3 [S]
    sleeps_.store(false, std::memory_order_relaxed);  // one wake too many harms nobody
  }
}

void SendQueue::retire(Result<void> result) {
  // Relaxed: this thread alone writes it.
  const std::uint64_t ticket = ended_.load(std::memory_order_relaxed) + 1;
  GANTRY_DEBUG_ASSERT(ticket <= given_.load(std::memory_order_acquire));  // I4 [J]
  job_of(ticket).parts.clear();                                           // with whatever it holds
  if (!result) note_failure(ticket, std::move(result).error());
  note_ended(ticket);
  if (handed_over_) handed_over_->fetch_sub(1, std::memory_order_relaxed);
}

void SendQueue::note_failure(std::uint64_t ticket, Error why) {
  const std::lock_guard lock(mutex_);
  failures_[ticket] = std::move(why);
  has_failures_.store(true, std::memory_order_relaxed);  // `ended_` carries it [E]
  if (failures_.size() > kRememberedFailures) failures_.erase(failures_.begin());
  GANTRY_DEBUG_ASSERT(failures_.size() <= kRememberedFailures &&
                      failures_.rbegin()->first == ticket);  // I7
}

void SendQueue::note_ended(std::uint64_t ticket) noexcept {
  ended_.store(ticket, std::memory_order_seq_cst);  // I1 [E] [W]
  GANTRY_STEP(job_ended);
  if (watched_.load(std::memory_order_seq_cst)) ring(retired_.get());  // [W]
}

Outcome SendQueue::outcome(Ticket ticket) const noexcept {
  if (!has_ended(ticket))
    return static_cast<std::uint64_t>(ticket) > given_.load(std::memory_order_relaxed)
               ? Outcome::failed
               : Outcome::pending;
  if (!has_failures_.load(std::memory_order_relaxed)) return Outcome::done;  // [E]
  const std::lock_guard lock(mutex_);
  return failures_.contains(static_cast<std::uint64_t>(ticket)) ? Outcome::failed : Outcome::done;
}

Result<void> SendQueue::wait(Ticket ticket, Deadline deadline, int interrupt) {
  const auto number = static_cast<std::uint64_t>(ticket);
  if (number > given_.load(std::memory_order_relaxed))
    return fail(Code::invalid_argument, fmt::format("ticket {} was never given", number));
  if (!has_ended(ticket)) GANTRY_TRY(wait_for(number, deadline, interrupt));
  if (!has_failures_.load(std::memory_order_relaxed)) return {};  // [E]
  const std::lock_guard lock(mutex_);
  const auto failed = failures_.find(number);
  if (failed == failures_.end()) return {};
  return tl::unexpected(failed->second);
}

Result<void> SendQueue::wait_until_idle(Deadline deadline, int interrupt) {
  return wait_for(given_.load(std::memory_order_relaxed), deadline, interrupt);
}

// Pair [W]: the waiter says that it waits, then looks; retire() changes, then looks who waits.
Result<void> SendQueue::wait_for(std::uint64_t ticket, Deadline deadline, int interrupt) {
  const auto over = [&] { return ended_.load(std::memory_order_seq_cst) >= ticket; };  // [W]
  if (poll_for(spin_, deadline, over)) return {};
  watched_.store(true, std::memory_order_seq_cst);  // [W]
  Result<void> result;
  bool drained = false;
  while (!over() && result) {
    std::array<pollfd, 2> entries{pollfd{retired_.get(), POLLIN, 0}, pollfd{interrupt, POLLIN, 0}};
    const int count = ::poll(entries.data(), entries.size(), poll_timeout_ms(deadline));
    if (count > 0 && entries[1].revents != 0)
      result = fail(Code::interrupted, "interrupted while a message was being sent");
    if (entries[0].revents != 0) {
      drain(retired_.get());
      drained = true;
    }
    if (count == 0 && deadline.passed())
      result = fail(Code::timed_out, "the message was not sent in time");
  }
  watched_.store(is_watched_elsewhere_,
                 std::memory_order_relaxed);  // one ring too many harms nobody
  // Others waited for what was drained here, too. A ring without that would wake a loop that asks
  // without waiting, which would ask again, and so on.
  if (drained && is_watched_elsewhere_) ring(retired_.get());
  GANTRY_CHECK_INVARIANTS(*this);
  return over() ? Result<void>() : result;
}

int SendQueue::event_descriptor() noexcept {
  if (!std::exchange(is_watched_elsewhere_, true)) {
    watched_.store(true, std::memory_order_seq_cst);  // [W]
    ring(retired_.get());  // what has ended already counts: the loop begins with a look
  }
  GANTRY_CHECK_INVARIANTS(*this);
  return retired_.get();
}

void SendQueue::note_woken() noexcept {
  drain(retired_.get());
}

void SendQueue::request_end() noexcept {
  ending_.store(true, std::memory_order_relaxed);
  ring_thread();
}

void SendQueue::request_stop() noexcept {
  stopping_.store(true, std::memory_order_relaxed);
  ring_thread();
}

void SendQueue::ring_thread() noexcept {
  pushed_.fetch_add(1, std::memory_order_seq_cst);
  futex_wake(pushed_);
}

void SendQueue::stop() noexcept {
  if (!thread_.joinable()) return;
  if (!fork_guard_.is_this()) return disown(std::move(thread_));
  request_stop();
  thread_.join();
  GANTRY_CHECK_INVARIANTS(*this);
}

#ifndef NDEBUG
void SendQueue::check_invariants() const noexcept {
  // Relaxed: only this thread writes it. `ended_` is read once, since more may end meanwhile.
  const std::uint64_t given = given_.load(std::memory_order_relaxed);
  const std::uint64_t ended = ended_.load(std::memory_order_acquire);  // [E]
  const bool all_ended = ended == given;
  // Relaxed: a count of this thread's; request_stop() may have added to it.
  const std::uint32_t rung = pushed_.load(std::memory_order_relaxed);
  const auto pushed = static_cast<std::uint32_t>(given) - done_by_caller_;
  GANTRY_ASSERT(static_cast<std::int32_t>(rung - pushed) >= 0);            // I3
  GANTRY_ASSERT(ended <= given && given - ended <= Producer::kMaxUnsent);  // I4
  for (std::uint64_t next = given + 1; next <= ended + Producer::kMaxUnsent; ++next)
    GANTRY_ASSERT(jobs_[next % Producer::kMaxUnsent].parts.empty());  // I5
  GANTRY_ASSERT(given == 0 || retired_);                              // I6
  GANTRY_ASSERT(all_ended || thread_.joinable());                     // I6
  // Relaxed: this thread's word.
  GANTRY_ASSERT(watched_.load(std::memory_order_relaxed) == is_watched_elsewhere_);  // I8
}
#endif

}  // namespace gantry
