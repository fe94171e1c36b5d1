#pragma once  // base/os/fork.hpp: tells whether this is still the process in which an object was
              // made.

#include <atomic>

namespace gantry {

namespace detail {
// forks between the first process that watched and this one
extern std::atomic<unsigned> fork_count;
unsigned watch_forks() noexcept;  // returns the count
}  // namespace detail

/// Remembers the process in which it was made. In a copy that a fork() made of the object around
/// it, is_this() is false: threads, peers and names belong to the parent. Cheap: no call.
class ForkGuard {
 public:
  ForkGuard() noexcept : made_at_(detail::watch_forks()) {}
  [[nodiscard]] bool is_this() const noexcept {
    return made_at_ == detail::fork_count.load(std::memory_order_relaxed);
  }

 private:
  unsigned made_at_;
};

}  // namespace gantry
