#pragma once  // engine/shape/make_part.hpp: makes any bytes of a reshape's destination.

#include <gantry/shape.hpp>

namespace gantry::shape {

/// Makes bytes [from, from + bytes) of the plan's destination at `to`; `source` is the front of the
/// whole source. The range lies in the destination. The caller holds a FloatMode. Has no
/// destructors and no locks, so that it may be left by a jump.
void make_part(const detail::ReshapeState& state, std::byte* to, const std::byte* source,
               Bytes from, Bytes bytes, bool streaming) noexcept;

}  // namespace gantry::shape
