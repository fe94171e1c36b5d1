#pragma once  // channel/wire/depth.hpp: how many messages a consumer may hold.

#include <algorithm>
#include <gantry/channel.hpp>

namespace gantry {

/// Messages that a consumer may have unreleased, given the number it asked for (0: none in
/// particular) and its producer's credits.
[[nodiscard]] inline unsigned depth_for(SlowConsumer policy, unsigned asked,
                                        unsigned credits) noexcept {
  if (policy == SlowConsumer::block) return credits;
  return asked == 0 ? std::max(credits / 2, 1u) : std::min(asked, credits);
}

}  // namespace gantry
