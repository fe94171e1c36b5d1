#include "fault/awaiting.hpp"

#include <sys/timerfd.h>

#include "core/base/event.hpp"

namespace gantry::fault {
namespace {

Task<> let_go_on_again_and_again(const Part& part, int timer, EventLoop& loop) {
  for (;;) {  // no co_await in the condition: GCC 12 makes a trap of it
    const auto ticked = co_await readable(timer, loop);
    if (!ticked) co_return;
    drain(timer);
    let_go_on(part);
  }
}

}  // namespace

Awaiting::Awaiting(const Part& part) {
  auto loop = EventLoop::create();
  if (!loop) give_up("an event loop", loop.error());
  loop_.emplace(std::move(*loop));
  if (part.may_stop && part.victim_pid != 0) look_after_victim(part);
}

void Awaiting::look_after_victim(const Part& part) {
  timer_.reset(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  constexpr timespec kOften{.tv_sec = 0, .tv_nsec = 2'000'000};
  const itimerspec times{.it_interval = kOften, .it_value = kOften};
  if (!timer_ || ::timerfd_settime(timer_.get(), 0, &times, nullptr) != 0) give_up("a timer");
  loop_->spawn(let_go_on_again_and_again(part, timer_.get(), *loop_));
}

void Awaiting::run() {
  if (const auto ran = loop_->run(); !ran) give_up("the event loop", ran.error());
}

}  // namespace gantry::fault
