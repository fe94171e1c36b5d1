#include "core/runtime/lazy_engine.hpp"

#include "core/base/result.hpp"

namespace gantry {

Result<std::shared_ptr<Engine>> LazyEngine::get() {
  const std::lock_guard lock(mutex_);
  if (!engine_) {
    engine_ = guarded([&] { return make_(); });
    if (*engine_) made_.store((*engine_)->get(), std::memory_order_release);  // [M]
  }
  return *engine_;
}

Result<std::unique_ptr<Lane>> LazyEngine::open_lane(const LaneOptions& options) {
  GANTRY_ASSIGN(const std::shared_ptr<Engine> engine, get());
  return engine->open_lane(options);
}

}  // namespace gantry
