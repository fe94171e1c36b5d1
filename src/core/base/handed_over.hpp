#pragma once  // base/handed_over.hpp: work of this thread that another thread does, on its CPU.

#include <atomic>
#include <memory>
#include <vector>

namespace gantry {

/// Pieces of work that were handed over and have not ended. Where there is no CPU to spare, whoever
/// handed them over lets the other thread run instead of polling: see poll_for().
using HandedOver = std::atomic<std::uint32_t>;

namespace detail {

inline std::vector<std::weak_ptr<const HandedOver>>& handed_over_here() noexcept {
  thread_local std::vector<std::weak_ptr<const HandedOver>> all;
  return all;
}

}  // namespace detail

/// From here on this thread gives way to that work. Once for each `work`.
inline void gives_way_to(const std::shared_ptr<const HandedOver>& work) {
  detail::handed_over_here().push_back(work);
}

/// True if some of this thread's work has not ended. Forgets work whose owner is gone.
[[nodiscard]] inline bool has_handed_over() noexcept {
  auto& all = detail::handed_over_here();
  if (all.empty()) [[likely]]
    return false;
  bool any = false;
  std::erase_if(all, [&any](const std::weak_ptr<const HandedOver>& one) {
    const auto work = one.lock();
    // Relaxed: a hint; who waits looks for the result itself.
    any = any || (work && work->load(std::memory_order_relaxed) != 0);
    return work == nullptr;
  });
  return any;
}

}  // namespace gantry
