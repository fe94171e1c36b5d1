#pragma once  // tiles.hpp: cuts frames into normalised tiles, and turns tiles back into pictures.

#include <opencv2/core.hpp>

#include "messages.hpp"

namespace vision {

/// The size to which a frame is brought before it is tiled: its own if 4 x 4 tiles cover it with
/// some overlap, else the nearest that they cover. Keeps the aspect ratio up to 24:7.
[[nodiscard]] cv::Size tiled_size(cv::Size video);

/// The places of the tiles of a frame of that size, row by row: evenly spread, edge to edge.
[[nodiscard]] std::array<TilePlace, kTilesPerFrame> tile_grid(std::uint32_t frame, cv::Size size);

/// The picture at its tiled size; the picture itself if it has that size already.
[[nodiscard]] cv::Mat fitted(const cv::Mat& bgr);

/// Colour planes of a frame at its tiled size, ready to be cut.
class Planes {
 public:
  explicit Planes(const cv::Mat& bgr);
  [[nodiscard]] cv::Size size() const { return planes_[0].size(); }
  /// Writes one tile as fp32 planes R, G, B: (value / 255 - mean) / deviation of ImageNet.
  void write_tile(const TilePlace& place, float* tile) const;

 private:
  std::array<cv::Mat, kChannels> planes_;  // B, G, R
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
