#pragma once  // runtime/engine_makers.hpp: makes every engine but inline.

#include <gantry/engine.hpp>

#include "core/runtime/lazy_engine.hpp"

namespace gantry {

struct EngineMaker {
  LazyEngine::Facts facts;
  Result<std::shared_ptr<Engine>> (*make)(const Calibration& calibration);
  std::string (*what)(const Engine& made);  ///< What it runs on, for doctor.
  bool (*likely)();  ///< Cheap: whether making it is worth a try; if not, the policy does not know
                     ///< it.
};

/// In the order in which they are reported: thread, then those of the linked components.
[[nodiscard]] std::vector<EngineMaker> engine_makers();

}  // namespace gantry
