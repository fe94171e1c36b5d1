#pragma once  // channel/consumer/consumer.hpp: the receiving end behind Consumer.

#include <atomic>
#include <optional>

#include "base/fork.hpp"
#include "base/wake.hpp"
#include "channel/consumer/held_slots.hpp"
#include "channel/consumer/received_slabs.hpp"
#include "channel/wire/connection.hpp"
#include "channel/wire/metrics_page.hpp"
#include "channel/wire/protocol.hpp"
#include "channel/wire/received_record.hpp"
#include "channel/wire/waiter.hpp"

namespace gantry {

/// Threads: the caller's (one at a time); give_back() and where() from any.
class GANTRY_LOCAL Consumer::Impl final : public detail::SlotOwner,
                                          public std::enable_shared_from_this<Consumer::Impl> {
 public:
  static Result<std::shared_ptr<Impl>> make(std::string_view name, const ConsumerOptions& options,
                                            Deadline deadline);

  /// The next message of any of `ends` and its index; see Consumer::receive_any().
  static Result<Any> receive_any(std::span<Impl* const> ends, Deadline deadline);
  /// Of this end alone: polls first, with nothing in between that need not be.
  [[nodiscard]] Result<Message> receive(Deadline deadline);
  [[nodiscard]] Result<Incoming> receive_early(Deadline deadline);
  [[nodiscard]] Result<Copied> receive_into(ByteSpan destination, Deadline deadline);
  [[nodiscard]] Result<int> event_descriptor();
  [[nodiscard]] Result<void> check_process() const;  ///< Not a fork's copy.
  void leave() noexcept;  ///< The producer sees the hang-up. Streams end here.
  [[nodiscard]] bool has_left() const noexcept { return left_; }
  [[nodiscard]] MetricsReport metrics() const { return metrics_.report(); }
  [[nodiscard]] ConsumerExplanation explain() const;
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  /// For an end that takes this one's place: it counts in a page of its own.
  [[nodiscard]] ConsumerOptions options_for_successor() const {
    ConsumerOptions options = options_;
    options.metrics_descriptor = -1;
    return options;
  }

  // ---- of one whose producer came to it: an inbox's. consumer_called.cpp

  /// `name`: the inbox's. Joins by ask_to_join(), then hear() until it says true, then settle():
  /// packet by packet, never waiting.
  static Result<std::shared_ptr<Impl>> make_called(std::string_view name,
                                                   const ConsumerOptions& options,
                                                   std::shared_ptr<SenderQuota> quota);
  Result<void> ask_to_join(int send_fd);
  Result<bool> hear(int send_fd, Received& received);
  /// `life`: see peer_pidfd(). After it the end is the receiving thread's.
  Result<void> settle(Connection connection, const PeerIdentity& producer, SharedFd life);
  [[nodiscard]] bool has_joined() const noexcept { return ring_.has_value(); }
  /// The next message if it is there, whole. Errors as receive(); never `timed_out`.
  [[nodiscard]] Result<std::optional<Message>> try_receive();
  /// try_receive() may have something to say.
  [[nodiscard]] bool has_something() const noexcept {
    return is_over() || gone_ || has_news(Wanted::whole);
  }
  /// From here on the producer rings event_descriptor() when it has something; has_something()
  /// must be asked once more.
  void fall_asleep() noexcept { arm(); }
  void wake_up() noexcept;  ///< The opposite; looks what happened to the producer.
  /// The socket that the producer sent, if one has come. Once.
  [[nodiscard]] ReceivedFd take_control_end();
  /// Any thread.
  [[nodiscard]] const MetricsPage& counters() const noexcept { return *counters_; }

  void give_back(std::uint64_t token) noexcept override;
  [[nodiscard]] std::optional<detail::RegionSlice> where(std::uint64_t token,
                                                         ConstByteSpan bytes) const override;
  [[nodiscard]] bool is_immutable(std::uint64_t token, ConstByteSpan bytes) const override;

  // ---- for Incoming::Impl, on the caller's thread

  /// How far message `number` has landed in `slot`. Nothing: this end was cut off, and the slot is
  /// another message's.
  [[nodiscard]] std::optional<std::uint64_t> landing_word(std::uint16_t slot,
                                                          std::uint64_t number) const noexcept {
    return page().landing[slot].read(number);
  }
  /// From here on nothing more is handed out.
  void note_cut_off();
  [[nodiscard]] const std::optional<Error>& why_broken() const noexcept { return broken_; }
  /// Polls, then sleeps, until `ready`. Errors: `timed_out`, `interrupted`, `peer_gone`.
  template <class Ready>
  [[nodiscard]] Result<void> wait_for_landing(Deadline deadline, Ready ready);
  void pass_chunks(std::uint16_t slot, std::uint64_t number, std::uint64_t chunks) noexcept;
  Error misbehaved(std::string_view what);
  /// Whoever sleeps on event_descriptor() is to look once more.
  void rouse() noexcept;
  /// Private memory for what is streamed. Error: `too_large`.
  [[nodiscard]] Result<SenderQuota::Charge> charge_gathered(Bytes bytes) {
    return quota_->take(Expense::gathered_bytes, bytes);
  }
  void note_copy(Bytes bytes, std::uint64_t ticks) noexcept {
    counters_->copy(CopyEngine::inline_, bytes, ticks);
  }

 private:
  Impl() = default;
  static Result<std::shared_ptr<Impl>> prepare(std::string_view name,
                                               const ConsumerOptions& options);
  Result<void> join(Connection connection, Deadline deadline);
  Result<void> accept_welcome(int send_fd, Received& received);
  Result<void> make_own_page();
  Result<void> check_pages() const;

  [[nodiscard]] const ProducerPage& page() const noexcept {
    return *reinterpret_cast<const ProducerPage*>(producer_memory_.data());
  }
  [[nodiscard]] const RingPage& ring_page() const noexcept {
    return *reinterpret_cast<const RingPage*>(ring_memory_.data());
  }
  [[nodiscard]] ConsumerPage& own() noexcept {
    return *reinterpret_cast<ConsumerPage*>(memory_.data());
  }
  /// There will be no more than there is. Relaxed: [F] of credit_gate.hpp.
  [[nodiscard]] bool is_ending() const noexcept {
    return ring_page().end.load(std::memory_order_relaxed) != 0;
  }
  [[nodiscard]] bool at_end() const noexcept;
  /// The producer may take back what this end has not claimed.
  [[nodiscard]] bool must_claim() const noexcept {
    return options_.when_slow == SlowConsumer::drop_oldest;
  }
  [[nodiscard]] bool is_there() const noexcept {
    return must_claim() ? ring_->can_claim(ring_page().revoked) : ring_->ready();
  }
  /// A message that is all there, or any that is visible.
  enum class Wanted { whole, early };
  [[nodiscard]] bool has_news(Wanted wanted) const noexcept;
  [[nodiscard]] bool is_over() const noexcept { return finished_ || broken_.has_value(); }
  [[nodiscard]] bool next_is_small() const noexcept;
  void watch_closely() const noexcept;

  static Result<std::size_t> wait_any(std::span<Impl* const> ends, Wanted wanted,
                                      Deadline deadline);
  static Result<std::optional<std::size_t>> look_once(std::span<Impl* const> ends, Wanted wanted);
  Result<bool> look(Wanted wanted);
  Result<void> await_pending(Deadline deadline);
  Result<Message> take_small(std::uint64_t asked, bool waited);
  Result<Message> copy_small();
  Result<void> take_next();
  Result<void> claim_next();
  Result<void> hold(const ReceivedRecord& received);
  void pass_over(const MessageRecord& record) noexcept;
  Result<Message> hand_out(std::uint64_t asked);
  Result<std::vector<Segment>> find_segments(const ReceivedRecord& received);
  Result<ConstByteSpan> find_bytes(std::uint32_t number, Bytes offset, Bytes bytes);
  /// `slept` false: it came within microseconds of `asked`.
  void note_received(const MessageInfo& info, Bytes bytes, std::uint64_t asked, bool waited,
                     bool slept = true) noexcept;
  void report_taken() noexcept;
  void examine_peer(std::span<const pollfd> events);
  template <class Ready>
  [[nodiscard]] Result<void> sleep_until_landed(Deadline deadline, Ready ready);
  void confirm_end() noexcept;
  [[nodiscard]] bool lives_on() const noexcept;  ///< The producer's process.
  Error ending_error();
  Error ruined(const Error& reason);
  void confirm_heard() noexcept;
  void ring_producer() noexcept;
  void arm() noexcept;
  void disarm() noexcept;
  void drain_wakes() noexcept;

  ForkGuard fork_guard_;
  std::string name_;
  ConsumerOptions options_;
  SpinTime spin_;
  Connection connection_;
  SharedFd pidfd_;  // of the producer; empty: only the connection tells of its death
  std::shared_ptr<const WakeSender> producer_wake_;  // rung when the producer sleeps and a credit
                                                     // goes back; shared by what was forwarded
  Fd watched_;  // an epoll of the first two and the wake-up socket; see event_descriptor()
  WakeReceiver
      wake_receiver_;  // rung by the producer when this end sleeps; gone when it cannot any more
  Region producer_memory_;
  Region ring_memory_;
  Region memory_;  // the consumer page
  Metrics metrics_;
  MetricsPage* counters_ = nullptr;  // that of metrics_
  pid_t producer_pid_ = 0;
  std::uint64_t calls_ = 0;
  std::uint64_t credits_ = 1;  // of the producer
  unsigned report_after_ = 1;  // small messages taken before their credits go back
  Bytes last_bytes_ = 0;       // of the newest message: the best guess at what the next call costs
  std::optional<RevocableReader<MessageRecord>> ring_;
  WakeFilter wake_filter_;
  std::shared_ptr<SenderQuota> quota_;  // of this producer
  ReceivedSlabs slabs_;
  PinnedSlabs found_;  // of the message that is being looked at; before slabs_ goes it goes
  HeldSlots held_;
  std::unique_ptr<Incoming::Impl> pending_;  // taken out of the ring, not yet in anybody's hand
  std::unique_ptr<Incoming::Impl> spare_;    // for the next small one: made before it is waited for
  bool is_called_ = false;                   // the name is not the producer's
  bool left_ = false;
  bool is_to_look_ = false;  // watched_ is readable until somebody looked
  bool armed_ = false;       // the intent to sleep stands although nobody sleeps: an epoll does
  bool gone_ = false;        // the producer died or hung up; what it published may still be there
  bool finished_ = false;    // the end was reached and told
  std::optional<Error> broken_;  // why nothing of the producer is believed, or can be, any more
};

}  // namespace gantry
