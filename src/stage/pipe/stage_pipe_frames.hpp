#pragma once  // stage/pipe/stage_pipe_frames.hpp: messages as frames on a pipe.

#include <array>
#include <cstdint>
#include <optional>

#include "base/fd.hpp"
#include "base/result.hpp"
#include "stage/buffer_store.hpp"
#include "stage/frame_header.hpp"
#include "sync/wait_ticks.hpp"

namespace gantry {

/// The writing end of one pipe. A frame that an error cut short cannot be taken back: the reader
/// then sees a stream that broke off, and nothing more is written.
class FrameWriter {
 public:
  /// `channel` names the pipe in errors.
  FrameWriter(std::string channel, Fd pipe, int interrupt);

  /// Writes a whole frame and waits for the reader as long as that takes, which
  /// `waits` counts. Errors: `peer_gone`, `interrupted`, `system`.
  [[nodiscard]] Result<void> write(FrameHeader::Kind kind, ConstByteSpan payload, WaitTicks& waits,
                                   const SendOptions& options = {});

  /// Waits until the reader has taken everything. Errors: `peer_gone`, `timed_out`, ...
  [[nodiscard]] Result<void> wait_drained(Deadline deadline);

  [[nodiscard]] int descriptor() const noexcept { return pipe_.get(); }
  [[nodiscard]] tl::unexpected<Error> gone() const;

 private:
  [[nodiscard]] Result<void> write_parts(ConstByteSpan header, ConstByteSpan payload,
                                         WaitTicks& waits);
  [[nodiscard]] Result<void> wait_room(WaitTicks& waits);

  std::string channel_;
  Fd pipe_;
  int interrupt_;
  bool broken_ = false;
};

/// The reading end of one pipe. Takes what is there, never waits, and goes on where it stopped.
class FrameReader {
 public:
  FrameReader(std::string channel, Fd pipe, Bytes largest_bytes);

  enum class State { starved, complete, ended };  ///< starved: wait until it is readable
  /// Errors: `peer_gone` (ended without saying so), `peer_misbehaved`, `out_of_memory`, `system`.
  [[nodiscard]] Result<State> advance(BufferStore& store);

  struct Frame {
    std::optional<BufferStore::Taken> buffer;  ///< None for an empty payload.
    FrameHeader header;
  };
  [[nodiscard]] Frame take_frame();  ///< After `complete`.

  [[nodiscard]] bool ended() const noexcept { return !pipe_; }
  [[nodiscard]] int descriptor() const noexcept { return pipe_.get(); }

 private:
  [[nodiscard]] Result<bool> fill(ByteSpan into, Bytes& have);
  [[nodiscard]] Result<void> check_kind() const;
  [[nodiscard]] Result<void> check_length() const;

  std::string channel_;
  Fd pipe_;
  Bytes largest_bytes_;
  FrameHeader header_;
  Bytes header_have_ = 0;
  std::optional<BufferStore::Taken> payload_;
  Bytes payload_have_ = 0;
};

/// Prepares a launcher's pipe for either class: it never blocks, and holds as much as allowed.
[[nodiscard]] Result<void> prepare_pipe(const Fd& pipe, std::string_view what);

}  // namespace gantry
