#pragma once  // decision/decide.hpp: what deciding about memory and about messages have in common.

#include "decision/image.hpp"

namespace gantry::decision {

/// Errors: `invalid_argument`.
[[nodiscard]] Result<shape::PlaneLayout> layout_of(const PlanedElements& elements);
/// Checks a question about `count` elements. Errors: `invalid_argument`.
[[nodiscard]] Result<void> check(const detail::DecisionParts& parts, std::size_t count);
/// Answers a question that was checked. Errors: `peer_misbehaved`, and those of the source.
[[nodiscard]] Result<Decided> decide_from(PlaneSource& source, const shape::PlaneLayout& layout,
                                          const detail::DecisionParts& parts,
                                          const DecideOptions& options);

}  // namespace gantry::decision
