#pragma once  // device/disown.hpp: what a fork's copy must not destroy.

#include <utility>

namespace gantry {

/// Never destroyed: a thread that did not come along cannot be joined, and what it holds is its.
template <class Thing>
void disown(Thing thing) {
  new Thing(std::move(thing));  // NOLINT: that is the purpose
}

}  // namespace gantry
