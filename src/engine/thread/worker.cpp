#include "engine/thread/worker.hpp"

#include <pthread.h>

#include "base/disown.hpp"
#include "base/futex.hpp"
#include "base/numa_nodes.hpp"
#include "base/result.hpp"
#include "base/worker_thread.hpp"

namespace gantry {
namespace {

constexpr const char* kThreadName = "gantry-copy";

}  // namespace

void Worker::settle_at(const WorkerPlace& place) noexcept {
  ::pthread_setname_np(::pthread_self(), kThreadName);
  bind_this_thread(place.cpus);
}

Result<void> Worker::start_thread(std::function<void()> body) {
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
