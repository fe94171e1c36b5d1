#pragma once  // gemm/device/kernels.hpp: kernels of ours that multiply, in every language.

#include <gantry/device/kernel.hpp>

#include "gemm/checked.hpp"

namespace gantry {

/// Work items of a group along each side, and elements of c that a group computes along each.
inline constexpr std::size_t kGemmGroup = 16;
inline constexpr std::size_t kGemmTile = 64;

/// Rows of c that a `cpu` device's work item computes.
inline constexpr std::int64_t kGemmCpuRows = 96;

/// The program whose one kernel is to_string(element). Its languages are those in which this
/// element is multiplied by us: CUDA C++ lacks floats of 16 bits.
[[nodiscard]] ProgramSource gemm_source(Element element, std::shared_ptr<GemmLibrary> on_cpu);

}  // namespace gantry
