#pragma once  // tools/gantry/limits.hpp: limits of the library that a person is told of early.

namespace gantry::cli {

/// ChannelOptions::slots is 1 to this.
inline constexpr unsigned kMaxSlots = 64;

}  // namespace gantry::cli
