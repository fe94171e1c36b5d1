#pragma once  // pipe/stage_pipe_frames.hpp: messages as frames on a pipe, and buffers for them.

#include <poll.h>

#include <array>
#include <cstdint>
#include <gantry/channel.hpp>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/base/os/fd.hpp"
#include "core/base/os/socket.hpp"
#include "core/base/result.hpp"
#include "core/sync/wait_ticks.hpp"

namespace gantry {

/// Memory for transports that cannot lend the reader's: blocks of a pool, touched once, then
/// reused. Any thread may give back.
class BufferStore final : public detail::SlotOwner {
 public:
  static constexpr Bytes kAlignment = Pool::kPageAlignment;

  /// `budget_bytes`: the limit for one buffer; 0: a pool's default.
  explicit BufferStore(Bytes budget_bytes);

  struct Taken {
    std::uint64_t token = 0;
    ByteSpan bytes;
  };
  /// Returns a buffer of `size` bytes. Errors: `too_large`, `out_of_memory`.
  [[nodiscard]] Result<Taken> take(Bytes size);
  void give_back(std::uint64_t token) noexcept override;

  /// Errors: `too_large` if take() could never give that size.
  [[nodiscard]] Result<void> check_size(Bytes size) const;
  /// Buffers that are out now.
  [[nodiscard]] std::uint64_t buffers() const { return pool_->report().blocks; }

 private:
  Result<Pool> pool_;
  const Bytes limit_bytes_;
  std::mutex mutex_;
  // by token, the address; frees also what is never given back
  std::map<std::uint64_t, Block> out_;
};

/// Precedes every payload. `end` closes the stream; a stream that stops without it broke off. Both
/// ends are of one machine and one build, so the numbers travel as they are.
struct FrameHeader {
  enum class Kind : std::uint32_t { data = 1, end = 2 };
  static constexpr std::uint32_t kMagic = 0x4e465047;  // "GPFN"

  std::uint32_t magic = kMagic;
  Kind kind = Kind::data;
  std::uint64_t length = 0;      ///< Size of the payload that follows.
  std::uint64_t sent_ticks = 0;  ///< Meter::ticks() when sending began.
  std::uint64_t user = 0;        ///< As in SendOptions; also the next three.
  std::uint64_t correlation = 0;
  std::uint64_t deadline_ns = 0;
  std::uint32_t type = 0;
  std::uint32_t reserved = 0;

  FrameHeader() = default;
  /// The header of a message of `bytes` bytes.
  FrameHeader(Bytes bytes, const SendOptions& options) noexcept
      : length(bytes),
        user(options.user),
        correlation(options.correlation),
        deadline_ns(options.deadline_ns),
        type(options.type) {}
  [[nodiscard]] MessageInfo info(std::uint64_t sequence) const noexcept {
    return {.sequence = sequence,
            .user = user,
            .type = type,
            .correlation = correlation,
            .deadline_ns = deadline_ns};
  }

  [[nodiscard]] bool valid() const noexcept {
    return magic == kMagic && (kind == Kind::data || kind == Kind::end);
  }
};
static_assert(sizeof(FrameHeader) == 56);

/// Waits for any of several links, or for the interrupt.
class PollSet {
 public:
  /// `what`: the awaited thing, for errors. `interrupt`: -1 for none; poll(2) skips negatives.
  PollSet(std::string_view what, int interrupt) : what_(what), entries_{{interrupt, POLLIN, 0}} {}

  void add(int descriptor, short events) { entries_.push_back({descriptor, events, 0}); }
  void drop(std::size_t index) { entries_[index + 1].fd = -1; }

  /// True if the last wait() found the index-th descriptor ready (hang-up and error included).
  [[nodiscard]] bool ready(std::size_t index) const { return entries_[index + 1].revents != 0; }
  [[nodiscard]] bool failed(std::size_t index) const {
    return (entries_[index + 1].revents & (POLLERR | POLLNVAL)) != 0;
  }

  /// Errors: `interrupted`, `timed_out`, `system`.
  [[nodiscard]] Result<void> wait(Deadline deadline) {
    for (;;) {
      const int count = ::poll(entries_.data(), entries_.size(), poll_timeout_ms(deadline));
      if (count < 0 && errno != EINTR) return fail_errno("poll");
      if (count > 0 && entries_.front().revents != 0)
        return fail(Code::interrupted, what_ + ": interrupted");
      if (count > 0) return {};
      if (deadline.passed()) return fail(Code::timed_out, what_ + ": the time is up");
    }
  }

 private:
  std::string what_;
  std::vector<pollfd> entries_;  // the interrupt comes first
};

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
