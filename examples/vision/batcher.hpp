#pragma once  // batcher.hpp: puts batches of tiles together where the next stage will read them.

#include <gantry/stage.hpp>
#include <memory>

#include "tiles.hpp"

namespace vision {

/// The picture of a received frame: a view, as the frame is.
[[nodiscard]] cv::Mat picture_of(const FrameView& frame);

/// Collects the tiles of frames in a loan and publishes it when full. One thread at a time.
class Batcher {
 public:
  /// `type`: of the values.
  Batcher(gantry::StageOutput output, gantry::DataType type)
      : output_(std::move(output)), type_(type) {}
  [[nodiscard]] gantry::DataType type() const noexcept { return type_; }

  /// The place for the tiles of one frame.
  struct Room {
    ByteSpan tiles;                      ///< In the order of tile_grid().
    std::shared_ptr<const void> memory;  ///< Keeps that memory, whatever becomes of the batch.
  };
  /// Returns the next place at each call, for a frame of tiled size `size`. First sends what there
  /// is of frames of another size. Errors: those of loan(); `timed_out` also while all of a batch
  /// is given out and not all taken.
  [[nodiscard]] Result<Room> room(cv::Size size,
                                  gantry::Deadline deadline = gantry::Deadline::never());
  /// The tiles are in the first place that was not taken: those of the frame with that number.
  [[nodiscard]] Result<void> take(std::uint32_t frame);
  /// Places of a batch.
  static constexpr unsigned kRooms = kBatchTiles / kTilesPerFrame;
  /// Sends what there is, then ends the stream.
  [[nodiscard]] Result<void> close();

 private:
  Result<void> flush();

  gantry::StageOutput output_;
  gantry::DataType type_;
  std::shared_ptr<gantry::Loan> loan_;
  std::uint32_t given_ = 0;  // tiles whose places are given out
  BatchHeader header_;       // its tiles: those that were taken
};

static_assert(kBatchTiles % kTilesPerFrame == 0);  // a frame is never split

}  // namespace vision
