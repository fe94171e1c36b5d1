#include "tile_kernel.hpp"

namespace vision {
namespace {

using gantry::CpuArguments;
using gantry::CpuSlice;

// The launch has a column of threads for each pixel of a tile's row: item (x, row). Rows count
// through the tiles of the frame, their channels, and the lines of these. SIDE and TILES come with
// the compiler's options.
constexpr const char* kOpenClText = R"(
#pragma OPENCL FP_CONTRACT OFF  /* a fused multiply-add would round once, the CPU's loop does twice */
kernel void tiles(global const uchar* frame, global const uint* corners,
                  global const float* scales, uint width, global float* tensor) {
  const uint x = get_global_id(0), row = get_global_id(1);
  const uint y = row % SIDE, rgb = row / SIDE % 3, tile = row / SIDE / 3;
  if (x >= SIDE || tile >= TILES) return;
  const uint pixel = corners[tile] + y * width + x;
  const float value = frame[3 * pixel + 2 - rgb];
  tensor[row * SIDE + x] = value * scales[2 * rgb] + scales[2 * rgb + 1];
}
)";

constexpr const char* kCudaText = R"(
extern "C" __global__ void tiles(const unsigned char* frame, const unsigned* corners,
                                 const float* scales, unsigned width, float* tensor) {
  const unsigned x = blockIdx.x * blockDim.x + threadIdx.x;
  const unsigned row = blockIdx.y * blockDim.y + threadIdx.y;
  const unsigned y = row % SIDE, rgb = row / SIDE % 3, tile = row / SIDE / 3;
  if (x >= SIDE || tile >= TILES) return;
  const unsigned pixel = corners[tile] + y * width + x;
  const float value = frame[3 * pixel + 2 - rgb];
  // Rounded twice, as the CPU's loop does.
  tensor[row * SIDE + x] = __fadd_rn(__fmul_rn(value, scales[2 * rgb]), scales[2 * rgb + 1]);
}
)";

/// One line of one channel of one tile.
void write_row(const CpuArguments& with, std::size_t row) {
  const auto y = row % kTileSide, rgb = row / kTileSide % kChannels;
  const auto corner = with.span<std::uint32_t>(1)[row / kTileSide / kChannels];
  const auto scale = with.span<float>(2)[2 * rgb], offset = with.span<float>(2)[2 * rgb + 1];
  const auto first = kChannels * (corner + y * with.value<std::uint32_t>(3)) + 2 - rgb;
  const auto* const from = with.span<std::uint8_t>(0).subspan(first).data();
  auto* const to = with.span<float>(4).subspan(row * kTileSide, kTileSide).data();
  for (std::size_t x = 0; x < kTileSide; ++x)
    to[x] = static_cast<float>(from[kChannels * x]) * scale + offset;
}

// Slices begin and end with a group, and a group is a row.
Result<void> write_rows(const CpuArguments& with, const CpuSlice& slice) {
  for (auto row = slice.first / kTileSide; row < slice.last / kTileSide; ++row)
    write_row(with, row);
  return {};
}

std::string constants() {
  return "-DSIDE=" + std::to_string(kTileSide) + " -DTILES=" + std::to_string(kTilesPerFrame);
}

}  // namespace

gantry::ProgramSource tile_program() {
  return {.name = "tiles",
          .opencl = {kOpenClText, constants()},
          .cuda = {kCudaText, constants()},
          .cuda_image = {},
          .cpu = {{kTileKernel, write_rows}}};
}

TileTables::TileTables(cv::Size size) : width(static_cast<std::uint32_t>(size.width)) {
  const auto places = tile_grid(0, size);
  for (std::size_t i = 0; i < corners.size(); ++i) corners[i] = places[i].y * width + places[i].x;
  for (std::size_t rgb = 0; rgb < kChannels; ++rgb)
    scales[rgb] = {tile_scale(rgb).scale, tile_scale(rgb).offset};
}

gantry::PipelineJob tile_job(const gantry::Kernel& kernel, cv::Size size,
                             const TileTables& tables) {
  const Bytes frame_bytes = Bytes{tables.width} * static_cast<Bytes>(size.height) * kChannels;
  constexpr std::size_t kRows = kTilesPerFrame * kChannels * kTileSide;
  return gantry::PipelineJob(kernel, 0)  // a step is a frame; there are as many as come
      .input(gantry::PipelineSource::message(), frame_bytes)
      .broadcast(std::span<const std::uint32_t>(tables.corners))
      .broadcast(std::span<const std::array<float, 2>>(tables.scales))
      .value(tables.width)
      .output(gantry::PipelineSink::message(), kTilesPerFrame * kTileValues * sizeof(float))
      .range([](std::uint64_t) {
        return gantry::LaunchRange{{kTileSide, kRows, 1}, {kTileSide, 1, 1}};
      });
}

}  // namespace vision
