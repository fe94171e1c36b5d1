#pragma once  // base/os/membarrier.hpp: a pair of fences that only the rare side pays for.

#include <atomic>

namespace gantry {

namespace detail {
extern std::atomic<bool> has_membarrier;  // false: the kernel lacks or refuses it; both sides pay
}

/// Orders this thread's earlier stores before its later loads, as seen by a thread that calls
/// heavy_fence() between its own. Costs nothing where the kernel supports membarrier(2).
inline void light_fence() noexcept {
#if defined(__SANITIZE_THREAD__)
  std::atomic_thread_fence(std::memory_order_seq_cst);
#else
  std::atomic_signal_fence(std::memory_order_seq_cst);  // for the compiler
  // Relaxed: heavy_fence() gives a change time to be seen.
  if (!detail::has_membarrier.load(std::memory_order_relaxed))
    std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

/// The other side: every running thread of this process passes a full barrier. Takes some
/// microseconds; some milliseconds when the kernel refuses it from now on, as to a process that
/// sandboxes itself.
void heavy_fence() noexcept;

}  // namespace gantry
