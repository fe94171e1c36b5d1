// describe: a video into descriptors, which stay here while another process searches in them.
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <gantry/shape.hpp>
#include <gantry/stage.hpp>
#include <opencv2/core/utils/logger.hpp>
#include <opencv2/videoio.hpp>
#include <random>

#include "descriptors.hpp"
#include "program.hpp"

namespace search {
namespace {

constexpr Program kProgram{
    "describe", "VIDEO ROWS QUERIES",
    "Describes the windows of every fifth frame of VIDEO, ROWS in all, and sends them to the\n"
    "outputs 'planes' and 'rows', and one window of each of QUERIES other frames to 'queries'.",
    3};
constexpr std::size_t kEvery = 5, kQueryFrame = 2;  // of five frames the third has a query
constexpr std::size_t kMostQueries = 10'000;

class Describer {
 public:
  Describer(std::span<std::byte> rows, std::size_t queries)
      : rows_(reinterpret_cast<float*>(rows.data()), rows.size() / sizeof(float)),
        queries_wanted_(queries) {}

  [[nodiscard]] bool is_done() const noexcept {
    return described_ == rows_.size() && queries_.size() == queries_wanted_ * kWidth;
  }
  [[nodiscard]] std::size_t rows() const noexcept { return described_ / kWidth; }
  [[nodiscard]] const std::vector<float>& queries() const noexcept { return queries_; }

  void take(std::size_t frame, const cv::Mat& picture) {
    if (frame % kEvery != 0 && frame % kEvery != kQueryFrame) return;
    const Windows windows(picture);
    if (windows.count() == 0) return;
    if (frame % kEvery == kQueryFrame) return ask(windows);
    for (std::size_t i = 0; i < windows.count() && described_ < rows_.size(); ++i) {
      windows.describe(i, &rows_[described_]);
      described_ += kWidth;
    }
  }

 private:
  void ask(const Windows& windows) {
    if (queries_.size() == queries_wanted_ * kWidth) return;
    queries_.resize(queries_.size() + kWidth);
    windows.describe(random_() % windows.count(), &queries_[queries_.size() - kWidth]);
  }

  std::span<float> rows_;
  std::size_t described_ = 0;  // elements
  std::size_t queries_wanted_;
  std::vector<float> queries_;
  std::mt19937 random_;  // the same windows every time
};

Result<void> describe_video(const std::string& video, Describer& describer) {
  if (::access(video.c_str(), R_OK) != 0)
    return refuse(video + ": " + std::strerror(errno), "give a video file to read");
  cv::VideoCapture capture;
  if (!capture.open(video)) return refuse(video + ": not a video that OpenCV can read", "");
  cv::Mat picture;
  for (std::size_t frame = 0; !describer.is_done() && capture.read(picture); ++frame)
    describer.take(frame, picture);
  if (describer.is_done()) return {};
  return refuse(video + ": it gives " + std::to_string(describer.rows()) + " descriptors and " +
                    std::to_string(describer.queries().size() / kWidth) + " queries",
                "ask for no more ROWS and QUERIES than that");
}

// Planes are made in the copy from one channel's memory to the other's.
Result<void> run(Arguments arguments) {
  const auto rows = parse_number(arguments[1], "ROWS", kMostRows);
  if (!rows) return failed(rows);
  const auto queries = parse_number(arguments[2], "QUERIES", kMostQueries);
  if (!queries) return failed(queries);
  auto to_queries = gantry::stage_output("queries");
  if (!to_queries) return failed(to_queries);
  auto to_planes = gantry::stage_output("planes");
  if (!to_planes) return failed(to_planes);
  auto to_rows = gantry::stage_output("rows");
  if (!to_rows) return failed(to_rows);

  const gantry::Tensor tensor = tensor_of(*rows);
  const auto plan = gantry::ReshapePlan::to_planes(tensor, kPlanes);
  if (!plan) return failed(plan);
  auto loan = to_rows->loan(*rows * kWidth * sizeof(float));
  if (!loan) return failed(loan);
  Describer describer(loan->bytes(), *queries);
  if (auto done = describe_video(arguments[0], describer); !done) return done;

  auto draft = gantry::Draft().copy(loan->bytes(), tensor).as(*plan);
  if (auto sent = to_planes->send(std::move(draft)); !sent) return sent;
  if (auto sent = to_rows->publish(std::move(*loan)); !sent) return sent;
  if (auto sent = to_queries->send(std::as_bytes(std::span(describer.queries()))); !sent)
    return sent;
  for (gantry::StageOutput* output : {&*to_queries, &*to_planes, &*to_rows})
    if (auto closed = output->close(); !closed) return closed;
  return {};
}

}  // namespace
}  // namespace search

int main(int argc, char** argv) {
  cv::setNumThreads(1);
  cv::utils::logging::setLogLevel(cv::utils::logging::LOG_LEVEL_SILENT);
  ::setenv("OPENCV_FFMPEG_LOGLEVEL", "-8", 0);  // AV_LOG_QUIET
  return search::run_program(search::kProgram, argc, argv, search::run);
}
