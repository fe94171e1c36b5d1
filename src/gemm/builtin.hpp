#pragma once  // gemm/builtin.hpp: products without any library, of every type.

#include "gemm/checked.hpp"

namespace gantry {

/// Sums each element in an order that depends on k alone, so it repeats bits, and so do pieces of
/// rows or columns.
[[nodiscard]] Result<std::shared_ptr<GemmLibrary>> make_builtin_gemm();

}  // namespace gantry
