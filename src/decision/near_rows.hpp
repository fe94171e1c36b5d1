#pragma once  // decision/near_rows.hpp: the nearest rows, if bounds of groups may rule out others.

#include "decision/image.hpp"

namespace gantry::decision {

/// True if decide_near_rows() answers this: rows of `f32` by L2, whole groups in rows and whole
/// rows in blocks.
[[nodiscard]] bool has_near_rows(const shape::PlaneLayout& layout,
                                 const detail::DecisionParts& parts) noexcept;
/// As decide_nearest(), with bounds that are trusted and open. Errors: `peer_misbehaved`, and those
/// of the source.
[[nodiscard]] Result<Decided> decide_near_rows(Image& image, const detail::DecisionParts& parts);

}  // namespace gantry::decision
