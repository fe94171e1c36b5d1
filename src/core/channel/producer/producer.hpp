#pragma once  // channel/producer/producer.hpp: the sending end behind Producer.

#include "core/channel/producer/carriers.hpp"
#include "core/channel/producer/connector.hpp"
#include "core/channel/producer/send_queue.hpp"

namespace gantry {

/// The sending end behind Producer: which way a message goes, and in which order. Carriers and
/// Loans send it: they take credit and slot from the CreditGate, memory from the PayloadAllocator,
/// and hand the message to the Publisher. Threads: the caller's (one at a time), the progress
/// thread of send_async(), the acceptor's. They share `core_.consumers`, under its lock. Of the
/// first two only one sends at a time: the caller waits until the queue is idle, or queues up
/// itself.
class GANTRY_LOCAL Producer::Impl final : public std::enable_shared_from_this<Producer::Impl> {
 public:
  using Reach = Connector::Reach;
  static Result<std::shared_ptr<Impl>> make(std::string_view name, const ProducerOptions& options,
                                            std::shared_ptr<Engine> engine,
                                            Reach reach = Reach::listens,
                                            Purpose calls = Purpose::deliver);
  ~Impl();

  Result<void> send(ConstByteSpan payload, const SendOptions& options);
  Result<std::size_t> send_batch(std::span<const ConstByteSpan> payloads,
                                 const SendOptions& options);
  Result<void> send(std::vector<Draft::Part> parts, const SendOptions& options);
  Result<void> send(Draft draft, const SendOptions& options) {
    return send(std::move(draft.parts()), options);
  }
  Result<void> send(Loan loan, const SendOptions& options) {
    return publish(std::move(loan), options);
  }
  /// Sends an empty message of the protocol of calls; the counters leave it out.
  Result<void> send_uncounted(const SendOptions& options, Urgency urgency = Urgency::urgent);
  /// The shortest way of a message, for the caller to try before any other. False: it did nothing.
  [[nodiscard]] bool try_send_small(ConstByteSpan payload, const SendOptions& options) noexcept;

  Result<Ticket> send_async(SendJob&& job);
  /// try_send_small() with a ticket, which is done.
  [[nodiscard]] std::optional<Ticket> try_send_small_async(ConstByteSpan payload,
                                                           const SendOptions& options) noexcept {
    if (!queue_ || !queue_->is_prepared() || !try_send_small(payload, options)) return std::nullopt;
    return queue_->give_done();
  }
  [[nodiscard]] Outcome outcome(Ticket ticket) const noexcept;
  Result<void> wait(Ticket ticket, Deadline deadline);
  Result<int> sent_descriptor();
  void note_woken() noexcept;

  Result<Loan> loan(Bytes size, Deadline deadline);
  Result<void> publish(Loan loan, const SendOptions& options);
  Result<EarlyMessage> send_early(std::vector<Draft::Part> parts, const SendOptions& options);
  /// Stops slots from keeping blocks, which the pool's other user must not be refused.
  [[nodiscard]] const Pool& shared_pool();

  Result<void> wait_for_consumer(Deadline deadline, unsigned count);
  Result<void> close(Deadline deadline);
  void shut_down() noexcept;  ///< No more callers; the consumers see the hang-up.

  [[nodiscard]] Result<void> check_process() const;  ///< Fails in a fork's copy.
  [[nodiscard]] Connector& connector() noexcept { return connector_; }
  [[nodiscard]] MetricsReport metrics() const { return core_.metrics.report(); }
  [[nodiscard]] ChannelExplanation explain(Bytes payload) const;
  /// True if a consumer may still read a message that was forwarded.
  [[nodiscard]] bool holds_forwards() const;

 private:
  using Lock = ProducerCore::Lock;

  explicit Impl(Pool pool) noexcept : core_(std::move(pool)) {}
  Result<void> set_up(std::string_view name, const ProducerOptions& options, Reach reach);

  [[nodiscard]] Result<void> check_open() const;
  [[nodiscard]] Result<void> check_address(ConstByteSpan payload) const;
  [[nodiscard]] bool is_queue_idle() const noexcept { return !queue_ || queue_->is_idle(); }
  [[nodiscard]] Result<void> stay_in_order(Deadline deadline);
  /// Fails if nothing may be sent now; waits for what goes before.
  [[nodiscard]] Result<void> await_turn(Deadline deadline);

  [[nodiscard]] bool may_go_the_short_way(const SendOptions& options) const noexcept;
  [[nodiscard]] Result<void> send_small(ConstByteSpan payload, const SendOptions& options);
  [[nodiscard]] std::size_t send_small_ones(std::span<const ConstByteSpan> payloads,
                                            const SendOptions& options) noexcept;
  [[nodiscard]] bool is_quick(const SendJob& job) const noexcept;
  [[nodiscard]] std::optional<Result<void>> send_at_once(SendJob& job);
  Result<void> send_queued(SendJob& job);

  ProducerCore core_;
  CreditGate gate_{core_, [this] { connector_.look_again(); }};
  Carriers carriers_{core_, gate_};
  Loans loans_{core_, gate_, carriers_};
  ProducerStatus status_{core_, carriers_.allocator()};
  std::unique_ptr<Lane> queue_lane_;  // copies for send_async()
  std::uint64_t calls_ = 0;
  bool ended_ = false;
  std::unique_ptr<SendQueue> queue_;            // made by the first send_async(), under the lock
  Bytes quick_up_to_ = 0;                       // what send_async() copies itself; set with it
  Connector connector_{core_, gate_, status_};  // last: the acceptor uses all of the above
};

}  // namespace gantry
