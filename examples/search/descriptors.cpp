#include "descriptors.hpp"

#include <opencv2/imgproc.hpp>

namespace search {
namespace {

constexpr int kSide = 8;  // squares of a window
constexpr int kStep = 4;  // squares from one window to the next

std::size_t windows_along(int squares) {
  return squares < kSide ? 0 : static_cast<std::size_t>((squares - kSide) / kStep + 1);
}

/// The bits of both in turn.
std::size_t z_order(int x, int y) {
  std::size_t place = 0;
  for (int bit = 0; bit < 3; ++bit)
    place |= static_cast<std::size_t>((x >> bit & 1) << 2 * bit | (y >> bit & 1) << (2 * bit + 1));
  return place;
}

}  // namespace

Windows::Windows(const cv::Mat& frame) {
  cv::Mat grey;
  cv::cvtColor(frame, grey, cv::COLOR_BGR2GRAY);
  grey.convertTo(grey, CV_32F);
  cv::resize(grey, means_, {grey.cols / 2, grey.rows / 2}, 0, 0, cv::INTER_AREA);
  across_ = windows_along(means_.cols);
  down_ = windows_along(means_.rows);
}

void Windows::describe(std::size_t window, float* descriptor) const {
  const int left = static_cast<int>(window % across_) * kStep;
  const int top = static_cast<int>(window / across_) * kStep;
  for (int y = 0; y < kSide; ++y)
    for (int x = 0; x < kSide; ++x) descriptor[z_order(x, y)] = means_.at<float>(top + y, left + x);
}

}  // namespace search
