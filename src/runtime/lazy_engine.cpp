#include "runtime/lazy_engine.hpp"

#include "base/result.hpp"

namespace gantry {

Result<std::shared_ptr<Engine>> LazyEngine::get() {
  const std::lock_guard lock(mutex_);
  if (!engine_) {
    if (stopped_) return fail(Code::closed, fmt::format("the {} engine was stopped", facts_.name));
    engine_ = guarded([&] { return make_(); });
    if (*engine_) made_.store((*engine_)->get(), std::memory_order_release);  // [M]
  }
  return *engine_;
}

Result<std::unique_ptr<Lane>> LazyEngine::open_lane(const LaneOptions& options) {
  GANTRY_ASSIGN(const std::shared_ptr<Engine> engine, get());
  return engine->open_lane(options);
}

void LazyEngine::stop(Stop how) noexcept {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  if (made() != nullptr) made()->stop(how);
}

}  // namespace gantry
