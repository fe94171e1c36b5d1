#include "core/channel/wire/handed_callers.hpp"

#include <atomic>

namespace gantry {
namespace {

constinit std::atomic<MakeHandedCallers> added{nullptr};

}  // namespace

void add_handed_callers(MakeHandedCallers make) noexcept {
  added.store(make, std::memory_order_release);  // [A]
}

MakeHandedCallers handed_callers_maker() noexcept {
  return added.load(std::memory_order_acquire);  // [A]
}

}  // namespace gantry
