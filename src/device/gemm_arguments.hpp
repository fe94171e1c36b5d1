#pragma once  // gemm_arguments.hpp: the arguments of a kernel that multiplies matrices.

#include <cstddef>
#include <cstdint>

namespace gantry {

// Kernels of products take the buffers of a, b and c, and then these two. As kernels see them.
struct GemmSides {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::int64_t adds = 0;
};
/// In elements.
struct GemmPlaces {
  std::int64_t a = 0;
  std::int64_t a_stride = 0;
  std::int64_t b = 0;
  std::int64_t b_stride = 0;
  std::int64_t c = 0;
  std::int64_t c_stride = 0;
};
inline constexpr std::size_t kGemmBuffers = 3;
inline constexpr std::size_t kGemmArguments = kGemmBuffers + 2;

}  // namespace gantry
