#include "batcher.hpp"

#include <algorithm>
#include <utility>

#include "stage.hpp"

namespace vision {

cv::Mat picture_of(const FrameView& frame) {
  // OpenCV's type for input is not const; nobody writes.
  auto* pixels = const_cast<std::byte*>(frame.pixels.data());  // NOLINT
  return {static_cast<int>(frame.header.height), static_cast<int>(frame.header.width), CV_8UC3,
          pixels};
}

Result<Batcher::Room> Batcher::room(cv::Size size, gantry::Deadline deadline) {
  const auto width = static_cast<std::uint32_t>(size.width);
  const auto height = static_cast<std::uint32_t>(size.height);
  if (width != header_.frame_width || height != header_.frame_height)
    if (auto done = flush(); !done) return failed(done);
  header_.frame_width = width;
  header_.frame_height = height;
  header_.type = type_;
  if (given_ == kBatchTiles)
    return tl::unexpected(
        gantry::Error{gantry::Code::timed_out, "the batch is full before all of it is there", {}});
  if (!loan_) {
    auto loan = output_.loan(kTensorOffset + kBatchTiles * tile_bytes(type_), deadline);
    if (!loan) return failed(loan);
    loan_ = std::make_shared<gantry::Loan>(*std::move(loan));
  }
  const Bytes tile = tile_bytes(type_);
  const std::size_t at = std::exchange(given_, given_ + kTilesPerFrame);
  return Room{loan_->bytes().subspan(kTensorOffset + at * tile, kTilesPerFrame * tile), loan_};
}

Result<void> Batcher::take(std::uint32_t frame) {
  const cv::Size size(static_cast<int>(header_.frame_width),
                      static_cast<int>(header_.frame_height));
  for (const auto& place : tile_grid(frame, size)) header_.places[header_.tiles++] = place;
  return header_.tiles == kBatchTiles ? flush() : Result<void>{};
}

Result<void> Batcher::close() {
  if (auto done = flush(); !done) return done;
  return output_.close();
}

Result<void> Batcher::flush() {
  if (header_.tiles == 0) return {};
  const auto full = std::exchange(loan_, {});
  full->shrink(batch_bytes(header_));
  const auto unused = put(full->bytes().first(kTensorOffset), header_);
  std::fill(unused.begin(), unused.end(), std::byte{});
  header_ = BatchHeader{};
  given_ = 0;
  return output_.publish(std::move(*full));
}

}  // namespace vision
