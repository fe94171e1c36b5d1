#pragma once  // base/os/disown.hpp: what a fork's copy must not destroy.

#include <utility>

namespace gantry {

/// Never destroys it: a thread did not come along with fork() and cannot be joined, a lock may be
/// held for ever. Without a heap the process ends, as ~thread() would end it.
template <class Thing>
void disown(Thing thing) {
  new Thing(std::move(thing));  // NOLINT: that is the purpose
}

}  // namespace gantry
