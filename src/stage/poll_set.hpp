#pragma once  // stage/poll_set.hpp: waits for any of several links, or for the interrupt.

#include <poll.h>

#include <string>
#include <vector>

#include "base/result.hpp"
#include "base/socket.hpp"

namespace gantry {

class PollSet {
 public:
  /// `what`: the awaited thing, for errors. `interrupt`: -1 for none; poll(2) skips negatives.
  PollSet(std::string_view what, int interrupt) : what_(what), entries_{{interrupt, POLLIN, 0}} {}

  void add(int descriptor, short events) { entries_.push_back({descriptor, events, 0}); }
  void drop(std::size_t index) { entries_[index + 1].fd = -1; }

  /// True if the last wait() found the index-th descriptor ready (hang-up and error included).
  [[nodiscard]] bool ready(std::size_t index) const { return entries_[index + 1].revents != 0; }
  [[nodiscard]] bool failed(std::size_t index) const {
    return (entries_[index + 1].revents & (POLLERR | POLLNVAL)) != 0;
  }

  /// Errors: `interrupted`, `timed_out`, `system`.
  [[nodiscard]] Result<void> wait(Deadline deadline) {
    for (;;) {
      const int count = ::poll(entries_.data(), entries_.size(), poll_timeout_ms(deadline));
      if (count < 0 && errno != EINTR) return fail_errno("poll");
      if (count > 0 && entries_.front().revents != 0)
        return fail(Code::interrupted, what_ + ": interrupted");
      if (count > 0) return {};
      if (deadline.passed()) return fail(Code::timed_out, what_ + ": the time is up");
    }
  }

 private:
  std::string what_;
  std::vector<pollfd> entries_;  // the interrupt comes first
};

}  // namespace gantry
