#include "runtime/engine_makers.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include "base/result.hpp"
#include "engine/dsa/device_queue.hpp"
#include "engine/dsa/dsa_engine.hpp"
#include "engine/thread/thread_engine.hpp"
#include "runtime/worker_places.hpp"

namespace gantry {
namespace {

using enum Move::Kind;

// ---- thread --------------------------------------------------------------------------------

LazyEngine::Facts thread_facts() {
  return {
      "thread", {true, false, true, {copy, fill}}, {0, 0, 64}, {std::chrono::microseconds(5), 8}};
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

// ---- dsa -----------------------------------------------------------------------------------

LazyEngine::Facts dsa_facts() {
  return {"dsa",
          {true, false, true, {copy, fill}},
          {0, 0, 64},
          {std::chrono::nanoseconds(1200), 30}};  // as published for Sapphire Rapids
}

Result<std::shared_ptr<Engine>> make_dsa(const Calibration& calibration) {
  GANTRY_ASSIGN(auto queue, dsa::open_any_queue());
  dsa::DsaOptions options;
  if (calibration.streaming_from > 0) options.streaming_from = calibration.streaming_from;
  return dsa::make_dsa_engine(std::move(queue), options);
}

std::string dsa_text(const Engine& made) {
  return dynamic_cast<const dsa::DsaEngine&>(made).about();
}

// Doctor finds out what is wrong with it.
bool is_dsa_likely() {
  return ::access("/dev/dsa", F_OK) == 0;
}

}  // namespace

std::span<const EngineMaker> engine_makers() {
  static const std::vector<EngineMaker> makers{
      {thread_facts(), make_thread, thread_text, [] { return true; }},
      {dsa_facts(), make_dsa, dsa_text, is_dsa_likely},
  };
  return makers;
}

}  // namespace gantry
