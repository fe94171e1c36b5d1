#include "core/channel/consumer/consumer_waiter.hpp"

#include <sys/epoll.h>

#include "core/base/assert.hpp"
#include "core/base/wait.hpp"

namespace gantry {

Result<WakeSender> ConsumerWaiter::make_wake() {
  GANTRY_ASSIGN(WakeReceiver::Made made, WakeReceiver::make());
  wake_receiver_ = std::move(made.wake_receiver);
  return std::move(made.wake_sender);
}

void ConsumerWaiter::add_to(WaitPoint& point) const {
  for (const int descriptor :
       {wake_receiver_.descriptor(), core_.connection.receive_fd(), core_.producer_life.get()})
    point.descriptors.push_back({queue_.is_over() ? -1 : descriptor, POLLIN, 0});
}

void ConsumerWaiter::examine(std::span<const pollfd> events) {
  GANTRY_ASSERT(events.size() == kDescriptors);
  if (events[0].revents != 0) drain_wakes();
  if (events[2].revents != 0) core_.note_producer_gone();
  if (events[1].revents != 0) payloads_.hear();  // news of slabs, or the hang-up
}

void ConsumerWaiter::look() {
  std::array<pollfd, kDescriptors> entries{pollfd{wake_receiver_.descriptor(), POLLIN, 0},
                                           pollfd{core_.connection.receive_fd(), POLLIN, 0},
                                           pollfd{core_.producer_life.get(), POLLIN, 0}};
  if (::poll(entries.data(), entries.size(), 0) > 0) examine(entries);
}

// ---- sleeping elsewhere ----------------------------------------------------------------------

Result<int> ConsumerWaiter::event_descriptor() {
  if (watched_) return watched_.get();
  GANTRY_ASSIGN(Fd watched, make_epoll({core_.connection.receive_fd(), core_.producer_life.get()}));
  if (wake_receiver_.descriptor() >= 0) GANTRY_TRY(wake_receiver_.hang_in(watched.get(), EPOLLIN));
  watched_ = std::move(watched);
  rouse();  // what is there already counts: the loop begins with a look
  return watched_.get();
}

// The wake-up socket is rung by the producer alone, but it can always be written to.
void ConsumerWaiter::rouse() noexcept {
  if (!watched_) return;
  is_to_look_ = true;
  wake_receiver_.wait_for(EPOLLIN | EPOLLOUT);
}

void ConsumerWaiter::arm(Hears hears) noexcept {
  if (!watched_ || armed_) return;
  wait_flag().announce(hears);
  armed_ = true;
}

void ConsumerWaiter::arm_again(Hears hears) noexcept {
  if (!armed_) return;
  wait_flag().withdraw();
  wait_flag().announce(hears);
}

void ConsumerWaiter::disarm() noexcept {
  if (!watched_) return;
  if (armed_) wait_flag().withdraw();
  armed_ = false;
  if (std::exchange(is_to_look_, false)) wake_receiver_.wait_for(EPOLLIN);
  drain_wakes();
}

// What can be rung no more is readable for ever: nobody would sleep on it. Its end tells of the
// producer's, which the connection or the pidfd shows.
void ConsumerWaiter::drain_wakes() noexcept {
  if (wake_receiver_.descriptor() >= 0 && !wake_receiver_.drain()) wake_receiver_.reset();
}

}  // namespace gantry
