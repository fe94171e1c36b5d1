#pragma once  // fault/awaiting.hpp: a role that waits in coroutines.

#include <gantry/call.hpp>

#include "core/base/os/fd.hpp"
#include "fault/part.hpp"

namespace gantry::fault {

/// A loop for the tasks of one wait; whoever has what it waited for stops it. Dropped, it destroys
/// the tasks that still wait. A stopped victim is let go on meanwhile.
class Awaiting {
 public:
  explicit Awaiting(const Part& part);
  [[nodiscard]] EventLoop& loop() noexcept { return *loop_; }
  void run();

 private:
  void look_after_victim(const Part& part);

  Fd timer_;
  std::optional<EventLoop> loop_;  // last: its tasks wait for the timer
};

/// co_await next(end, loop), then stops the loop.
template <class End, class Answer>
Task<> await_next(End& end, EventLoop& loop, std::optional<Answer>& answer) {
  answer.emplace(co_await next(end, loop));
  loop.stop();
}

}  // namespace gantry::fault
