#include "statistics.hpp"

#include <algorithm>
#include <cmath>

#include "tiles.hpp"

namespace vision {
namespace {

struct Sums {
  double values = 0;
  double squares = 0;
  double steps = 0;  // absolute differences of horizontal neighbours
};

/// One row in fp32, which keeps enough digits for 224 values; rows are added in double.
void add_row(const float* row, Sums& sums) {
  float values = row[0];
  float squares = row[0] * row[0];
  float steps = 0;
#pragma omp simd reduction(+ : values, squares, steps)
  for (std::size_t i = 1; i < kTileSide; ++i) {
    values += row[i];
    squares += row[i] * row[i];
    steps += std::abs(row[i] - row[i - 1]);
  }
  sums.values += double{values};
  sums.squares += double{squares};
  sums.steps += double{steps};
}

Sums sum_plane(const float* plane) {
  Sums sums;
  for (std::size_t y = 0; y < kTileSide; ++y) add_row(plane + y * kTileSide, sums);
  return sums;
}

}  // namespace

void measure_tile(const float* tile, TileResult& result) {
  constexpr double kSteps = double{kTilePixels - kTileSide} * kChannels;  // in all planes
  double sharpness = 0;
  for (std::size_t rgb = 0; rgb < kChannels; ++rgb) {
    const auto sums = sum_plane(tile + rgb * kTilePixels);
    const auto mean = sums.values / kTilePixels;
    const auto variance = std::max(0.0, sums.squares / kTilePixels - mean * mean);
    const auto [scale, offset] = pixel_scale(rgb);
    result.mean[rgb] = static_cast<float>(mean) * scale + offset;
    result.deviation[rgb] = static_cast<float>(std::sqrt(variance)) * scale;
    sharpness += sums.steps * double{scale} / kSteps;
  }
  result.sharpness = static_cast<float>(sharpness);
}

}  // namespace vision
