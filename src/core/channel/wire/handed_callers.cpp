#include "core/channel/wire/handed_callers.hpp"

namespace gantry {
namespace {

constinit std::atomic<const HandingMakers*> added{nullptr};

}  // namespace

void add_handing(const HandingMakers& makers) noexcept {
  added.store(&makers, std::memory_order_release);  // [A]
}

const HandingMakers* handing_makers() noexcept {
  return added.load(std::memory_order_acquire);  // [A]
}

}  // namespace gantry
