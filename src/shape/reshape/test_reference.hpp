#pragma once  // reshape/test_reference.hpp: what rows.hpp does, an element at a time and as plainly
              // as can be; its tests compare with this. Not in the library.

#include <cstddef>

#include "core/tensor/element.hpp"

namespace gantry::shape::reference {

/// One element. Packed ones are codes.
void convert(Element to, std::byte* destination, Element from, const std::byte* source) noexcept;
/// values[0] = values[0] * scale + offset.
void scale(float* value, float scale, float offset) noexcept;
void scale(double* value, double scale, double offset) noexcept;
/// One group.
void floats_to_group(std::byte* destination, const Groups& groups, const float* source) noexcept;
void group_to_floats(float* to, const Groups& groups, const std::byte* source) noexcept;

}  // namespace gantry::shape::reference
