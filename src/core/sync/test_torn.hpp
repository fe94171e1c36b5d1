#pragma once  // sync/test_torn.hpp: shows whether two threads were inside a lock together.

#include <atomic>
#include <cstdint>

namespace gantry::test {

/// Two plain numbers that are equal whenever nobody is inside; torn when two are.
template <class Lock>
struct Torn {
  Lock lock;
  std::uint64_t first = 0;
  std::uint64_t second = 0;
  std::uint64_t torn = 0;

  void work() {
    torn += first != second;
    ++first;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    ++second;
  }
};

}  // namespace gantry::test
