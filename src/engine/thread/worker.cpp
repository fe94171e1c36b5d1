#include "engine/thread/worker.hpp"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <memory>

#include "base/block_signals.hpp"
#include "base/disown.hpp"
#include "base/futex.hpp"
#include "base/result.hpp"
#include "base/worker_thread.hpp"

namespace gantry {
namespace {

constexpr const char* kThreadName = "gantry-copy";

struct FreeSet {
  void operator()(cpu_set_t* set) const noexcept { CPU_FREE(set); }
};

}  // namespace

// If this is refused (the process lost those CPUs meanwhile) the thread stays where it may run.
void Worker::settle_at(const WorkerPlace& place) noexcept {
  ::pthread_setname_np(::pthread_self(), kThreadName);
  if (place.cpus.empty()) return;
  const int last = *std::max_element(place.cpus.begin(), place.cpus.end());
  const std::unique_ptr<cpu_set_t, FreeSet> set(CPU_ALLOC(last + 1));
  if (set == nullptr) return;
  const std::size_t bytes = CPU_ALLOC_SIZE(last + 1);
  CPU_ZERO_S(bytes, set.get());
  for (const int cpu : place.cpus)
    if (cpu >= 0) CPU_SET_S(static_cast<std::size_t>(cpu), bytes, set.get());
  ::pthread_setaffinity_np(::pthread_self(), bytes, set.get());
}

Result<void> Worker::start_thread(std::function<void()> body) {
  const BlockSignals blocked;
  GANTRY_ASSIGN(thread_, gantry::start_thread("a copy thread", std::move(body)));
  return {};
}

void Worker::forget_thread() noexcept {
  if (thread_.joinable()) disown(std::move(thread_));
}

void Worker::park() noexcept {
  while (awake_.load(std::memory_order_acquire) == 0) futex_wait(awake_, 0);  // [K]
}

void Worker::wake() noexcept {
  awake_.store(1, std::memory_order_release);  // [K]
  futex_wake(awake_, 1);
}

}  // namespace gantry
