#include "sheet_image.hpp"

#include <algorithm>
#include <opencv2/imgproc.hpp>

namespace vision {
namespace {

// All in pixels.
constexpr int kColumns = 4;
constexpr int kThumbnailWidth = 480;
constexpr int kGap = 12;
constexpr int kTitleHeight = 56;
constexpr int kCaptionHeight = 26;
constexpr int kLabelHeight = 15;
constexpr std::size_t kMaxThumbnails = 64;

const cv::Scalar kPaper(250, 250, 250);
const cv::Scalar kInk(40, 40, 40);
const cv::Scalar kBox(60, 220, 60);
constexpr auto kFont = cv::FONT_HERSHEY_SIMPLEX;

void write_text(cv::Mat& on, const std::string& text, cv::Point at, double size, int thickness) {
  cv::putText(on, text, at, kFont, size, kInk, thickness, cv::LINE_AA);
}

std::string score_text(float score) {
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), "%.1f", double{score});
  return text.data();
}

void draw_person(cv::Mat& thumbnail, const Person& person, float scale) {
  const cv::Rect2f box(person.x * scale, person.y * scale, person.width * scale,
                       person.height * scale);
  cv::rectangle(thumbnail, cv::Rect(box), kBox, 2);
  const auto text = score_text(person.score);
  int baseline = 0;
  const auto width = cv::getTextSize(text, kFont, 0.38, 1, &baseline).width;
  const int left = static_cast<int>(box.x) - 1;
  const int bottom = std::max(static_cast<int>(box.y), kLabelHeight);  // stays within the picture
  cv::rectangle(thumbnail, cv::Rect(left, bottom - kLabelHeight, width + 4, kLabelHeight), kBox,
                cv::FILLED);
  write_text(thumbnail, text, {left + 2, bottom - 4}, 0.38, 1);
}

std::string caption(std::uint32_t number, std::size_t people) {
  return "frame " + std::to_string(number) + ": " + std::to_string(people) +
         (people == 1 ? " person" : " people");
}

int rows_for(std::size_t thumbnails) {
  return static_cast<int>((thumbnails + kColumns - 1) / kColumns);
}

cv::Point cell_corner(std::size_t index, int cell_height) {
  const auto column = static_cast<int>(index % kColumns);
  const auto row = static_cast<int>(index / kColumns);
  return {kGap + column * (kThumbnailWidth + kGap), kTitleHeight + row * (cell_height + kGap)};
}

}  // namespace

cv::Mat stitch(const ResultView& result, std::span<const std::size_t> tiles) {
  constexpr int kSide = kTileSide;
  cv::Mat frame = cv::Mat::zeros(static_cast<int>(result.header.frame_height),
                                 static_cast<int>(result.header.frame_width), CV_8UC3);
  for (const auto index : tiles) {
    const auto& place = result.inspected[index];
    // OpenCV's type for input is not const; copyTo() only reads.
    auto* pixels = const_cast<std::byte*>(result.tile(index).data());  // NOLINT
    cv::Mat(kSide, kSide, CV_8UC3, pixels).copyTo(frame(cv::Rect(place.x, place.y, kSide, kSide)));
  }
  return frame;
}

void ContactSheet::add(const cv::Mat& frame, std::uint32_t number, std::span<const Person> people) {
  if (added_++ % keep_every_ != 0) return;
  if (thumbnails_.size() == kMaxThumbnails) thin_out();
  const auto scale = static_cast<float>(kThumbnailWidth) / static_cast<float>(frame.cols);
  const auto height = static_cast<int>(static_cast<float>(frame.rows) * scale);
  cv::Mat canvas(height + kCaptionHeight, kThumbnailWidth, CV_8UC3, kPaper);
  cv::Mat picture = canvas.rowRange(0, height);
  cv::resize(frame, picture, picture.size(), 0, 0, cv::INTER_AREA);
  for (const auto& person : people) draw_person(picture, person, scale);
  write_text(canvas, caption(number, people.size()), {2, height + 18}, 0.5, 1);
  thumbnails_.push_back({number, canvas});
}

void ContactSheet::thin_out() {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < thumbnails_.size(); i += 2) thumbnails_[kept++] = thumbnails_[i];
  thumbnails_.resize(kept);
  keep_every_ *= 2;
}

cv::Mat ContactSheet::render(const std::string& title) const {
  auto sorted = thumbnails_;
  std::sort(sorted.begin(), sorted.end(),
            [](const auto& a, const auto& b) { return a.number < b.number; });
  int cell_height = 0;
  for (const auto& each : sorted) cell_height = std::max(cell_height, each.picture.rows);
  cv::Mat sheet(kTitleHeight + rows_for(sorted.size()) * (cell_height + kGap),
                kGap + kColumns * (kThumbnailWidth + kGap), CV_8UC3, kPaper);
  write_text(sheet, title, {kGap, 38}, 0.9, 2);
  for (std::size_t i = 0; i < sorted.size(); ++i)
    sorted[i].picture.copyTo(
        sheet(cv::Rect(cell_corner(i, cell_height), sorted[i].picture.size())));
  return sheet;
}

}  // namespace vision
