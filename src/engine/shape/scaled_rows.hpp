#pragma once  // engine/shape/scaled_rows.hpp: bytes to scaled floats in registers, as pictures want
              // them.

#include <cstddef>

namespace gantry::shape {

/// What to_floats() of u8 and scale_floats() make in turn. Any alignment, any count. `streaming`:
/// past the cache, where lines are whole.
void scaled_floats(std::byte* floats, const std::byte* source, std::size_t count, float scale,
                   float offset, bool streaming) noexcept;

}  // namespace gantry::shape
