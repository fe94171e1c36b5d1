#pragma once  // tiles.hpp: cuts frames into normalised tiles, and turns tiles back into pictures.

#include <gantry/shape.hpp>
#include <opencv2/core.hpp>
#include <optional>

#include "messages.hpp"

namespace vision {

/// The size to which a frame is brought before it is tiled: its own if 4 x 4 tiles cover it with
/// some overlap, else the nearest that they cover. Keeps the aspect ratio up to 24:7.
[[nodiscard]] cv::Size tiled_size(cv::Size video);

/// The places of the tiles of a frame of that size, row by row: evenly spread, edge to edge.
[[nodiscard]] std::array<TilePlace, kTilesPerFrame> tile_grid(std::uint32_t frame, cv::Size size);

/// The picture at its tiled size; the picture itself if it has that size already.
[[nodiscard]] cv::Mat fitted(const cv::Mat& bgr);

/// Makes tiles of frames of one tiled size, each by one plan: its part of the picture, BGR to RGB,
/// pixels to planes, and (value / 255 - mean) / deviation of ImageNet, in one pass.
class TileCutter {
 public:
  /// `type`: of the values.
  [[nodiscard]] static Result<TileCutter> make(cv::Size size, gantry::DataType type);
  [[nodiscard]] cv::Size size() const noexcept { return size_; }
  /// Writes the tiles of a picture of that size, in the order of tile_grid().
  void cut(const cv::Mat& bgr, ByteSpan tiles) const;

 private:
  cv::Size size_;
  std::vector<gantry::ReshapePlan> plans_;  // of each place in the grid
};

/// The tiles of a batch as fp32.
class TileReader {
 public:
  /// The batch must outlive it. Errors: none for a batch that was checked.
  [[nodiscard]] static Result<TileReader> make(const BatchView& batch);
  /// Valid until the next call.
  [[nodiscard]] const float* tile(std::size_t index);

 private:
  explicit TileReader(const BatchView& batch) : batch_(&batch) {}
  const BatchView* batch_;
  std::optional<gantry::ReshapePlan> widening_;  // nothing: they are fp32
  std::vector<float> values_;
};

/// value * scale + offset, rounded after each of the two.
struct PixelScale {
  float scale;
  float offset;
};
/// From 0..255 to a normalised value of channel `rgb` (0 is R).
[[nodiscard]] PixelScale tile_scale(std::size_t rgb) noexcept;
/// The reverse.
[[nodiscard]] PixelScale pixel_scale(std::size_t rgb) noexcept;

/// The BGR picture of a normalised tile.
[[nodiscard]] cv::Mat tile_picture(const float* tile);

}  // namespace vision
