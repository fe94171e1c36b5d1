#pragma once  // channel/consumer/consumer_waiter.hpp: how a receiving end sleeps, here or
              // elsewhere.

#include <poll.h>

#include "core/channel/consumer/receive_queue.hpp"
#include "core/channel/wire/waiter.hpp"

namespace gantry {

/// The wake-up socket that the producer rings, the event descriptor that a loop of the user's
/// sleeps on, and what both say of the producer. The receiving thread.
class GANTRY_LOCAL ConsumerWaiter {
 public:
  /// So many descriptors does an end sleep on: wake-up socket, connection, the producer's life.
  static constexpr std::size_t kDescriptors = 3;

  ConsumerWaiter(ConsumerCore& core, ReceivedPayloads& payloads, ReceiveQueue& queue) noexcept
      : core_(core), payloads_(payloads), queue_(queue) {}

  /// The wake-up socket, once; its other end is for the producer.
  [[nodiscard]] Result<WakeSender> make_wake();

  // ---- sleeping here

  /// This end beside others; the descriptors are skipped when nothing more comes.
  void add_to(WaitPoint& point) const;
  [[nodiscard]] WaitFlag& wait_flag() noexcept { return core_.own_page().consumer_sleeps; }
  /// `events`: the descriptors as add_to() listed them, after the sleep.
  void examine(std::span<const pollfd> events);
  /// The same without a sleep.
  void look();
  /// Polls, then sleeps, until `ready` of a message of that size. Errors: `timed_out`,
  /// `interrupted`, `peer_gone`.
  template <class Ready>
  [[nodiscard]] Result<void> wait_for_landing(Bytes size, Deadline deadline, Ready ready);

  // ---- sleeping elsewhere, on the event descriptor

  [[nodiscard]] Result<int> event_descriptor();
  /// Whoever sleeps there looks once more.
  void rouse() noexcept;
  /// From here on the producer rings when it has something; what it has had is looked for once
  /// more. Both do nothing while there is no event descriptor.
  void arm(Hears hears = Hears::all) noexcept;
  void disarm() noexcept;
  /// While it is armed: the producer rings for that from here on; the rest as arm().
  void arm_again(Hears hears) noexcept;

 private:
  template <class Ready, class FallsAsleep>
  [[nodiscard]] Result<void> sleep_until(Bytes size, Deadline deadline, Ready ready,
                                         FallsAsleep falls_asleep);
  void drain_wakes() noexcept;

  ConsumerCore& core_;
  ReceivedPayloads& payloads_;
  ReceiveQueue& queue_;
  Fd watched_;                  // an epoll of the three descriptors
  WakeReceiver wake_receiver_;  // gone when it cannot be rung any more
  bool is_to_look_ = false;     // watched_ is readable until somebody looked
  bool armed_ = false;          // the wait flag stands although nobody sleeps: an epoll does
};

// Whoever sleeps elsewhere, or is told to, is woken there by more of this message and by the ones
// behind it: their rings may have been taken in here.
template <class Ready>
Result<void> ConsumerWaiter::wait_for_landing(Bytes size, Deadline deadline, Ready ready) {
  const bool was_armed = armed_;
  const trace::WaitProbe probe(core_.name, trace::Awaited::landing);
  const std::uint64_t began = trace::ticks_and_look();
  trace::OpenWait open(core_.trace, began, trace::Awaited::landing, core_.producer_pid);
  CountedWait counted(core_.counters->waits);
  auto landed = sleep_until(size, deadline, ready, [&] {
    open.falls_asleep();
    counted.begin(began);
  });
  core_.wait_is_counted |= counted.has_begun();
  open.end();
  if (trace::is_on()) [[unlikely]]
    core_.trace.waited(began, trace::Awaited::landing, core_.producer_pid);
  const bool timed_out = !landed && landed.error().code == Code::timed_out;
  if (!was_armed && !timed_out) return landed;
  arm();
  if (queue_.has_news(ReceiveQueue::Wanted::whole)) rouse();
  if (timed_out && ready()) return {};
  return landed;
}

template <class Ready, class FallsAsleep>
Result<void> ConsumerWaiter::sleep_until(Bytes size, Deadline deadline, Ready ready,
                                         FallsAsleep falls_asleep) {
  WaitFlag* const flags[] = {&wait_flag()};
  LateLooks looks;
  for (auto spin = core_.options.spin;; spin = std::chrono::nanoseconds(0)) {
    if (ready()) return {};
    if (core_.broken) return tl::unexpected(*core_.broken);
    if (core_.producer_gone) return tl::unexpected(queue_.ending_error());
    disarm();
    if (spin.count() > 0 && poll_briefly(ready)) return {};
    WaitPoint point{flags, {}, core_.options.interrupt_descriptor};
    add_to(point);
    // [Q] What lands of a small message may come without a ring, until the last of it.
    const auto patience = std::min(spin, std::chrono::nanoseconds::max() - kQuietLook) + kQuietLook;
    const bool looks_again = size <= kQuietLanding && deadline.left() > patience;
    const Woken woken = wait_once(point, spin, looks_again ? Deadline::after(patience) : deadline,
                                  ready, falls_asleep);
    if (woken == Woken::interrupted) return core_.refuse(Code::interrupted, "interrupted");
    if (woken == Woken::timed_out && looks_again) continue;
    if (woken == Woken::timed_out || looks.are_spent(deadline))
      return core_.refuse(Code::timed_out, "the message did not land in time");
    if (woken == Woken::look) examine(point.descriptors);
  }
}

}  // namespace gantry
