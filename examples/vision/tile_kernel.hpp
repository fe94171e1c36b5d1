#pragma once  // tile_kernel.hpp: TileCutter::cut() as a kernel for a device.

#include <gantry/pipeline.hpp>

#include "tiles.hpp"

namespace vision {

inline constexpr const char* kTileKernel = "tiles";

/// In OpenCL C, in CUDA C++, and as a function. Its values, of that type, are those of cut() to the
/// last bit: it rounds at the same places.
[[nodiscard]] gantry::ProgramSource tile_program(gantry::DataType type);

/// Constants for all frames of a size, as the kernel reads them.
struct TileTables {
  explicit TileTables(cv::Size size);
  std::uint32_t width;                                   ///< Of a frame, in pixels.
  std::array<std::uint32_t, kTilesPerFrame> corners{};   ///< The tiles' first pixels.
  std::array<std::array<float, 2>, kChannels> scales{};  ///< R, G, B: scale, offset.
};

/// Turns messages whose first segment is a frame of that size, BGR8, into its tiles. The tables
/// must outlive its runs.
[[nodiscard]] gantry::PipelineJob tile_job(const gantry::Kernel& kernel, cv::Size size,
                                           const TileTables& tables, gantry::DataType type);

}  // namespace vision
