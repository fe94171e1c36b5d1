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

constexpr std::array<std::int64_t, 3> kTileShape{kChannels, kTileSide, kTileSide};

Result<gantry::ReshapePlan> tile_plan(const TilePlace& place, cv::Size size,
                                      gantry::DataType type) {
  const std::array<std::int64_t, 3> pixels{size.height, size.width, kChannels};
  gantry::ReshapeOptions options{.order = {2, 0, 1},
                                 .crop_from = {place.y, place.x, 0},
                                 .channel_dimension = 0,
                                 .channels = {2, 1, 0}};  // BGR to RGB
  for (std::size_t rgb = 0; rgb < kChannels; ++rgb) {
    options.scale.push_back(tile_scale(rgb).scale);
    options.offset.push_back(tile_scale(rgb).offset);
  }
  return gantry::ReshapePlan::make(gantry::Tensor::dense(type, kTileShape),
                                   gantry::Tensor::dense(gantry::types::u8, pixels), options);
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

Result<TileCutter> TileCutter::make(cv::Size size, gantry::DataType type) {
  TileCutter cutter;
  cutter.size_ = size;
  for (const auto& place : tile_grid(0, size)) {
    auto plan = tile_plan(place, size, type);
    if (!plan) return tl::unexpected(plan.error());
    cutter.plans_.push_back(*std::move(plan));
  }
  return cutter;
}

void TileCutter::cut(const cv::Mat& bgr, ByteSpan tiles) const {
  const auto pixels = std::as_bytes(std::span(bgr.data, bgr.total() * kChannels));
  for (const auto& plan : plans_) {
    plan.convert(tiles.first(plan.destination_bytes()), pixels);
    tiles = tiles.subspan(plan.destination_bytes());
  }
}

Result<TileReader> TileReader::make(const BatchView& batch) {
  TileReader reader(batch);
  if (batch.header.type == gantry::types::f32) return reader;
  auto plan = gantry::ReshapePlan::make(gantry::types::f32,
                                        gantry::Tensor::dense(batch.header.type, kTileShape));
  if (!plan) return tl::unexpected(plan.error());
  reader.widening_ = *std::move(plan);
  reader.values_.resize(kTileValues);
  return reader;
}

const float* TileReader::tile(std::size_t index) {
  const ConstByteSpan bytes = batch_->tile(index);
  if (!widening_) return reinterpret_cast<const float*>(bytes.data());  // aligned: parse_batch()
  widening_->convert(std::as_writable_bytes(std::span(values_)), bytes);
  return values_.data();
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
