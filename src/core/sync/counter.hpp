#pragma once  // sync/counter.hpp: a number that one thread counts and anyone may read.

#include <atomic>
#include <cstdint>

namespace gantry {

class Counter {
 public:
  /// Not a read-modify-write, since there is one writer. Relaxed: a counter orders nothing.
  void add(std::uint64_t by) noexcept {
    value_.store(value_.load(std::memory_order_relaxed) + by, std::memory_order_relaxed);
  }
  void set(std::uint64_t to) noexcept { value_.store(to, std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t get() const noexcept {
    return value_.load(std::memory_order_relaxed);
  }

 private:
  std::atomic<std::uint64_t> value_{0};
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);  // a lock would be per process

}  // namespace gantry
