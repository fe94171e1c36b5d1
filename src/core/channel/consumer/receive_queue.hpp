#pragma once  // channel/consumer/receive_queue.hpp: messages on their way from the ring to the
              // user.

#include "core/channel/consumer/copied_payloads.hpp"
#include "core/channel/consumer/incoming_message.hpp"
#include "core/channel/consumer/looked_place.hpp"
#include "core/sync/spsc/revocable_ring.hpp"

namespace gantry {

/// The ring, the message that was taken out of it and is in nobody's hand yet, and the stream's
/// end. Never waits for a message; whoever dies is given a moment to be dead. The receiving thread.
class GANTRY_LOCAL ReceiveQueue {
 public:
  /// A message that is all there; any that is visible; or one that is all there, while one that is
  /// still on its way stays in the ring, from which whoever comes next gets it if this end leaves;
  /// or one that is all there, while one in or beside its record stays in the ring.
  enum class Wanted { whole, early, there, in_place };

  explicit ReceiveQueue(ConsumerCore& core) noexcept : core_(core) {}

  /// The pages are mapped and checked. Messages keep `payloads`. Error: `peer_misbehaved`.
  Result<void> start(std::weak_ptr<ReceivedPayloads> payloads);
  [[nodiscard]] bool has_started() const noexcept { return ring_.has_value(); }

  // ---- small messages: copied straight out of the ring

  /// The next message is one, and nothing stands before it. It is checked once more when copied.
  [[nodiscard]] bool next_is_small() const noexcept {
    return !must_claim_ && !pending_ && ring_->ready() && !core_.broken &&
           (ring_->next().header.kind & kLocationMask) == 0;
  }
  /// Needs next_is_small(). Error: `peer_misbehaved`.
  Result<Message> copy_small();
  /// The same, built in the place of `into`, which is empty: to move a message takes as long as to
  /// copy it out.
  [[nodiscard]] Result<void> copy_small_to(Message& into);
  [[nodiscard]] bool next_is_beside() const noexcept { return next_is(PayloadLocation::beside); }
  /// Needs next_is_beside(). Copies it into private memory. Error: `peer_misbehaved`.
  Result<Message> copy_beside();
  [[nodiscard]] Result<void> copy_beside_to(Message& into);  ///< As copy_small_to().
  /// Needs next_is_beside(). Takes it; its bytes lie in its place until the message is dropped,
  /// which must be before the next one is taken. Error: `peer_misbehaved`.
  [[nodiscard]] Result<Message> look_at_beside();
  /// Polls the next cell for some microseconds, unless a message is pending.
  void watch_closely() const noexcept;

  // ---- any message

  [[nodiscard]] bool has_news(Wanted wanted) const noexcept;
  /// Whether pending() is what is wanted now. Errors: what ended the stream; `closed` among them.
  Result<bool> look(Wanted wanted);
  /// True if a message is there that is whole and in one block, as most are.
  [[nodiscard]] bool next_is_block() const noexcept { return next_is(PayloadLocation::block); }
  /// Needs next_is_block(). Takes it without the memory that a message on its way needs.
  Result<Message> take_block();
  /// Memory for the next small message is made before it is waited for.
  void prepare() {
    if (!spare_) spare_ = std::make_unique<Incoming::Impl>();
  }
  /// Null: none was taken out of the ring.
  [[nodiscard]] IncomingMessage* pending() const noexcept {
    return pending_ ? &pending_->message : nullptr;
  }
  [[nodiscard]] std::unique_ptr<Incoming::Impl> take_pending() noexcept {
    return std::move(pending_);
  }
  /// Before the end is let go of: a pending message keeps it.
  void drop_pending() noexcept { pending_.reset(); }

  /// Credits of small messages go back some at a time, or when this end would wait anyway: the
  /// store, and the look at the producer's wait flag, would otherwise stand between a message and
  /// its user.
  void report_taken() noexcept;

  /// The end was told, or the stream is broken: nothing more comes.
  [[nodiscard]] bool is_over() const noexcept { return finished_ || core_.broken.has_value(); }
  [[nodiscard]] bool is_finished() const noexcept { return finished_; }
  /// Why nothing more comes. What was published before the producer went has been taken.
  Error ending_error();

  [[nodiscard]] std::uint64_t credits() const noexcept { return credits_; }  ///< The producer's.
  /// Messages of copied payloads that are still in somebody's hands.
  [[nodiscard]] std::size_t copies_held() const noexcept { return copies_ ? copies_->held() : 0; }
  [[nodiscard]] std::uint64_t missed() const noexcept { return ring_->missed(); }
  [[nodiscard]] std::uint64_t unread() const noexcept {
    return must_claim_ ? ring_->count_claimable(ring_page_->revoked) : ring_->count_ready();
  }
  /// unread() as far as the producer was told. Any thread.
  [[nodiscard]] std::uint64_t unread_as_told() const noexcept {
    return ring_->count_unread(own_page_->taken, ring_page_->revoked);
  }

 private:
  [[nodiscard]] bool is_there() const noexcept {
    return must_claim_ ? ring_->can_claim(ring_page_->revoked) : ring_->ready();
  }
  [[nodiscard]] bool next_is(PayloadLocation where) const noexcept {
    return !pending_ && !must_claim_ && !core_.broken && ring_->ready() &&
           (ring_->next().header.kind & ~kExtra) == static_cast<std::uint8_t>(where);
  }
  /// Of the next message in the ring.
  [[nodiscard]] bool is_on_its_way() const noexcept {
    return !must_claim_ && (ring_->next().header.kind & kLanding) != 0;
  }
  [[nodiscard]] bool at_end() const noexcept;
  /// There will be no more than there is. Relaxed: [F] of credit_gate.hpp.
  [[nodiscard]] bool is_ending() const noexcept {
    return ring_page_->end.load(std::memory_order_relaxed) != 0;
  }
  // `Make` makes a message of its constructor's arguments; see their definitions.
  template <class Make>
  [[nodiscard]] auto make_small(Make make) -> typename Make::Made;
  template <class Make>
  [[nodiscard]] auto make_of_beside(const MessageRecord& record, Make make, bool in_place = false)
      -> typename Make::Made;
  void note_copied_out(Bytes bytes) noexcept;
  void note_taken() noexcept;
  Result<void> take_next();
  Result<void> claim_next();
  Result<void> hold(const ReceivedRecord& received);
  void pass_over(const MessageRecord& record) noexcept;

  ConsumerCore& core_;
  std::weak_ptr<ReceivedPayloads> payloads_;
  std::optional<RevocableReader<MessageRecord>> ring_;
  ConsumerPage* own_page_ = nullptr;
  const RingPage* ring_page_ = nullptr;
  bool must_claim_ = false;    // the producer may take back what this end has not claimed
  bool finished_ = false;      // the end was reached and told
  unsigned report_after_ = 1;  // small messages taken before their credits go back
  std::uint64_t credits_ = 1;
  std::unique_ptr<Incoming::Impl> pending_;
  std::unique_ptr<Incoming::Impl> spare_;
  std::shared_ptr<CopiedPayloads> copies_;  // made with the first
  LookedPlace looked_{core_};
};

}  // namespace gantry
