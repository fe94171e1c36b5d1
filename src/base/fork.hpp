#pragma once  // base/fork.hpp: is this still the process in which a thing was made?

#include <atomic>

namespace gantry {

namespace detail {
extern std::atomic<unsigned> fork_count;  // forks between this process and the first that watched
unsigned watch_forks() noexcept;          // gives the count
}  // namespace detail

/// Remembers where it was made. A copy that a fork() made of the object around it sees that it is
/// elsewhere: threads, peers and names are not its. Cheap to ask: no call.
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
