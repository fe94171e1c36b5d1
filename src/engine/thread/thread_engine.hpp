#pragma once  // engine/thread/thread_engine.hpp: moves done by workers while the submitter goes on.

#include <gantry/engine.hpp>
#include <memory>

namespace gantry {

/// `workers`: 1 to 64 threads, started at once, asleep while there is nothing to do.
[[nodiscard]] Result<std::shared_ptr<Engine>> make_thread_engine(unsigned workers);

}  // namespace gantry
