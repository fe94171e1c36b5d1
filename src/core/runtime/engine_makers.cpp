#include "core/runtime/engine_makers.hpp"

#include <fmt/format.h>

#include "core/base/result.hpp"
#include "core/engine/thread/thread_engine.hpp"
#include "core/runtime/components.hpp"
#include "core/runtime/worker_places.hpp"

namespace gantry {
namespace {

using enum Move::Kind;

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

Components& components() {
  static Components all;
  return all;
}

std::vector<EngineMaker> engine_makers() {
  std::vector<EngineMaker> makers{{thread_facts(), make_thread, thread_text, [] { return true; }}};
  for (const EngineMaker& maker : components().engines) makers.push_back(maker);
  return makers;
}

}  // namespace gantry
