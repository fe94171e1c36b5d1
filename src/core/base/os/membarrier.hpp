#pragma once  // base/os/membarrier.hpp: a pair of fences that only the rare side pays for.

#include <atomic>

namespace gantry {

namespace detail {
extern const bool kHasMembarrier;  // false: the kernel lacks it, and both sides pay
}

/// Orders this thread's earlier stores before its later loads, as seen by a thread that calls
/// heavy_fence() between its own. Costs nothing where the kernel supports membarrier(2).
inline void light_fence() noexcept {
#if defined(__SANITIZE_THREAD__)
  std::atomic_thread_fence(std::memory_order_seq_cst);
#else
  std::atomic_signal_fence(std::memory_order_seq_cst);  // for the compiler
  if (!detail::kHasMembarrier) std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

/// The other side: every running thread of this process passes a full barrier. Takes some
/// microseconds.
void heavy_fence() noexcept;

}  // namespace gantry
