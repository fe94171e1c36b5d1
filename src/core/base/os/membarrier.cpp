#include "core/base/os/membarrier.hpp"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <thread>

#include "core/base/clock.hpp"

namespace gantry {
namespace {

bool register_process() noexcept {
#if defined(__SANITIZE_THREAD__)
  return false;  // the sanitizer cannot see it
#else
  return ::syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
#endif
}

}  // namespace

std::atomic<bool> detail::has_membarrier{register_process()};

namespace {

// Since the kernel refused the call. By then every store that came before a light_fence() without a
// fence has left its CPU, and every later light_fence() sees that it needs one; a thread that lost
// its CPU between the two passed a barrier.
constexpr std::uint64_t kSettledAfterNs = 10'000'000;
std::atomic<std::uint64_t> settled_at_ns{0};

bool fence_others() noexcept {
  return ::syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0;
}

}  // namespace

void heavy_fence() noexcept {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (detail::has_membarrier.load(std::memory_order_acquire)) {
    // After a fork() the child has to register again.
    if (fence_others() || (register_process() && fence_others())) return;
    // First: who sees the change waits. The time is read after the change.
    settled_at_ns.store(~std::uint64_t{0}, std::memory_order_relaxed);
    detail::has_membarrier.store(false, std::memory_order_seq_cst);
    settled_at_ns.store(monotonic_ns() + kSettledAfterNs, std::memory_order_relaxed);
  }
  while (monotonic_ns() < settled_at_ns.load(std::memory_order_relaxed))
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

}  // namespace gantry
