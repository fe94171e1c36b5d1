#include "core/runtime/engine_makers.hpp"

#include <fmt/format.h>

#include <atomic>

#include "core/base/result.hpp"
#include "core/engine/thread/thread_engine.hpp"
#include "core/runtime/components.hpp"
#include "core/runtime/worker_places.hpp"

namespace gantry {
namespace {

using enum Move::Kind;

constinit std::atomic<const Component*> newest{nullptr};

LazyEngine::Facts thread_facts() {
  return {"thread", {true, {copy, fill}, 64}};
}

Result<std::shared_ptr<Engine>> make_thread(const Calibration& calibration) {
  ThreadOptions options;
  options.workers = worker_places();
  options.streaming_from = calibration.streaming_from;
  if (calibration.source == Calibration::Source::full)
    options.helping_gain = calibration.helping_gain;
  return make_thread_engine(options);
}

std::string thread_text(const Engine&) {
  return fmt::format("{} copy thread(s) beside the caller", worker_places().size());
}

}  // namespace

void add_component(Component& one) noexcept {
  one.next = newest.load(std::memory_order_relaxed);
  while (!newest.compare_exchange_weak(one.next, &one, std::memory_order_release))  // [C]
    continue;
}

const Component* newest_component() noexcept {
  return newest.load(std::memory_order_acquire);  // [C]: all that `one` holds
}

std::vector<EngineMaker> engine_makers() {
  std::vector<EngineMaker> makers{{thread_facts(), make_thread, thread_text, [] { return true; }}};
  for (const Component* one = newest_component(); one != nullptr; one = one->next)
    makers.insert(makers.end(), one->engines.begin(), one->engines.end());
  return makers;
}

}  // namespace gantry
