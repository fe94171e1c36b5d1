// Conversions of pictures by OpenCV, picture by picture, as its users write them.

#include <bit>
#include <memory>
#include <opencv2/core.hpp>
#include <opencv2/imgproc.hpp>
#include <vector>

#include "reshape_task.hpp"

namespace gantry::bench {
namespace {

/// Has the planes of one picture made as floats; makes them what is wanted.
class Pictures {
 public:
  explicit Pictures(const ReshapeTask& task) : task_(task) {
    if (task.to == ReshapeTask::To::bf16) floats_.resize(static_cast<std::size_t>(values()));
  }
  virtual ~Pictures() = default;

  void run() {
    for (std::int64_t i = 0; i < task_.count; ++i) {
      auto* const from = const_cast<std::byte*>(task_.source) + i * 3 * task_.pixels();
      const cv::Mat picture(rows(), columns(), CV_8UC3, from);
      if (task_.to == ReshapeTask::To::f32) {
        make(picture, planes_at(reinterpret_cast<float*>(task_.destination) + i * values()));
        continue;
      }
      make(picture, planes_at(floats_.data()));
      halve(reinterpret_cast<std::uint16_t*>(task_.destination) + i * values());
    }
  }

 protected:
  using Planes = std::array<cv::Mat, 3>;
  /// `planes` are red, green and blue, and have their memory.
  virtual void make(const cv::Mat& picture, Planes planes) = 0;

  [[nodiscard]] cv::Scalar of_channels(const std::array<float, 3>& values) const {
    return {values[0], values[1], values[2]};
  }
  ReshapeTask task_;

 private:
  [[nodiscard]] int rows() const { return static_cast<int>(task_.height); }
  [[nodiscard]] int columns() const { return static_cast<int>(task_.width); }
  [[nodiscard]] std::int64_t values() const { return 3 * task_.pixels(); }
  [[nodiscard]] Planes planes_at(float* at) const {
    Planes planes;
    for (std::int64_t c = 0; c < 3; ++c)
      planes[static_cast<std::size_t>(c)] =
          cv::Mat(rows(), columns(), CV_32F, at + c * task_.pixels());
    return planes;
  }
  /// The library has no bf16: a loop, to nearest even.
  void halve(std::uint16_t* to) const {
    for (std::size_t i = 0; i < floats_.size(); ++i) {
      const auto bits = std::bit_cast<std::uint32_t>(floats_[i]);
      to[i] = static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
    }
  }

  std::vector<float> floats_;
};

/// Each step a pass of its own.
class Passes : public Pictures {
 public:
  using Pictures::Pictures;

 private:
  void make(const cv::Mat& picture, Planes planes) override {
    cv::cvtColor(picture, red_first_, cv::COLOR_BGR2RGB);
    red_first_.convertTo(values_, CV_32F);
    cv::multiply(values_, of_channels(task_.scale), values_);
    cv::add(values_, of_channels(task_.offset), values_);
    cv::split(values_, planes.data());
  }
  cv::Mat red_first_, values_;
};

/// Planes first, of bytes; then each is scaled where it is wanted.
class SplitFirst : public Pictures {
 public:
  using Pictures::Pictures;

 private:
  void make(const cv::Mat& picture, Planes planes) override {
    cv::split(picture, bytes_.data());
    for (std::size_t c = 0; c < 3; ++c)
      bytes_[2 - c].convertTo(planes[c], CV_32F, static_cast<double>(task_.scale[c]),
                              static_cast<double>(task_.offset[c]));
  }
  Planes bytes_;
};

}  // namespace
}  // namespace gantry::bench

extern "C" [[gnu::visibility("default")]] bool gantry_reshape_peer(
    const gantry::bench::ReshapeTask& task, const std::string& variant,
    gantry::bench::Reshaping& made, std::string& why) {
  using namespace gantry::bench;
  if (!task.pictures) {
    why = "it has no such types";
    return false;
  }
  cv::setNumThreads(1);
  std::shared_ptr<Pictures> pictures;
  if (variant == "split")
    pictures = std::make_shared<SplitFirst>(task);
  else
    pictures = std::make_shared<Passes>(task);
  made = [pictures] { pictures->run(); };
  return true;
}
