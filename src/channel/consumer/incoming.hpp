#pragma once  // channel/consumer/incoming.hpp: a message on its way in, behind Incoming.

#include <algorithm>

#include "channel/consumer/consumer.hpp"

namespace gantry {

/// A large message that was taken out of the ring and may be landing. Lives with its consumer's
/// Impl, which it keeps; on the consumer's thread.
class GANTRY_LOCAL Incoming::Impl {
 public:
  /// `segments`: where they are mapped; of a streamed message one, the window.
  Impl(std::shared_ptr<Consumer::Impl> consumer, const ReceivedRecord& received,
       std::vector<Segment> segments);
  /// To be filled with one that is all there.
  Impl();
  void fill(Message small) noexcept;
  ~Impl() { release(); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  [[nodiscard]] const MessageInfo& info() const noexcept { return info_; }
  [[nodiscard]] Bytes size() const noexcept { return total_; }
  [[nodiscard]] bool is_streamed() const noexcept { return received_.is_streamed(); }
  [[nodiscard]] Bytes landed() noexcept;
  [[nodiscard]] bool is_aborted() noexcept { return landed() < total_ && aborted_; }
  [[nodiscard]] bool is_whole() noexcept { return landed() == total_; }
  /// try_whole() would come further, or learn that it cannot.
  [[nodiscard]] bool has_more() noexcept {
    return landed() == total_ || aborted_ ||
           (is_streamed() && landed() > std::max(gathered_bytes_, taken_));
  }

  Result<ConstByteSpan> next(Deadline deadline);
  Result<ConstByteSpan> wait_for(Bytes bytes, Deadline deadline);
  Result<Bytes> into(ByteSpan destination, Deadline deadline);
  Result<Message> whole(Deadline deadline);
  /// next() begins with the first byte again. Error: `invalid_argument` when that has passed.
  [[nodiscard]] Result<void> start_over();
  /// Whether become_message() may be called. What has landed of a streamed one goes into private
  /// memory for that. Never waits.
  [[nodiscard]] Result<bool> try_whole();
  [[nodiscard]] Message become_message();

 private:
  /// Of a streamed message, by one call, whatever its window.
  static constexpr Bytes kGatheredAtOnce = Bytes{8} << 20;

  [[nodiscard]] std::string name() const;
  [[nodiscard]] Error not_in_time() const;
  [[nodiscard]] Result<void> check_is_here() const;
  [[nodiscard]] Result<void> check_consumer() const;
  [[nodiscard]] Result<void> await(Bytes bytes, Deadline deadline);
  [[nodiscard]] ConstByteSpan window_at(Bytes offset) const noexcept;
  [[nodiscard]] ConstByteSpan contiguous() noexcept;
  [[nodiscard]] Result<void> seek(Bytes offset);
  [[nodiscard]] Result<void> gather();
  void pass(Bytes bytes) noexcept;
  void release() noexcept;

  std::shared_ptr<Consumer::Impl> consumer_;
  ReceivedRecord received_;
  MessageInfo info_;
  std::vector<Segment> segments_;
  Bytes total_ = 0;
  Bytes landed_ = 0;
  Bytes passed_ = 0;  // streamed: of the window, so many were given back
  bool aborted_ = false;
  Bytes taken_ = 0;          // handed out by next()
  std::size_t segment_ = 0;  // of taken_, and where in it
  Bytes in_segment_ = 0;
  std::optional<Bytes> into_from_;         // into() began at this byte,
  const std::byte* into_to_ = nullptr;     // and copies it to there
  std::optional<Message> message_;         // instead of all this
  std::unique_ptr<std::byte[]> gathered_;  // NOLINT: total_ bytes of a streamed message; if it is
  Bytes gathered_bytes_ = 0;               // there, so many chunks' bytes went into it, and from
                                           // there to whoever asks
  bool is_over_ = false;                   // it became a message
  SenderQuota::Charge gathered_charge_;    // for them
};

/// Token of a held message: its slot above its number.
inline constexpr unsigned kNumberBits = 56;
[[nodiscard]] constexpr std::uint64_t token_of(std::uint16_t slot, std::uint64_t number) noexcept {
  return (std::uint64_t{slot} << kNumberBits) | (number & ((std::uint64_t{1} << kNumberBits) - 1));
}

// Who sleeps elsewhere, on event_descriptor(), or is told to, is woken there by more of this
// message and by the ones behind it: their rings may have been taken in here.
template <class Ready>
Result<void> Consumer::Impl::wait_for_landing(Deadline deadline, Ready ready) {
  const bool was_armed = armed_;
  auto landed = sleep_until_landed(deadline, ready);
  const bool timed_out = !landed && landed.error().code == Code::timed_out;
  if (!was_armed && !timed_out) return landed;
  arm();
  if (has_news(Wanted::whole)) rouse();
  if (timed_out && ready()) return {};
  return landed;
}

template <class Ready>
Result<void> Consumer::Impl::sleep_until_landed(Deadline deadline, Ready ready) {
  WaitFlag* const intents[] = {&own().consumer_sleeps};
  LateLooks looks;
  for (auto spin = options_.spin;; spin = std::chrono::nanoseconds(0)) {
    if (ready()) return {};
    if (broken_) return tl::unexpected(*broken_);
    if (gone_) return tl::unexpected(ending_error());
    disarm();
    WaitPoint point{intents,
                    {{wake_receiver_.descriptor(), POLLIN, 0},
                     {connection_.receive_fd(), POLLIN, 0},
                     {pidfd_.get(), POLLIN, 0}},
                    options_.interrupt_descriptor};
    const Woken woken = wait_once(point, spin, deadline, ready);
    if (woken == Woken::interrupted)
      return fail(Code::interrupted, fmt::format("channel '{}': interrupted", name_));
    if (woken == Woken::timed_out || looks.are_spent(deadline))
      return fail(Code::timed_out,
                  fmt::format("channel '{}': the message did not land in time", name_));
    if (woken == Woken::look) examine_peer(point.descriptors);
  }
}

}  // namespace gantry
