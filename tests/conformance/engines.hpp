#pragma once  // engines.hpp: the engines that must pass the suite.

#include <gtest/gtest.h>

#include <gantry/gantry.hpp>
#include <ostream>

#include "core/engine/inline/inline_engine.hpp"
#include "core/engine/policy/policy_engine.hpp"
#include "core/engine/thread/thread_engine.hpp"
#include "device/dsa/dsa_engine.hpp"
#include "support/dsa/model_queue.hpp"

namespace gantry {

struct EngineCase {
  const char* name;
  std::shared_ptr<Engine> (*make)();
};

inline void PrintTo(const EngineCase& engine, std::ostream* out) {
  *out << engine.name;
}

/// The policy over both, by estimates, or with the border between them at `border` bytes, so that
/// the suite's moves of one lane go to either.
inline std::shared_ptr<Engine> make_auto(double border) {
  Calibration calibration;
  if (border > 0)
    for (const std::string name : {"inline", "thread"}) {
      const double start_ns = name == "inline" ? 1 : border / 20;
      const double bytes_per_ns = name == "inline" ? 10 : 20;
      EngineCosts costs{name, false, {}};
      for (Bytes bytes = 64; bytes <= Bytes{64} << 20; bytes *= 2) {
        const double ns = start_ns + static_cast<double>(bytes) / bytes_per_ns;
        costs.points.push_back({bytes, ns, ns, ns});
      }
      calibration.engines.push_back(std::move(costs));
    }
  return *make_auto_engine({*make_inline_engine(), *make_thread_engine({})}, std::move(calibration),
                           {.cpus = 1000, .calibrate = {}});
}

/// The engine on a device model, by one of its entrances.
template <dsa::QueueKind kKind, dsa::Entrance kEntrance>
std::shared_ptr<Engine> make_simulated_dsa() {
  std::shared_ptr<dsa::DeviceModel> model = *dsa::DeviceModel::create({.kind = kKind});
  return *dsa::make_dsa_engine(*dsa::make_model_queue(std::move(model), kEntrance));
}

inline const EngineCase kEngines[] = {
    {"inline", [] { return *make_inline_engine(); }},
    {"inline_streaming", [] { return *make_inline_engine({.streaming_from = 4096}); }},
    {"thread1", [] { return *make_thread_engine({}); }},
    {"thread3", [] { return *make_thread_engine({.workers = {3, WorkerPlace{}}}); }},
    {"auto", [] { return make_auto(0); }},
    {"auto_mixed", [] { return make_auto(50'000); }},
    {"dsa_enqcmd", make_simulated_dsa<dsa::QueueKind::shared, dsa::Entrance::enqcmd>},
    {"dsa_movdir64b", make_simulated_dsa<dsa::QueueKind::dedicated, dsa::Entrance::movdir64b>},
    {"dsa_write", make_simulated_dsa<dsa::QueueKind::shared, dsa::Entrance::write>},
};

}  // namespace gantry
