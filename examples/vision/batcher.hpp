#pragma once  // batcher.hpp: batches of tiles, put together where the next stage will read them.

#include <gantry/runtime.hpp>
#include <memory>

#include "tiles.hpp"

namespace vision {

/// The picture of a received frame: a view, as the frame is.
[[nodiscard]] cv::Mat picture_of(const FrameView& frame);

/// Collects the tiles of frames in a loan and publishes it when full. One thread.
class Batcher {
 public:
  explicit Batcher(gantry::StageOutput output) : output_(std::move(output)) {}

  /// Where the tiles of a frame of that tiled size are to be written.
  struct Room {
    std::span<float> tiles;              ///< In the order of tile_grid().
    std::shared_ptr<const void> memory;  ///< Keeps it, whatever becomes of the batch.
  };
  /// Sends first what there is of frames of another size. Asked for again it is the same.
  [[nodiscard]] Result<Room> room(cv::Size size);
  /// They are there, of the frame of that number.
  [[nodiscard]] Result<void> take(std::uint32_t frame);
  /// Sends what there is, then ends the stream.
  [[nodiscard]] Result<void> close();

 private:
  Result<void> flush();

  gantry::StageOutput output_;
  std::shared_ptr<gantry::Loan> loan_;
  BatchHeader header_;
};

static_assert(kBatchTiles % kTilesPerFrame == 0);  // a frame is never split

}  // namespace vision
