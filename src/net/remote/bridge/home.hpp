#pragma once  // remote/bridge/home.hpp: callers of other hosts, served where their channel is.

#include "core/channel/wire/handed_callers.hpp"

namespace gantry {

/// For one name of this process. A thread a caller. Null: there are no descriptors or no memory.
[[nodiscard]] std::shared_ptr<HandedCallers> make_handed_callers(HandedCallers::Where where);

}  // namespace gantry
