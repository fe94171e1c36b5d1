#pragma once  // sheet_image.hpp: the contact sheet: frames with boxes around people, in a grid.

#include <opencv2/core.hpp>

#include "messages.hpp"

namespace vision {

/// The frame again, from its tiles; `tiles` are indices into the result's inspected tiles.
[[nodiscard]] cv::Mat stitch(const ResultView& result, std::span<const std::size_t> tiles);

class ContactSheet {
 public:
  /// Adds one frame with its people. Of a long video, every second, fourth, ... frame is kept.
  void add(const cv::Mat& frame, std::uint32_t number, std::span<const Person> people);

  /// The picture, frames in order, below a title line (ASCII).
  [[nodiscard]] cv::Mat render(const std::string& title) const;

 private:
  struct Thumbnail {
    std::uint32_t number;
    cv::Mat picture;
  };
  void thin_out();

  std::vector<Thumbnail> thumbnails_;
  std::size_t added_ = 0;
  std::size_t keep_every_ = 1;
};

}  // namespace vision
