#pragma once  // descriptors.hpp: what describes a window of a frame, in kWidth numbers.

#include <opencv2/core/mat.hpp>

#include "layout.hpp"

namespace search {

/// A picture's windows of 16 x 16 pixels, every 8 pixels to either side, row by row. A descriptor
/// has the means of a window's 8 x 8 squares of 2 x 2 grey pixels. Squares that are neighbours are
/// neighbours in it, too (Z-order), so that elements of a group are alike and its bounds narrow.
class Windows {
 public:
  /// `frame`: BGR. Empty if it is smaller than a window.
  explicit Windows(const cv::Mat& frame);

  [[nodiscard]] std::size_t count() const noexcept { return across_ * down_; }
  void describe(std::size_t window, float* descriptor) const;

 private:
  cv::Mat means_;  // of 2 x 2 pixels
  std::size_t across_ = 0, down_ = 0;
};

}  // namespace search
