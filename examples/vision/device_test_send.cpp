// device_test_send: the device test's frames, as `decode` sends a video's.
#include "device_test_frames.hpp"
#include "stage.hpp"

namespace vision {
namespace {

constexpr Program kProgram{"device_test_send", "",
                           "Sends the device test's frames to the output 'frames'.", 0, 0};

struct Options {};

Result<void> send(gantry::StageOutput& output, std::uint32_t number, const cv::Mat& picture) {
  FrameHeader header;
  header.frame = number;
  header.width = static_cast<std::uint32_t>(picture.cols);
  header.height = static_cast<std::uint32_t>(picture.rows);
  auto loan = output.loan(frame_bytes(header));
  if (!loan) return failed(loan);
  put(put(loan->bytes(), header), std::span<const std::uint8_t>(picture.data, picture.dataend));
  return output.publish(*std::move(loan));
}

Result<void> run(const Options& /*none*/) {
  auto output = gantry::stage_output("frames");
  if (!output) return failed(output);
  Result<void> sent;
  for_each_test_frame([&](std::uint32_t number, const cv::Mat& picture) {
    sent = send(*output, number, picture);
    return sent.has_value();
  });
  return sent ? output->close() : sent;
}

}  // namespace
}  // namespace vision

int main(int argc, char** argv) {
  return vision::stage_main(
      vision::kProgram, argc, argv, [](auto) { return gantry::Result<vision::Options>(); },
      vision::run);
}
