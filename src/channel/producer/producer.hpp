#pragma once  // channel/producer/producer.hpp: the sending end behind Producer.

#include "base/fork.hpp"
#include "channel/producer/consumer_listener.hpp"
#include "channel/producer/send_operation.hpp"
#include "channel/producer/send_queue.hpp"
#include "trace/is_on_in_short.hpp"

namespace gantry {

/// The sending end behind Producer: callers' requests and the acceptor's news. SendOperation sends
/// a message: it takes credit and slot from the CreditGate, memory from the PayloadAllocator, and
/// hands the message to the ConsumerSet. Threads: the caller's (one at a time), the progress thread
/// of send_async(), the acceptor's. They share `core_.consumers`, under its lock. Of the first two
/// only one sends at a time: the caller waits until the queue is idle, or queues up itself.
class GANTRY_LOCAL Producer::Impl final : public detail::SlotOwner,
                                          public detail::EarlySender,
                                          public ConsumerHost,
                                          public std::enable_shared_from_this<Producer::Impl> {
 public:
  /// How it meets consumers: they come to its name; it calls the inbox of that name; or it is given
  /// a control connection to one, and the name is only used in errors.
  enum class Reach { listens, calls, answers };
  static Result<std::shared_ptr<Impl>> make(std::string_view name, const ProducerOptions& options,
                                            std::shared_ptr<Engine> engine,
                                            Reach reach = Reach::listens);
  ~Impl() override;

  Result<void> send(ConstByteSpan payload, const SendOptions& options);
  Result<std::size_t> send_batch(std::span<const ConstByteSpan> payloads,
                                 const SendOptions& options);
  Result<void> send(std::vector<Draft::Part> parts, const SendOptions& options);
  /// Sends an empty message of the protocol of calls; the counters leave it out.
  Result<void> send_uncounted(const SendOptions& options);
  Result<Ticket> send_async(SendJob&& job);
  [[nodiscard]] Outcome outcome(Ticket ticket) const noexcept;
  Result<void> wait(Ticket ticket, Deadline deadline);
  Result<int> sent_descriptor();
  void note_woken() noexcept;
  Result<Loan> loan(Bytes size, Deadline deadline);
  Result<void> publish(Loan loan, const SendOptions& options);
  /// Stops slots from keeping blocks, which the pool's other user must not be refused.
  [[nodiscard]] const Pool& shared_pool() {
    if (!fork_guard_.is_this()) return core_.pool;  // the pool itself refuses a fork's copy
    const Lock held = core_.lock();
    core_.consumers->slots().keep_no_more();
    return core_.pool;
  }
  [[nodiscard]] Result<void> publish_converted(Loan loan, const SendOptions& options);
  Result<EarlyMessage> send_early(std::vector<Draft::Part> parts, const SendOptions& options);
  void land(std::uint64_t token, Bytes bytes, bool is_last) noexcept override;
  void give_up(std::uint64_t token, Bytes landed) noexcept override;
  Result<void> wait_for_consumer(Deadline deadline, unsigned count);
  Result<void> close(Deadline deadline);

  [[nodiscard]] Result<void> check_process() const;  ///< Fails in a fork's copy.

  // ---- a producer that calls an inbox: producer_call.cpp

  /// Looks for the inbox until `deadline` and calls it, unless it is connected or being called.
  Result<void> call(Deadline deadline);
  /// Calls it, and again if it goes away, until it has let us in.
  Result<void> wait_for_inbox(Deadline deadline);
  /// Calls over `control`, to the process `whom`. Does not wait. Errors: `peer_misbehaved` when
  /// `control` is somebody else's, or no control connection. After an error it may still be open.
  Result<void> call_over(ReceivedFd& control, const PeerIdentity& whom);
  /// Sends the inbox a socket, over which it can call back.
  Result<void> send_control(int control);
  /// The listener at the name, as of the last call.
  [[nodiscard]] PeerIdentity called() const noexcept { return called_; }
  /// A pidfd of that process, if the kernel has one; see peer_pidfd().
  [[nodiscard]] Fd take_called_life() noexcept { return std::move(called_life_); }
  /// True if there was a consumer, and there is none now.
  [[nodiscard]] bool is_alone() const;
  /// See ConsumerSet::hear_trouble().
  [[nodiscard]] std::optional<Error> consumers_trouble() const;

  /// True if a consumer may still read a message that was forwarded.
  [[nodiscard]] bool holds_forwards() {
    const ProducerCore::Lock held = core_.lock();
    return core_.consumers->holds_forwards();
  }

  void shut_down() noexcept;  ///< No more callers; the consumers see the hang-up.
  [[nodiscard]] MetricsReport metrics() const { return core_.metrics.report(); }

  /// The shortest way of a message, for the caller to try before any other. False: it did nothing.
  [[nodiscard]] bool try_send_small(ConstByteSpan payload, const SendOptions& options) noexcept;

  /// The same with a ticket, which is done.
  [[nodiscard]] std::optional<Ticket> try_send_small_async(ConstByteSpan payload,
                                                           const SendOptions& options) noexcept {
    if (!queue_ || !queue_->is_prepared() || !try_send_small(payload, options)) return std::nullopt;
    return queue_->give_done();
  }

  void give_back(std::uint64_t token) noexcept override;

  Result<Region> make_ring() const override {
    return ConsumerState::make_page(core_.options.slots);
  }
  int page_descriptor() const override { return core_.memory.descriptor(); }
  bool has_place() const override;
  bool holds_too_much(const PeerIdentity& peer) const override;
  bool allows(SlowConsumer policy) const override;
  Result<unsigned> admit(std::unique_ptr<ConsumerResources> consumer, Region ring) override;
  void consumer_left(unsigned consumer) override;
  void departed_died() override;
  void call_failed(const Error& why) override;
  void watch_wakes(const WakeWatcher& watch) override;
  void credits_came() override;
  std::vector<std::byte> status() const override;
  [[nodiscard]] ChannelExplanation explain(Bytes payload) const;

 private:
  using Lock = ProducerCore::Lock;

  explicit Impl(Pool pool) noexcept : core_(std::move(pool)) {}
  Result<void> set_up(std::string_view name, const ProducerOptions& options, Reach reach);
  void begin_call(Connection connection);
  [[nodiscard]] WaitReason not_taken() const;
  void consumers_changed() noexcept;

  [[nodiscard]] ChannelStatus describe() const;
  [[nodiscard]] PathStatus path_of(const LastCopy& copy) const;

  /// Replies are for any thread: who waits may wait for another one's loan.
  [[nodiscard]] CreditGate::Lent lent_here() const noexcept {
    return reach_ == Reach::answers ? CreditGate::Lent::by_others : CreditGate::Lent::by_caller;
  }
  [[nodiscard]] Result<void> check_open() const;
  [[nodiscard]] Result<void> check_sends() const;  ///< The same; nothing lands that was sent early.
  [[nodiscard]] Result<void> check_address(ConstByteSpan payload) const;
  [[nodiscard]] Result<void> stay_in_order(Deadline deadline);
  [[nodiscard]] bool is_queue_idle() const noexcept { return !queue_ || queue_->is_idle(); }

  [[nodiscard]] Result<void> send_small(ConstByteSpan payload, const SendOptions& options);
  [[nodiscard]] static bool is_plain(const SendOptions& options) noexcept {
    return (options.correlation | options.deadline_ns) == 0 && options.as == nullptr;
  }
  /// True if what is sent so may become something else.
  [[nodiscard]] bool converts(const SendOptions& options) const noexcept {
    return converts_ || options.as != nullptr;
  }
  [[nodiscard]] Result<void> settle(std::span<Draft::Part> parts, const SendOptions& options) const;
  [[nodiscard]] bool may_go_the_short_way(const SendOptions& options) const noexcept;
  /// `later`: so many messages were published after it.
  void note_small_sent(Bytes bytes, std::uint64_t later = 0) noexcept {
    GANTRY_PROBE(send, core_.name.c_str(), core_.consumers->published() - later, bytes);
    core_.counters->message(bytes);
    core_.counters->copy(CopyEngine::inline_, bytes, 0);
    if (trace::is_on_in_short()) [[unlikely]]
      core_.trace.sent_small(core_.consumers->published() - later, bytes);
  }
  [[nodiscard]] bool is_for_beside(Bytes bytes, const SendOptions& options) const noexcept;
  [[nodiscard]] Result<void> sent_by_two() const;
  /// `told`: of a tensor; else nothing.
  [[nodiscard]] std::optional<Result<void>> try_send_beside(ConstByteSpan payload,
                                                            const SendOptions& options, Lane& lane,
                                                            const BesidePayload* told = nullptr,
                                                            const ReshapePlan* plan = nullptr);
  /// The same of parts, if they are one that is copied.
  [[nodiscard]] std::optional<Result<void>> try_send_beside(std::span<const Draft::Part> parts,
                                                            const SendOptions& options);
  [[nodiscard]] std::size_t send_small_ones(std::span<const ConstByteSpan> payloads,
                                            const SendOptions& options) noexcept;
  [[nodiscard]] Result<void> slow_send_small(ConstByteSpan payload, const SendOptions& options);
  Result<void> send_queued(SendJob& job);
  [[nodiscard]] bool is_quick(const SendJob& job) const noexcept;
  [[nodiscard]] bool has_credit(bool needs_slot, Bytes bytes);
  [[nodiscard]] std::optional<Result<void>> send_at_once(SendJob& job);
  [[nodiscard]] Result<void> transmit(std::span<Draft::Part> parts, const SendOptions& options,
                                      Lane& lane, PayloadAllocator& memory);
  [[nodiscard]] Result<void> transmit(std::span<Draft::Part> parts, const SendOptions& options,
                                      Lane& lane) {
    return transmit(parts, options, lane, allocator_);
  }
  [[nodiscard]] Result<void> send_with_memory_at_hand(SendJob& job, const SendOptions& options);

  ForkGuard fork_guard_;
  ProducerCore core_;
  CreditGate gate_{core_, [this] { listener_->look_again(); }};
  PayloadAllocator allocator_{core_, gate_};
  PayloadAllocator at_hand_{core_, gate_, PayloadAllocator::Lingering::is_awaited_elsewhere};
  CacheUses cache_uses_;
  std::unique_ptr<Lane> lane_;        // copies for send()
  std::unique_ptr<Lane> queue_lane_;  // copies for send_async()
  std::uint64_t opened_ns_ = 0;
  std::uint64_t calls_ = 0;
  bool ended_ = false;
  bool converts_ = false;     // PayloadOptions::as is set
  bool sends_early_ = false;  // a message that was sent early has not landed yet
  Reach reach_ = Reach::listens;
  bool calling_ = false;             // under the lock: the inbox has not answered yet
  std::optional<Error> call_error_;  // under the lock: of the last call
  PeerIdentity called_;
  Fd called_life_;
  int told_event_ = -1;  // ProducerOptions::consumers_event
  std::string engine_name_;
  std::unique_ptr<SendQueue> queue_;      // made by the first send_async(), under the lock
  Bytes quick_up_to_ = 0;                 // what send_async() copies itself; set with it
  std::unique_ptr<SecondCopier> second_;  // null: there is to be none

  Claim claim_;
  std::optional<ConsumerListener> listener_;  // last: the acceptor uses all of the above
};

}  // namespace gantry
