#pragma once  // gemm/onednn.hpp: products by oneDNN.

#include "gemm/checked.hpp"

namespace gantry {

/// Errors: `unsupported`.
[[nodiscard]] Result<std::shared_ptr<GemmLibrary>> make_onednn_gemm(unsigned threads);

}  // namespace gantry
