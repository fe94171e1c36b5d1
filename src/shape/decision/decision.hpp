#pragma once  // decision/decision.hpp: each kind of decision. Arguments are checked; what they read
              // is not.

#include "shape/decision/image.hpp"

namespace gantry::decision {

/// Reads what it needs; the count of bytes is the image's. Errors: `peer_misbehaved`, and those of
/// the source.
[[nodiscard]] Result<Decided> decide_top(Image& image, const detail::DecisionParts& parts,
                                         BoundsUse use);
[[nodiscard]] Result<Decided> decide_above(Image& image, const detail::DecisionParts& parts,
                                           BoundsUse use);
[[nodiscard]] Result<Decided> decide_nearest(Image& image, const detail::DecisionParts& parts,
                                             BoundsUse use);

}  // namespace gantry::decision
