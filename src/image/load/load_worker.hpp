#pragma once  // image/load/load_worker.hpp: reads chunks ahead, unpacks and checks them.

#include <algorithm>
#include <deque>

#include "engine/codec/codec.hpp"
#include "image/load/load_job.hpp"

namespace gantry {

/// One of the threads of a loading. While it unpacks a chunk, the next ones are on their way.
class LoadWorker {
 public:
  /// Chunks that each worker reads at a time into a buffer each.
  static constexpr std::size_t kAheadPacked = 4;
  /// The same into their places: all together as many as the disk takes.
  [[nodiscard]] static constexpr std::size_t ahead_in_place(std::size_t workers) noexcept {
    return std::max<std::size_t>(kAheadPacked, 32 / workers);
  }

  LoadWorker(LoadJob& job, std::size_t number, std::size_t ahead) noexcept;
  void run();

 private:
  struct Flight {
    std::size_t chunk = 0;
    Bytes stored = 0;
    LoadMemory to;    // for all that is read
    Bytes piece = 0;  // that is read at a time
    Bytes asked = 0;  // so far
    Ticket ticket{};  // of the last piece
  };
  [[nodiscard]] bool may_begin() const noexcept;
  [[nodiscard]] Result<bool> begin_next();
  [[nodiscard]] Result<void> ask(Flight& flight);
  [[nodiscard]] Result<void> finish(Flight& flight);
  [[nodiscard]] Result<ByteSpan> unpack(const Flight& flight);
  [[nodiscard]] Result<void> settle();
  [[nodiscard]] Result<void> work();

  LoadJob& job_;
  const std::size_t number_;
  const std::size_t ahead_;
  const LoadJob::Worker& own_;
  std::size_t begun_ = 0;     // that use a buffer
  std::size_t unpacked_ = 0;  // that have no place
  bool gives_way_ = false;
  std::deque<Flight> flights_;
  std::optional<std::size_t> unsettled_;  // chunk
  codec::Decoder decoder_;
};

}  // namespace gantry
