#pragma once  // device_test_frames.hpp: the video of the device test; both of its ends make it.

#include <algorithm>
#include <opencv2/core.hpp>
#include <random>

#include "messages.hpp"

namespace vision {

/// A number of frames of one size, one after another. They make a batch and a part of one; a size
/// that divides by nothing; one that is made smaller, and one that is made larger, before it is
/// tiled.
struct Stretch {
  std::uint32_t frames;
  int width;
  int height;
};
inline constexpr std::array<Stretch, 4> kStretches{
    {{20, 260, 240}, {3, 301, 229}, {2, 1000, 500}, {1, 100, 90}}};

/// Calls `take(number, picture)` with each frame until it answers false.
template <class Take>
void for_each_test_frame(Take take) {
  std::uint32_t number = 0;
  for (const auto& stretch : kStretches)
    for (std::uint32_t i = 0; i < stretch.frames; ++i, ++number) {
      cv::Mat picture(stretch.height, stretch.width, CV_8UC3);
      std::mt19937 random(number);
      std::generate_n(picture.data, picture.total() * kChannels,
                      [&] { return static_cast<std::uint8_t>(random()); });
      if (!take(number, picture)) return;
    }
}

}  // namespace vision
