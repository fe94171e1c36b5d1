#pragma once  // reference.hpp: the same layers computed by one rank alone, for comparison.

#include <gantry/gemm.hpp>
#include <gantry/product.hpp>

#include "options.hpp"

namespace tensor_parallel {

/// Computes the rows that `result` holds from the whole matrices, and compares each element. With
/// relu every number on the way is whole and below 2^24, so any order of the sums gives the same
/// bits. gelu makes fractions: two orders of n terms then differ by at most 2 n u / (1 - n u) times
/// the sum of their magnitudes (u = 2^-24). Errors: an element that differs; `too_large` if a sum
/// with relu may leave the whole numbers of f32; `interrupted`.
[[nodiscard]] gantry::Result<void> compare(const gantry::MatrixPart& result, std::int64_t first_row,
                                           const Options& options, gantry::GemmLibrary& gemm);

}  // namespace tensor_parallel
