#pragma once  // channel/producer/send_queue.hpp: messages that a thread sends in the background, in
              // order.

#include <algorithm>
#include <array>
#include <functional>
#include <gantry/channel.hpp>
#include <map>
#include <mutex>
#include <thread>

#include "core/base/assert.hpp"
#include "core/base/handed_over.hpp"
#include "core/base/os/fd.hpp"
#include "core/base/os/fork.hpp"
#include "core/base/os/numa_nodes.hpp"
#include "core/base/result.hpp"
#include "core/channel/wire/waiter.hpp"
#include "core/trace/end_trace.hpp"

namespace gantry {

/// The argument of send_async(): a payload, or parts.
struct SendJob {
  ConstByteSpan payload;
  std::vector<Draft::Part> parts;
  SendOptions options;
  trace::MessageId cause{};  // of the caller; see last_received
};

// One thread pushes and waits; the progress thread executes, one job after the other. A caller that
// sends large payloads has just written them, so code and data of push() come from memory, line by
// line, and the number of lines is its cost. So there is no lock, and nothing is allocated.
//   I1  `ended_` only grows; a job's buffer is not touched once its ticket has ended. [E]
//   I2  A job lies in the cell of its ticket from before `given_` says so until `ended_` does;
//       meanwhile nobody else writes the cell. [J] [E]
//       A ticket of give_done() never has a job: `ended_` is ahead of `given_` for a moment, in
//       which the thread finds nothing, and nobody else pushes.
//   I3  The thread sleeps only after it said so and then saw no job; push() checks for that after
//       it has added one. [S]
//   I4  Every given and unended ticket has a cell: no ticket ends before it is given.
//   I5  The cell of a job that has ended has no parts.
//   I6  Once a ticket was given there is an event to wait on, and a thread, unless all has ended.
//   I7  Failures are remembered of tickets that ended, the last kRememberedFailures.
//   I8  Between two calls `watched_` says whether the event descriptor was asked for.
//   I9  After request_end() the thread calls `at_end_` once nothing is left, unless it is stopped.

/// The progress thread of a producer. The first push() starts it. It polls for a while after every
/// job, since waking it costs the caller more than anything else here; then it sleeps. Where it
/// would take somebody's CPU it does not poll, and whoever waits lets it run first.
class SendQueue {
 public:
  using Execute = std::function<Result<void>(SendJob&)>;

  /// `execute` and `at_end` run on the progress thread; they must return soon after stop() was
  /// called.
  SendQueue(
      Execute execute, std::chrono::nanoseconds spin, std::vector<int> cpus,
      std::function<void()> at_end = [] {}) noexcept
      : execute_(std::move(execute)),
        at_end_(std::move(at_end)),
        spin_(spin),
        idle_spin_(idle_spin(spin, cpus)),
        cpus_(std::move(cpus)) {}
  /// True if a thread with these CPUs would take its caller's, or its reader's.
  [[nodiscard]] static bool is_without_cpu(const std::vector<int>& cpus) noexcept {
    return cpus.empty() && usable_cpus() < 3;
  }
  ~SendQueue() { stop(); }
  SendQueue(const SendQueue&) = delete;
  SendQueue& operator=(const SendQueue&) = delete;

  [[nodiscard]] Result<Ticket> push(SendJob&& job);
  /// What a ticket needs: after it push_done() fails no more. Errors: `system`.
  [[nodiscard]] Result<void> prepare();
  [[nodiscard]] bool is_prepared() const noexcept { return static_cast<bool>(retired_); }
  /// Gives a ticket for what the caller has done itself. The queue must be idle.
  [[nodiscard]] Result<Ticket> push_done(Result<void> result);
  /// The same for what went well. The queue must be prepared besides.
  [[nodiscard]] Ticket give_done() noexcept;
  [[nodiscard]] bool is_idle() const noexcept {
    return ended_.load(std::memory_order_acquire) == given_.load(std::memory_order_relaxed);  // [E]
  }
  /// Tickets that have not ended. Any thread.
  [[nodiscard]] std::uint64_t unsent() const noexcept {
    const std::uint64_t ended = ended_.load(std::memory_order_acquire);  // [E]
    return std::max(given_.load(std::memory_order_acquire), ended) - ended;
  }
  [[nodiscard]] bool is_stopping() const noexcept {
    return stopping_.load(std::memory_order_relaxed);  // a request, no data comes with it
  }
  [[nodiscard]] Outcome outcome(Ticket ticket) const noexcept;
  [[nodiscard]] Result<void> wait(Ticket ticket, Deadline deadline, int interrupt);
  /// Readable when a job has ended since note_woken().
  [[nodiscard]] int event_descriptor() noexcept;
  void note_woken() noexcept;
  /// Waits for everything that was pushed, whatever the outcome.
  [[nodiscard]] Result<void> wait_until_idle(Deadline deadline, int interrupt);
  /// Has `at_end` called behind what was pushed. Nothing may be pushed any more.
  void request_end() noexcept;
  /// Jobs that have not begun fail as `closed`.
  void request_stop() noexcept;
  void stop() noexcept;

  /// Debug builds only, as GANTRY_CHECK_INVARIANTS. Called by the thread that pushes. Checks I3 of
  /// what was pushed, I4 to I6, and I8; I7 is the progress thread's.
  void check_invariants() const noexcept;

 private:
  friend struct InvariantBreaker<SendQueue>;

  // With CPUs of its own the thread may poll on them; 100 ms pass while a message of 256 MiB is
  // made and sent.
  static std::chrono::nanoseconds idle_spin(std::chrono::nanoseconds spin,
                                            const std::vector<int>& cpus) noexcept {
    constexpr std::chrono::nanoseconds kOnItsOwn = std::chrono::milliseconds(100);
    if (is_without_cpu(cpus)) return std::chrono::nanoseconds(0);
    return cpus.empty() || spin.count() == 0 ? spin : std::max(spin, kOnItsOwn);
  }

  void serve();
  void ring_thread() noexcept;
  [[nodiscard]] SendJob& job_of(std::uint64_t ticket) noexcept {
    return jobs_[ticket % Producer::kMaxUnsent];
  }
  [[nodiscard]] bool has_job() const noexcept {
    // In this order: give_done() ends its own before it gives it, so what is given is ended, too.
    const std::uint64_t given = given_.load(std::memory_order_acquire);  // [J]
    return given > ended_.load(std::memory_order_relaxed);
  }
  void retire(Result<void> result);
  void note_failure(std::uint64_t ticket, Error why);
  void note_ended(std::uint64_t ticket) noexcept;
  [[nodiscard]] bool has_ended(Ticket ticket) const noexcept {
    return static_cast<std::uint64_t>(ticket) <= ended_.load(std::memory_order_acquire);  // [E]
  }
  [[nodiscard]] Result<void> wait_for(std::uint64_t ticket, Deadline deadline, int interrupt);

  // Everything that a push() reads, in one line.
  alignas(64) ForkGuard fork_guard_;
  std::atomic<std::uint32_t> pushed_{0};  // the word that the thread sleeps on
  std::atomic<std::uint64_t> given_{0};
  std::atomic<std::uint64_t> ended_{0};
  std::thread thread_;
  Fd retired_;                         // rung when a job ends and somebody waits
  std::atomic<bool> sleeps_{false};    // [S]
  std::atomic<bool> stopping_{false};  // read by the thread alone
  std::atomic<bool> watched_{false};   // somebody waits on retired_
  bool is_watched_elsewhere_ = false;  // event_descriptor() was asked for

  std::array<SendJob, Producer::kMaxUnsent> jobs_;
  Execute execute_;
  std::function<void()> at_end_;
  std::atomic<bool> ending_{false};  // requested and not yet done; `pushed_` carries it
  std::chrono::nanoseconds spin_;    // of those that wait for the thread
  SpinTime idle_spin_;               // of the thread
  std::vector<int> cpus_;
  std::uint32_t done_by_caller_ = 0;         // tickets of give_done()
  std::shared_ptr<HandedOver> handed_over_;  // null: the thread has a CPU of its own
  mutable std::mutex mutex_;                 // guards those below
  std::map<std::uint64_t, Error> failures_;
  std::atomic<bool> has_failures_{false};  // there ever were any
};

}  // namespace gantry
