#include "tile_kernel.hpp"

#include <bit>

namespace vision {
namespace {

using gantry::CpuArguments;
using gantry::CpuSlice;

// The launch has a column of threads for each pixel of a tile's row: item (x, row). Rows count
// through the tiles of the frame, their channels, and the lines of these. SIDE, TILES and BF16 come
// with the compiler's options. To bf16 values round to nearest even; none is a NaN or infinite.
constexpr const char* kOpenClText = R"(
#pragma OPENCL FP_CONTRACT OFF  /* a fused multiply-add would round once, a plan does twice */
#if BF16
typedef ushort Value;
Value value_of(float x) {
  const uint bits = as_uint(x);
  return (ushort)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
#else
typedef float Value;
Value value_of(float x) { return x; }
#endif
kernel void tiles(global const uchar* frame, global const uint* corners,
                  global const float* scales, uint width, global Value* tensor) {
  const uint x = get_global_id(0), row = get_global_id(1);
  const uint y = row % SIDE, rgb = row / SIDE % 3, tile = row / SIDE / 3;
  if (x >= SIDE || tile >= TILES) return;
  const uint pixel = corners[tile] + y * width + x;
  const float value = frame[3 * pixel + 2 - rgb];
  tensor[row * SIDE + x] = value_of(value * scales[2 * rgb] + scales[2 * rgb + 1]);
}
)";

constexpr const char* kCudaText = R"(
#if BF16
typedef unsigned short Value;
__device__ Value value_of(float x) {
  const unsigned bits = __float_as_uint(x);
  return static_cast<Value>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
#else
typedef float Value;
__device__ Value value_of(float x) { return x; }
#endif
extern "C" __global__ void tiles(const unsigned char* frame, const unsigned* corners,
                                 const float* scales, unsigned width, Value* tensor) {
  const unsigned x = blockIdx.x * blockDim.x + threadIdx.x;
  const unsigned row = blockIdx.y * blockDim.y + threadIdx.y;
  const unsigned y = row % SIDE, rgb = row / SIDE % 3, tile = row / SIDE / 3;
  if (x >= SIDE || tile >= TILES) return;
  const unsigned pixel = corners[tile] + y * width + x;
  const float value = frame[3 * pixel + 2 - rgb];
  // Rounded twice, as a plan does.
  tensor[row * SIDE + x] =
      value_of(__fadd_rn(__fmul_rn(value, scales[2 * rgb]), scales[2 * rgb + 1]));
}
)";

void store(float& to, float value) noexcept {
  to = value;
}
void store(std::uint16_t& to, float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  to = static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/// One line of one channel of one tile.
template <class Value>
void write_row(const CpuArguments& with, std::size_t row) {
  const auto y = row % kTileSide, rgb = row / kTileSide % kChannels;
  const auto corner = with.span<std::uint32_t>(1)[row / kTileSide / kChannels];
  const auto scale = with.span<float>(2)[2 * rgb], offset = with.span<float>(2)[2 * rgb + 1];
  const auto first = kChannels * (corner + y * with.value<std::uint32_t>(3)) + 2 - rgb;
  const auto* const from = with.span<std::uint8_t>(0).subspan(first).data();
  auto* const to = with.span<Value>(4).subspan(row * kTileSide, kTileSide).data();
  for (std::size_t x = 0; x < kTileSide; ++x)
    store(to[x], static_cast<float>(from[kChannels * x]) * scale + offset);
}

// Slices begin and end with a group, and a group is a row.
template <class Value>
Result<void> write_rows(const CpuArguments& with, const CpuSlice& slice) {
  for (auto row = slice.first / kTileSide; row < slice.last / kTileSide; ++row)
    write_row<Value>(with, row);
  return {};
}

bool is_narrow(gantry::DataType type) noexcept {
  return type == gantry::types::bf16;
}

std::string constants(gantry::DataType type) {
  return "-DSIDE=" + std::to_string(kTileSide) + " -DTILES=" + std::to_string(kTilesPerFrame) +
         " -DBF16=" + (is_narrow(type) ? "1" : "0");
}

}  // namespace

gantry::ProgramSource tile_program(gantry::DataType type) {
  const auto rows = is_narrow(type) ? &write_rows<std::uint16_t> : &write_rows<float>;
  return {.name = "tiles",
          .opencl = {kOpenClText, constants(type)},
          .cuda = {kCudaText, constants(type)},
          .cuda_image = {},
          .cpu = {{kTileKernel, rows}}};
}

TileTables::TileTables(cv::Size size) : width(static_cast<std::uint32_t>(size.width)) {
  const auto places = tile_grid(0, size);
  for (std::size_t i = 0; i < corners.size(); ++i) corners[i] = places[i].y * width + places[i].x;
  for (std::size_t rgb = 0; rgb < kChannels; ++rgb)
    scales[rgb] = {tile_scale(rgb).scale, tile_scale(rgb).offset};
}

gantry::PipelineJob tile_job(const gantry::Kernel& kernel, cv::Size size, const TileTables& tables,
                             gantry::DataType type) {
  const Bytes frame_bytes = Bytes{tables.width} * static_cast<Bytes>(size.height) * kChannels;
  constexpr std::size_t kRows = kTilesPerFrame * kChannels * kTileSide;
  return gantry::PipelineJob(kernel, 0)  // a step is a frame; there are as many as come
      .input(gantry::PipelineSource::message(), frame_bytes)
      .broadcast(std::span<const std::uint32_t>(tables.corners))
      .broadcast(std::span<const std::array<float, 2>>(tables.scales))
      .value(tables.width)
      .output(gantry::PipelineSink::message(), kTilesPerFrame * tile_bytes(type))
      .range([](std::uint64_t) {
        return gantry::LaunchRange{{kTileSide, kRows, 1}, {kTileSide, 1, 1}};
      });
}

}  // namespace vision
