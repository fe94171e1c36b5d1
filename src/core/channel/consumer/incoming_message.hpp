#pragma once  // channel/consumer/incoming_message.hpp: a message that was taken out of the ring.

#include <algorithm>
#include <cstring>
#include <new>

#include "core/base/assert.hpp"
#include "core/channel/consumer/landing_conversion.hpp"
#include "core/channel/consumer/received_payloads.hpp"

namespace gantry {

/// A streamed message in private memory: it fills front to back, and then belongs to its Message.
class GANTRY_LOCAL GatheredPayload final : public detail::SlotOwner {
 public:
  /// The memory is not touched before it is filled: a claim alone costs none.
  GatheredPayload(Bytes size, SenderQuota::Charge charge)
      : charge_(std::move(charge)), bytes_(new(std::nothrow) std::byte[size]), size_(size) {}

  [[nodiscard]] bool has_memory() const noexcept { return bytes_ != nullptr; }
  [[nodiscard]] ConstByteSpan front() const noexcept { return {bytes_.get(), filled_}; }
  void add(ConstByteSpan chunk) noexcept {
    GANTRY_ASSERT(chunk.size() <= size_ - filled_);
    std::memcpy(bytes_.get() + filled_, chunk.data(), chunk.size());
    filled_ += chunk.size();
  }
  void give_back(std::uint64_t) noexcept override {}
  [[nodiscard]] bool is_immutable(std::uint64_t, ConstByteSpan) const override { return true; }

 private:
  SenderQuota::Charge charge_;
  std::unique_ptr<std::byte[]> bytes_;  // NOLINT: size_ of them, of which filled_ are there
  Bytes size_;
  Bytes filled_ = 0;
};

/// A message that may still be landing: how far it is, and its bytes so far. Never waits; see
/// LandingReader. It keeps the end that it came to. The receiving thread.
class GANTRY_LOCAL IncomingMessage {
 public:
  /// `segments`: where they are mapped; of a streamed message one, the window.
  IncomingMessage(std::shared_ptr<ReceivedPayloads> payloads, const ReceivedRecord& received,
                  std::vector<Segment> segments);
  /// To be filled with a small one, which is all there.
  IncomingMessage();
  void fill(Message small) noexcept;
  ~IncomingMessage() { release(); }
  IncomingMessage(const IncomingMessage&) = delete;
  IncomingMessage& operator=(const IncomingMessage&) = delete;

  /// It was copied out of the ring, is all there, and keeps no end.
  [[nodiscard]] bool is_small() const noexcept { return message_.has_value(); }
  [[nodiscard]] const MessageInfo& info() const noexcept { return info_; }
  [[nodiscard]] Bytes size() const noexcept { return total_; }
  [[nodiscard]] bool is_streamed() const noexcept { return received_.is_streamed(); }
  [[nodiscard]] Bytes landed() noexcept;
  [[nodiscard]] bool is_aborted() noexcept { return landed() < total_ && aborted_; }
  /// So much has landed, or will not any more.
  [[nodiscard]] bool is_settled(Bytes bytes) noexcept { return landed() >= bytes || aborted_; }
  /// Needs is_settled(). Errors: `aborted`, or what broke the stream.
  [[nodiscard]] Result<void> check_landed(Bytes bytes) const;
  /// try_front() would come further, or learn that it cannot.
  [[nodiscard]] bool has_more() noexcept {
    return landed() == total_ || aborted_ ||
           (is_streamed() && landed() > std::max(gathered_bytes(), taken_));
  }

  /// Errors: a fork's copy, or a message that was handed over as a whole.
  [[nodiscard]] Result<void> check_is_here() const;
  /// The producer waits for nobody who left: what was not there by then does not come, and a
  /// stream's window is filled anew. Error: `closed`.
  [[nodiscard]] Result<void> check_end_is_open() const;
  [[nodiscard]] std::string name() const;  ///< For errors.

  // ---- chunk by chunk

  [[nodiscard]] Bytes taken() const noexcept { return taken_; }
  /// What take() gave is not needed any more: a streamed message's window is filled anew.
  void pass_taken() noexcept {
    if (!gathered_) pass(taken_);
  }
  /// Needs one byte more than taken() to have landed. What lies in one piece from there on.
  [[nodiscard]] Result<ConstByteSpan> take();
  /// The first bytes of a message that lies in one piece or was gathered. Needs them to be there.
  [[nodiscard]] Result<void> check_prefix(Bytes bytes) const;
  [[nodiscard]] ConstByteSpan prefix() const noexcept {
    return gathered_ ? gathered_->front() : segments_.front().bytes.first(landed_);
  }
  /// take() begins with the first byte again. Error: `invalid_argument` when that has passed.
  [[nodiscard]] Result<void> start_over();
  /// Of a copy or a conversion that is half-way nothing is left: take() goes on where it began.
  /// Error: `invalid_argument` when that has passed; then it can still go on.
  [[nodiscard]] Result<void> leave_half_way();

  /// A copy of all from taken() on, into one buffer, whatever calls it takes. begin_copy() says
  /// with which byte it began, or begins again if the buffer is another.
  [[nodiscard]] Result<Bytes> begin_copy(ByteSpan destination);
  void copy_chunk(ConstByteSpan chunk, std::byte* to) noexcept;

  /// All of it into one buffer by a plan, whatever calls it takes. It goes on by the same plan into
  /// the same buffer, of the same size, and else begins again. Errors: `invalid_argument` when the
  /// message or the buffer is too small, or some of a streamed message was taken otherwise.
  [[nodiscard]] Result<void> begin_conversion(ByteSpan destination, const ReshapePlan& plan);
  void convert_chunk(ConstByteSpan chunk) { conversion_->take(chunk); }
  /// What begin_copy() or begin_conversion() began is over.
  void end_into() noexcept;
  /// Of a plan that permutes: the message in one piece, which it takes to be whole. Needs
  /// try_front(size()) to have said yes, or a message that is not streamed to have landed.
  [[nodiscard]] Result<void> convert_whole(ByteSpan destination, const ReshapePlan& plan) const;
  [[nodiscard]] std::optional<Tensor> tensor() const noexcept {
    return segments_.empty() ? std::nullopt : segments_.front().tensor;
  }

  // ---- as a whole, or its front

  /// Whether the first `bytes` are there at once. What has landed of a streamed message goes into
  /// private memory for that. Error: `invalid_argument` when some of it has passed. True of size():
  /// become_message() may be called.
  [[nodiscard]] Result<bool> try_front(Bytes bytes);
  /// How much must have landed for try_front() to come further.
  [[nodiscard]] Bytes next_for_front(Bytes bytes) const noexcept {
    return is_streamed() ? gathered_bytes() + 1 : bytes;
  }
  [[nodiscard]] Message become_message();

 private:
  /// Of a streamed message, by one call, whatever its window.
  static constexpr Bytes kGatheredAtOnce = Bytes{8} << 20;

  [[nodiscard]] ConsumerCore& core() const noexcept { return payloads_->core(); }
  [[nodiscard]] ConstByteSpan window_at(Bytes offset) const noexcept;
  [[nodiscard]] Result<void> seek(Bytes offset);
  [[nodiscard]] Result<void> gather();
  [[nodiscard]] Bytes gathered_bytes() const noexcept {
    return gathered_ ? gathered_->front().size() : 0;
  }
  void pass(Bytes bytes) noexcept;
  void release() noexcept;

  std::shared_ptr<ReceivedPayloads> payloads_;  // null: a small message, or handed over
  ReceivedRecord received_;
  MessageInfo info_;
  std::vector<Segment> segments_;
  Bytes total_ = 0;
  Bytes landed_ = 0;
  Bytes passed_ = 0;  // streamed: of the window, so many were given back
  bool aborted_ = false;
  Bytes taken_ = 0;          // handed out by take()
  std::size_t segment_ = 0;  // of taken_, and where in it
  Bytes in_segment_ = 0;
  // What is half-way in a buffer began behind this byte, which take() had come to: a copy, or a
  // conversion of all of it.
  std::optional<Bytes> half_way_from_;
  const std::byte* copied_to_ = nullptr;  // the copy's; a conversion knows its own
  std::optional<LandingConversion> conversion_;
  std::optional<Message> message_;             // a small one: instead of all this
  std::shared_ptr<GatheredPayload> gathered_;  // of a streamed one that is asked for as a whole
  bool is_over_ = false;                       // it became a message
};

class ConsumerWaiter;

/// What a user has in hand before it is all there. One piece of memory, as small messages take no
/// longer than it takes to get one.
class GANTRY_LOCAL Incoming::Impl {
 public:
  IncomingMessage message;
  std::shared_ptr<ConsumerWaiter> waiter = nullptr;  // once it is in the user's hands; small: null
};

}  // namespace gantry
