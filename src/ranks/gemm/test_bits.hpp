#pragma once  // gemm/test_bits.hpp: whether pieces of a product have the bits of the whole.

#include <gantry/gemm.hpp>

namespace gantry {

/// What becomes of the bits of a product that is cut into pieces. Seen on products of several
/// shapes: what is refuted is certain, what is granted means that no difference was seen. A grain
/// of g: pieces that begin at multiples of g give the bits of the whole; 1: any pieces do; 0: none
/// of the grains that were tried does.
struct GemmBits {
  bool repeats = false;           ///< The same product twice gives the same bits.
  std::int64_t row_grain = 0;     ///< Of pieces of rows of a, and so of c.
  std::int64_t column_grain = 0;  ///< Of pieces of columns of b, and so of c.
};
/// Multiplies for some hundredths of a second at most. Errors: those of multiply().
[[nodiscard]] Result<GemmBits> probe_gemm(GemmLibrary& library, const DataType& type);

}  // namespace gantry
