#pragma once  // channel/consumer/consumer.hpp: the receiving end behind Consumer.

#include "core/channel/consumer/join_handshake.hpp"
#include "core/channel/consumer/landing_reader.hpp"

namespace gantry {

/// What callers ask for, and what an inbox's acceptor does. A message's way: the ReceiveQueue takes
/// it out of the ring, ReceivedPayloads finds and holds it, the ConsumerWaiter waits for it or for
/// the rest of it, and hand_out() makes it the user's.
/// Threads: the caller's, one at a time; those of ReceivedPayloads.
class GANTRY_LOCAL Consumer::Impl final : public std::enable_shared_from_this<Consumer::Impl> {
 public:
  static Result<std::shared_ptr<Impl>> make(std::string_view name, const ConsumerOptions& options,
                                            Deadline deadline);

  /// The next message of any of `ends` and its index; see Consumer::receive_any().
  static Result<Any> receive_any(std::span<Impl* const> ends, Deadline deadline);
  /// Of this end alone: polls first, with nothing in between that need not be.
  /// `in_place`: a message beside its record is not copied; see ReceiveQueue::look_at_beside().
  [[nodiscard]] Result<Message> receive(Deadline deadline, bool in_place = false);
  [[nodiscard]] Result<std::size_t> receive_batch(std::span<Message> into, Deadline deadline);
  [[nodiscard]] Result<Incoming> receive_early(Deadline deadline);
  /// `plan`: null if nothing is converted.
  [[nodiscard]] Result<Copied> receive_into(ByteSpan destination, const ReshapePlan* plan,
                                            Deadline deadline);
  [[nodiscard]] Result<int> event_descriptor();
  [[nodiscard]] Result<void> check_process() const { return core_.check_process(); }
  /// Also fails within a look, with `busy`.
  [[nodiscard]] Result<void> check_may_take() const;

  /// The handle is gone: the end goes after the look, if there is one.
  static void drop(std::shared_ptr<Impl> impl) noexcept {
    Impl& self = *impl;
    if (self.is_looked_at_) self.kept_by_look_ = std::move(impl);
  }
  /// The producer sees the hang-up, and hears `why` if it is a want of this process. Streams end
  /// here.
  void leave(Code why = Code::peer_gone) noexcept;
  [[nodiscard]] MetricsReport metrics() const { return core_.metrics.report(); }
  [[nodiscard]] ConsumerExplanation explain() const;
  /// `timed_out`, and whether that is this end's own fault.
  [[nodiscard]] tl::unexpected<Error> nothing_came() const;
  [[nodiscard]] const std::string& name() const noexcept { return core_.name; }
  /// For an end that takes this one's place: it counts in a page of its own.
  [[nodiscard]] ConsumerOptions options_for_successor() const {
    ConsumerOptions options = core_.options;
    options.metrics_descriptor = -1;
    return options;
  }

  // ---- of one whose producer came to it: an inbox's

  /// `name`: the inbox's. Joins by handshake(), then settle().
  static Result<std::shared_ptr<Impl>> make_called(std::string_view name,
                                                   const ConsumerOptions& options,
                                                   std::shared_ptr<SenderQuota> quota,
                                                   IsProtocol is_protocol);
  [[nodiscard]] JoinHandshake& handshake() noexcept { return handshake_; }
  /// `life`: see peer_pidfd(). After it the end is the receiving thread's.
  Result<void> settle(Connection connection, const PeerIdentity& producer, SharedFd life);
  [[nodiscard]] bool has_joined() const noexcept { return queue_.has_started(); }
  /// The next message if it is there, whole. Errors as receive(); never `timed_out`.
  [[nodiscard]] Result<std::optional<Message>> try_receive();
  /// try_receive() may have something to say.
  [[nodiscard]] bool has_something() const noexcept {
    return queue_.is_over() || core_.producer_gone || queue_.has_news(Wanted::whole);
  }
  /// Changes when the producer has spoken of slabs, or a chunk of what is not whole has landed.
  [[nodiscard]] std::uint64_t work_seen() const noexcept;
  /// From here on the producer rings event_descriptor() when it has something; has_something()
  /// must be asked once more.
  void fall_asleep(Hears hears = Hears::all) noexcept { waiter_.arm(hears); }
  /// Asleep, for that from here on; has_something() must be asked once more.
  void sleep_for(Hears hears) noexcept { waiter_.arm_again(hears); }
  void wake_up();  ///< The opposite; looks what happened to the producer.
  /// The socket that the producer sent, if one has come. Once. Errors: it could not be taken in.
  [[nodiscard]] Result<ReceivedFd> take_control_end() { return payloads_.take_control_end(); }
  /// Any thread.
  [[nodiscard]] const MetricsPage& counters() const noexcept { return *core_.counters; }
  /// As the producer says itself, once it has joined. Any thread.
  [[nodiscard]] EndName producer_name() const { return decode_name(core_.page().who); }
  /// The producer's credits, what uses them, and whether it waits for one. Any thread.
  void tell_credits(SenderStatus& sender) const noexcept;

 private:
  friend class Consumer::Look;
  using Wanted = ReceiveQueue::Wanted;

  Impl() = default;
  static Result<std::shared_ptr<Impl>> prepare(std::string_view name,
                                               const ConsumerOptions& options);
  Result<void> join(Connection connection, Deadline deadline);

  static Result<std::size_t> wait_any(std::span<Impl* const> ends, Wanted wanted,
                                      Deadline deadline);
  static Impl& waiting_end(std::span<Impl* const> ends) noexcept;
  static Result<std::optional<std::size_t>> look_once(std::span<Impl* const> ends, Wanted wanted);
  [[nodiscard]] Result<bool> look_now(Wanted wanted);
  Result<void> await_pending(Deadline deadline);
  Result<Message> take_whole(std::uint64_t asked, bool waited, bool in_place = false);
  [[nodiscard]] std::size_t take_what_is_there(std::span<Message> into) noexcept;
  [[nodiscard]] bool take_if_there(Message& into, std::uint64_t asked) noexcept;
  Result<Message> take_small(std::uint64_t asked, bool waited);
  Result<Message> hand_out(std::uint64_t asked);
  /// `slept` false: it came within microseconds of `asked`.
  void note_received(const MessageInfo& info, Bytes bytes, std::uint64_t asked, bool waited,
                     bool slept = true) noexcept;

  ConsumerCore core_;
  ReceivedPayloads payloads_{core_};
  ReceiveQueue queue_{core_};
  ConsumerWaiter waiter_{core_, payloads_, queue_};
  JoinHandshake handshake_{core_, payloads_, waiter_};
  SpinTime spin_;
  std::uint64_t calls_ = 0;
  // While the user looks at a message nothing else is taken, and the end stays.
  bool is_looked_at_ = false;
  std::shared_ptr<Impl> kept_by_look_;  // this
  Bytes last_bytes_ = 0;  // of the newest message: the best guess at what the next call costs
};

}  // namespace gantry
