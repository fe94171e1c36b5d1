#pragma once  // runtime/engine_makers.hpp: every engine but inline, and how it is made.

#include <gantry/engine/policy.hpp>

#include "runtime/lazy_engine.hpp"

namespace gantry {

struct EngineMaker {
  LazyEngine::Facts facts;
  Result<std::shared_ptr<Engine>> (*make)(const Calibration& calibration);
  std::string (*what)(const Engine& made);  ///< What it runs on, for doctor.
  bool (*likely)();  ///< Cheap: whether trying to make it is worth while; else the policy does not
                     ///< know it.
};

/// In the order in which they are reported. A new engine is one more here.
[[nodiscard]] std::span<const EngineMaker> engine_makers();

}  // namespace gantry
