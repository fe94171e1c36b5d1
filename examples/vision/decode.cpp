// decode: a video file into frames.
#include <unistd.h>

#include <cerrno>
#include <opencv2/videoio.hpp>

#include "messages.hpp"
#include "stage.hpp"

namespace vision {
namespace {

constexpr Program kProgram{
    "decode", "[VIDEO] [EVERY]",
    "Sends every EVERY-th frame (default 5) of VIDEO (default: vtest.avi of Debian's opencv-doc)\n"
    "to the output 'frames'.",
    0, 2};
constexpr unsigned kMaxEvery = 1'000'000;

struct Options {
  std::string video = "/usr/share/doc/opencv-doc/examples/data/vtest.avi";
  unsigned every = 5;
};

Result<Options> parse(Arguments arguments) {
  Options options;
  if (!arguments.empty()) options.video = arguments[0];
  if (arguments.size() < 2) return options;
  const auto every = parse_number(arguments[1], "EVERY", 1, kMaxEvery);
  if (!every) return failed(every);
  options.every = *every;
  return options;
}

auto refuse(const std::string& video, const std::string& why, const char* hint) {
  return tl::unexpected(gantry::Error{gantry::Code::invalid_argument, video + ": " + why, hint});
}

/// OpenCV takes more than paths: streams by URL, and numbered pictures by pattern.
bool is_plain_path(const std::string& video) {
  return video.find("://") == std::string::npos && video.find('%') == std::string::npos;
}

Result<cv::VideoCapture> open_video(const std::string& video) {
  if (is_plain_path(video) && ::access(video.c_str(), R_OK) != 0)
    return refuse(video, std::strerror(errno), "give a video file to read");
  cv::VideoCapture capture;
  if (!capture.open(video))
    return refuse(video, "not a video that OpenCV can read", "`ffprobe FILE` shows what it is");
  return capture;
}

/// Decodes the grabbed frame straight into a loan. Its size is certain only afterwards; if `size`
/// was wrong, the frame lands elsewhere and is copied once more.
class Sender {
 public:
  Sender(gantry::StageOutput output, const cv::VideoCapture& capture)
      : output_(std::move(output)),
        capture_(capture),
        size_(side(cv::CAP_PROP_FRAME_WIDTH), side(cv::CAP_PROP_FRAME_HEIGHT)) {}

  /// Sends every `every`-th frame; returns how many.
  Result<unsigned> send_frames(unsigned every) {
    unsigned sent = 0;
    for (unsigned frame = 0; capture_.grab(); ++frame) {
      if (frame % every != 0) continue;
      const auto done = send_frame(frame);
      if (!done) return failed(done);
      if (!*done) break;
      ++sent;
    }
    return sent;
  }

  Result<void> close() { return output_.close(); }

 private:
  [[nodiscard]] int side(int property) const {
    const auto pixels = capture_.get(property);
    return pixels >= 1 && pixels <= kMaxVideoSide ? static_cast<int>(pixels) : 1;
  }

  static cv::Mat picture(gantry::Loan& loan, cv::Size size) {
    return {size, CV_8UC3, loan.bytes().data() + sizeof(FrameHeader)};
  }

  static FrameHeader header_of(unsigned frame, cv::Size size) {
    FrameHeader header;
    header.frame = frame;
    header.width = static_cast<std::uint32_t>(size.width);
    header.height = static_cast<std::uint32_t>(size.height);
    return header;
  }

  Result<gantry::Loan> loan_for(unsigned frame, cv::Size size) {
    const auto header = header_of(frame, size);
    auto loan = output_.loan(frame_bytes(header));
    if (loan) put(loan->bytes(), header);
    return loan;
  }

  /// False: the video ends here.
  Result<bool> send_frame(unsigned frame) {
    auto loan = loan_for(frame, size_);
    if (!loan) return failed(loan);
    const auto lent = picture(*loan, size_);
    cv::Mat decoded = lent;
    if (!capture_.retrieve(decoded) || decoded.empty()) return false;
    if (decoded.data != lent.data) return resend(frame, decoded, std::move(*loan));
    return publish(std::move(*loan));
  }

  Result<bool> resend(unsigned frame, const cv::Mat& decoded, gantry::Loan&& unfit) {
    if (decoded.type() != CV_8UC3 || decoded.cols > static_cast<int>(kMaxVideoSide) ||
        decoded.rows > static_cast<int>(kMaxVideoSide))
      return refuse("frame " + std::to_string(frame), "neither BGR nor of a sensible size", "");
    {
      const auto given_back = std::move(unfit);
    }
    size_ = decoded.size();
    auto loan = loan_for(frame, size_);
    if (!loan) return failed(loan);
    decoded.copyTo(picture(*loan, size_));
    return publish(std::move(*loan));
  }

  Result<bool> publish(gantry::Loan&& loan) {
    const auto done = output_.publish(std::move(loan));
    if (!done) return failed(done);
    return true;
  }

  gantry::StageOutput output_;
  cv::VideoCapture capture_;
  cv::Size size_;
};

Result<void> run(const Options& options) {
  const auto video = open_video(options.video);
  if (!video) return failed(video);
  auto output = gantry::stage_output("frames");
  if (!output) return failed(output);
  Sender sender(std::move(*output), *video);
  const auto sent = sender.send_frames(options.every);
  if (!sent) return failed(sent);
  if (*sent == 0) return refuse(options.video, "no frame in it can be decoded", "");
  return sender.close();
}

}  // namespace
}  // namespace vision

int main(int argc, char** argv) {
  return vision::stage_main(vision::kProgram, argc, argv, vision::parse, vision::run);
}
