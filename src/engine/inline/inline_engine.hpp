#pragma once  // engine/inline/inline_engine.hpp: moves done by the submitter's own core, at once.

#include <gantry/engine.hpp>
#include <memory>

namespace gantry {

[[nodiscard]] std::shared_ptr<Engine> make_inline_engine();

}  // namespace gantry
