#include "tiles.hpp"

#include <algorithm>
#include <cmath>
#include <opencv2/imgproc.hpp>

namespace vision {
namespace {

// The training set's statistics, R G B: https://pytorch.org/vision/stable/models.html
constexpr std::array<float, kChannels> kMean{0.485F, 0.456F, 0.406F};
constexpr std::array<float, kChannels> kDeviation{0.229F, 0.224F, 0.225F};

int clamp_side(double pixels) {
  return static_cast<int>(std::clamp(std::round(pixels), double{kTileSide}, double{kMaxFrameSide}));
}

std::uint16_t place_along(std::uint32_t index, int side) {
  const auto slack = static_cast<std::uint32_t>(side) - kTileSide;
  return static_cast<std::uint16_t>(slack * index / (kGridSide - 1));
}

/// Eight bits to normalised fp32, one row; simple enough for the compiler to vectorise.
void normalise_row(const std::uint8_t* from, float* to, float scale, float offset) {
  for (std::size_t i = 0; i < kTileSide; ++i) to[i] = static_cast<float>(from[i]) * scale + offset;
}

}  // namespace

cv::Size tiled_size(cv::Size video) {
  const auto shorter = std::min(video.width, video.height);
  const auto longer = std::max(video.width, video.height);
  const auto grow = std::max(1.0, double{kTileSide} / shorter);
  const auto factor = std::min(grow, double{kMaxFrameSide} / longer);
  return {clamp_side(video.width * factor), clamp_side(video.height * factor)};
}

std::array<TilePlace, kTilesPerFrame> tile_grid(std::uint32_t frame, cv::Size size) {
  std::array<TilePlace, kTilesPerFrame> places;
  for (std::uint32_t i = 0; i < kTilesPerFrame; ++i)
    places[i] = {frame, place_along(i % kGridSide, size.width),
                 place_along(i / kGridSide, size.height)};
  return places;
}

cv::Mat fitted(const cv::Mat& bgr) {
  const auto size = tiled_size(bgr.size());
  if (size == bgr.size()) return bgr;
  cv::Mat picture;
  cv::resize(bgr, picture, size, 0, 0, size.width < bgr.cols ? cv::INTER_AREA : cv::INTER_LINEAR);
  return picture;
}

Planes::Planes(const cv::Mat& bgr) {
  cv::split(fitted(bgr), planes_.data());
}

void Planes::write_tile(const TilePlace& place, float* tile) const {
  for (std::size_t rgb = 0; rgb < kChannels; ++rgb) {
    const auto& plane = planes_[kChannels - 1 - rgb];
    const auto [scale, offset] = tile_scale(rgb);
    for (std::uint32_t y = 0; y < kTileSide; ++y, tile += kTileSide)
      normalise_row(plane.ptr(static_cast<int>(place.y + y)) + place.x, tile, scale, offset);
  }
}

PixelScale tile_scale(std::size_t rgb) noexcept {
  return {1 / (255 * kDeviation[rgb]), -kMean[rgb] / kDeviation[rgb]};
}

PixelScale pixel_scale(std::size_t rgb) noexcept {
  return {kDeviation[rgb] * 255, kMean[rgb] * 255};
}

cv::Mat tile_picture(const float* tile) {
  constexpr int kSide = kTileSide;
  std::array<cv::Mat, kChannels> planes;
  for (std::size_t rgb = 0; rgb < kChannels; ++rgb) {
    // OpenCV's type for input is not const; convertTo() only reads, and saturates.
    auto* plane = const_cast<float*>(tile + rgb * kTilePixels);  // NOLINT
    const auto [scale, offset] = pixel_scale(rgb);
    cv::Mat(kSide, kSide, CV_32F, plane)
        .convertTo(planes[kChannels - 1 - rgb], CV_8U, double{scale}, double{offset});
  }
  cv::Mat picture;
  cv::merge(planes.data(), planes.size(), picture);
  return picture;
}

}  // namespace vision
