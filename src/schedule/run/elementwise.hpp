#pragma once  // schedule/run/elementwise.hpp: what a rank does to its own rectangles besides
              // products.

#include "schedule/run/places.hpp"

namespace gantry {

void copy_rect(const LocalRect& to, const LocalRect& from) noexcept;
void fill_rect(const LocalRect& to) noexcept;  ///< With zeros.
/// `to` += `from`, each element rounded once to its type; integers wrap.
void add_rect(DataType type, const LocalRect& to, const LocalRect& from) noexcept;

}  // namespace gantry
