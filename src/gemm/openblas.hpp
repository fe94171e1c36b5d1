#pragma once  // gemm/openblas.hpp: products by OpenBLAS.

#include "gemm/checked.hpp"

namespace gantry {

/// As many threads as it is open with; 1 if it is not.
inline constexpr unsigned kAnyThreads = 0;

/// OpenBLAS has one number of threads for the process: all that is open at a time has the same one.
/// Errors: `unsupported`, `busy` (it is open with another number).
[[nodiscard]] Result<std::shared_ptr<GemmLibrary>> make_openblas_gemm(unsigned threads);

}  // namespace gantry
