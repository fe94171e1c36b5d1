#pragma once  // engine/inline/inline_engine.hpp: the submitter's own CPU executes moves.

#include <gantry/engine.hpp>

namespace gantry {

struct InlineOptions {
  Bytes streaming_from = 0;  ///< CacheUse::automatic streams from this size on. 0: never.
};

/// A move has ended when submit() returns. Errors: `system` (the fault guard cannot be installed).
[[nodiscard]] Result<std::shared_ptr<Engine>> make_inline_engine(const InlineOptions& options = {});

}  // namespace gantry
