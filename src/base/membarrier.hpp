#pragma once  // base/membarrier.hpp: a pair of fences of which only the rare side pays.

#include <atomic>

namespace gantry {

namespace detail {
extern const bool kHasMembarrier;  // false: the kernel lacks it, and both sides pay
}

/// Orders this thread's stores before against its loads after, towards whoever calls
/// heavy_fence() between its own. Costs nothing where the kernel can do it for us.
inline void light_fence() noexcept {
#if defined(__SANITIZE_THREAD__)
  std::atomic_thread_fence(std::memory_order_seq_cst);
#else
  std::atomic_signal_fence(std::memory_order_seq_cst);  // for the compiler
  if (!detail::kHasMembarrier) std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

/// The other side: every running thread of this process passes a full barrier. Some microseconds.
void heavy_fence() noexcept;

}  // namespace gantry
