#include "base/fork.hpp"

#include <pthread.h>

#include <atomic>

namespace gantry {
namespace {

std::atomic<unsigned> generation{0};

void count_fork() noexcept {
  generation.fetch_add(1, std::memory_order_relaxed);  // the child has one thread yet
}

}  // namespace

unsigned fork_generation() noexcept {
  // Out of memory here would mean no protection of forked copies, and nothing else.
  static const int registered = ::pthread_atfork(nullptr, nullptr, count_fork);
  static_cast<void>(registered);
  return generation.load(std::memory_order_relaxed);
}

}  // namespace gantry
