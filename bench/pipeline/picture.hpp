#pragma once  // bench/pipeline/picture.hpp: a real picture: a frame of the demo's video.

#include <cstddef>
#include <cstdint>
#include <span>

namespace gantry::bench {

struct Picture {
  std::size_t width = 0;
  std::size_t height = 0;
  std::span<const std::uint8_t> pixels;  ///< Grey, row by row.

  /// Of the plane that is tiled with it.
  [[nodiscard]] std::uint8_t at(std::uint64_t row, std::uint64_t column) const noexcept {
    return pixels[row % height * width + column % width];
  }
};

/// bench/pipeline/frame.pgm, which the program brings along: the first frame in
/// docs/results/contact-sheet.jpg, in grey.
[[nodiscard]] Picture frame_of_the_demo();

}  // namespace gantry::bench
