// batch: frames into batches of normalised tiles.
#include <algorithm>
#include <utility>

#include "stage.hpp"
#include "tiles.hpp"

namespace vision {
namespace {

constexpr Program kProgram{
    "batch", "",
    "Cuts each frame of the input 'frames' into 4 x 4 tiles of 224 x 224, and sends them\n"
    "normalised, as fp32 NCHW, 256 at a time, to the output 'batches'.",
    0, 0};

struct Options {};

Result<Options> parse(Arguments /*none*/) {
  return Options{};
}

/// Collects tiles in a loan, where the next stage will read them, and publishes it when full.
class Batcher {
 public:
  explicit Batcher(gantry::StageOutput output) : output_(std::move(output)) {}

  Result<void> add(const FrameView& frame) {
    const Planes planes(picture(frame));
    if (auto ready = make_room(planes.size()); !ready) return ready;
    for (const auto& place : tile_grid(frame.header.frame, planes.size())) add(planes, place);
    return header_.tiles == kBatchTiles ? flush() : Result<void>{};
  }

  /// Publishes what there is, then ends the stream.
  Result<void> close() {
    if (auto done = flush(); !done) return done;
    return output_.close();
  }

 private:
  static cv::Mat picture(const FrameView& frame) {
    // OpenCV's type for input is not const; Planes only reads.
    auto* pixels = const_cast<std::byte*>(frame.pixels.data());  // NOLINT
    return {static_cast<int>(frame.header.height), static_cast<int>(frame.header.width), CV_8UC3,
            pixels};
  }

  /// A loan to write in, whose tiles so far are of frames of `size`.
  Result<void> make_room(cv::Size size) {
    const auto width = static_cast<std::uint32_t>(size.width);
    const auto height = static_cast<std::uint32_t>(size.height);
    if (width != header_.frame_width || height != header_.frame_height)
      if (auto done = flush(); !done) return done;
    header_.frame_width = width;
    header_.frame_height = height;
    if (loan_) return {};
    auto loan = output_.loan(kFullBatchBytes);
    if (!loan) return failed(loan);
    loan_ = std::move(*loan);
    return {};
  }

  void add(const Planes& planes, const TilePlace& place) {
    auto* tensor = reinterpret_cast<float*>(loan_.bytes().data() + kTensorOffset);
    planes.write_tile(place, tensor + header_.tiles * kTileValues);
    header_.places[header_.tiles++] = place;
  }

  Result<void> flush() {
    if (header_.tiles == 0) return {};
    loan_.shrink(batch_bytes(header_));
    const auto unused = put(loan_.bytes().first(kTensorOffset), header_);
    std::fill(unused.begin(), unused.end(), std::byte{});
    header_ = BatchHeader{};
    return output_.publish(std::exchange(loan_, {}));
  }

  gantry::StageOutput output_;
  gantry::Loan loan_;
  BatchHeader header_;
};

Result<void> run(const Options& /*none*/) {
  auto input = gantry::stage_input("frames");
  if (!input) return failed(input);
  auto output = gantry::stage_output("batches");
  if (!output) return failed(output);
  Batcher batcher(std::move(*output));
  const auto done = for_each_message(*input, [&](const gantry::Message& message) {
    return parse_frame(message.bytes()).and_then([&](const FrameView& frame) {
      return batcher.add(frame);
    });
  });
  return done ? batcher.close() : done;
}

}  // namespace
}  // namespace vision

int main(int argc, char** argv) {
  return vision::stage_main(vision::kProgram, argc, argv, vision::parse, vision::run);
}
