#pragma once  // batcher.hpp: batches of tiles, put together where the next stage will read them.

#include <gantry/run/stage.hpp>
#include <memory>

#include "tiles.hpp"

namespace vision {

/// The picture of a received frame: a view, as the frame is.
[[nodiscard]] cv::Mat picture_of(const FrameView& frame);

/// Collects the tiles of frames in a loan and publishes it when full. One thread at a time.
class Batcher {
 public:
  explicit Batcher(gantry::StageOutput output) : output_(std::move(output)) {}

  /// Where the tiles of a frame of that tiled size are to be written.
  struct Room {
    std::span<float> tiles;              ///< In the order of tile_grid().
    std::shared_ptr<const void> memory;  ///< Keeps it, whatever becomes of the batch.
  };
  /// Each time the next. Sends first what there is of frames of another size. Errors: those of
  /// loan(); `timed_out` as well while all of a batch is given out and not all taken.
  [[nodiscard]] Result<Room> room(cv::Size size,
                                  gantry::Deadline deadline = gantry::Deadline::never());
  /// They are there, in the first room that was not taken: of the frame of that number.
  [[nodiscard]] Result<void> take(std::uint32_t frame);
  /// Rooms of a batch.
  static constexpr unsigned kRooms = kBatchTiles / kTilesPerFrame;
  /// Sends what there is, then ends the stream.
  [[nodiscard]] Result<void> close();

 private:
  Result<void> flush();

  gantry::StageOutput output_;
  std::shared_ptr<gantry::Loan> loan_;
  std::uint32_t given_ = 0;  // tiles whose rooms are
  BatchHeader header_;       // its tiles: those that were taken
};

static_assert(kBatchTiles % kTilesPerFrame == 0);  // a frame is never split

}  // namespace vision
