#pragma once  // engine/shape/wide_rows.hpp: the part of rows.hpp that needs doubles.

#include "engine/shape/rows.hpp"

namespace gantry::shape {

/// From i32 or f64 to floats, of any alignment.
void narrow(std::byte* to, Element from, const std::byte* source, std::size_t count,
            Narrowing narrowing) noexcept;
/// From floats, of any alignment, to f64.
void widen(std::byte* destination, const std::byte* source, std::size_t count) noexcept;

}  // namespace gantry::shape
