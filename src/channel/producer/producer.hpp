#pragma once  // channel/producer/producer.hpp: the sending end behind Producer.

#include <array>

#include "base/fork.hpp"
#include "channel/consumers/consumer_set.hpp"
#include "channel/producer/consumer_listener.hpp"
#include "channel/producer/mode_choice.hpp"
#include "channel/producer/second_copier.hpp"
#include "channel/producer/send_queue.hpp"
#include "channel/wire/metrics_page.hpp"
#include "channel/wire/waiter.hpp"

namespace gantry {

/// Threads: the caller's (one at a time), the progress thread of send_async(), the acceptor's. What
/// they share is `consumers_`, under its lock. Of the first two only one sends at a time: the
/// caller waits until the queue is idle, or queues up itself.
class GANTRY_LOCAL Producer::Impl final : public detail::SlotOwner,
                             public ConsumerHost,
                             public std::enable_shared_from_this<Producer::Impl> {
 public:
  /// How it comes to consumers: they come to its name; it goes to the inbox of that name; it is
  /// given a control connection to one, and the name is but what errors call it.
  enum class Reach { listens, calls, answers };
  static Result<std::shared_ptr<Impl>> make(std::string_view name, const ChannelOptions& options,
                                            std::shared_ptr<Engine> engine,
                                            Reach reach = Reach::listens);
  ~Impl() override;

  Result<void> send(ConstByteSpan payload, const SendOptions& options);
  Result<void> send(std::vector<Draft::Part> parts, const SendOptions& options);
  Result<Ticket> send_async(SendJob&& job);
  [[nodiscard]] Outcome outcome(Ticket ticket) const noexcept;
  Result<void> wait(Ticket ticket, Deadline deadline);
  Result<int> sent_descriptor();
  void note_woken() noexcept;
  Result<Loan> loan(Bytes size, Deadline deadline);
  Result<void> publish(Loan loan, const SendOptions& options);
  /// Its other user must not be refused what slots keep for later.
  [[nodiscard]] const Pool& shared_pool() {
    if (!fork_guard_.is_this()) return pool_;  // which refuses a fork's copy by itself
    const Lock held = lock();
    consumers_->slots().keep_no_more();
    return pool_;
  }
  Result<void> wait_for_consumer(Deadline deadline, unsigned count);
  Result<void> close(Deadline deadline);

  // ---- of one that calls: producer_call.cpp

  /// Looks for the inbox until `deadline` and calls it, unless it is there or being called.
  Result<void> call(Deadline deadline);
  /// Calls it, and again where it goes away meanwhile, until it has let us in.
  Result<void> wait_for_inbox(Deadline deadline);
  /// The same over `control`, to the process that `whom` is. Does not wait. Errors:
  /// `peer_misbehaved` when somebody else, or no control connection, is there.
  Result<void> call_over(ReceivedFd control, const PeerIdentity& whom);
  /// Sends the inbox a socket, for calling back.
  Result<void> send_control(int control);
  /// Who listens at the name; of the last call.
  [[nodiscard]] PeerIdentity called() const noexcept { return called_; }
  /// That process's life, if the kernel tells; see peer_pidfd().
  [[nodiscard]] Fd take_called_life() noexcept { return std::move(called_life_); }
  /// Rung, beside the channel's own, whenever the consumers change. Not owned; before any call().
  void tell_of_readers(int event) noexcept { told_event_ = event; }
  /// There was a consumer, and there is none now.
  [[nodiscard]] bool is_alone() const;

  void shut_down() noexcept;  ///< No more callers; the consumers see the hang-up.
  [[nodiscard]] MetricsReport metrics() const { return metrics_.report(); }

  void give_back(std::uint64_t token) noexcept override;

  Result<Region> make_ring() const override { return ConsumerState::make_page(options_.slots); }
  int page_descriptor() const override { return memory_.descriptor(); }
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
  class SendOperation;  // one message's way: producer_send.cpp
  using Lock = std::unique_lock<std::mutex>;
  enum class Lost { is_an_error, is_fine };  // what it is to a wait that nobody reads any more

  explicit Impl(Pool pool) noexcept : pool_(std::move(pool)) {}
  Result<void> set_up(std::string_view name, const ChannelOptions& options, Reach reach);
  void begin_call(Connection connection);
  void consumers_changed() noexcept;

  [[nodiscard]] ProducerPage& page() noexcept {
    return *reinterpret_cast<ProducerPage*>(memory_.data());
  }
  [[nodiscard]] Lock lock() const { return Lock(consumers_->mutex()); }

  /// The newest payload that an engine copied.
  struct LastCopy {
    std::byte* to = nullptr;  // of the last move; both may be gone
    const std::byte* from = nullptr;
    Bytes moved = 0;    // a chunk, or all of it
    Bytes payload = 0;  // of the message; 0: there was none
    SendMode mode = SendMode::whole;
    CopyEngine engine = CopyEngine::inline_;
    CacheUse cache = CacheUse::automatic;
  };
  [[nodiscard]] ChannelStatus describe() const;
  [[nodiscard]] PathStatus path_of(const LastCopy& copy) const;

  [[nodiscard]] SendMode mode_for(ModeQuestion question) const;
  [[nodiscard]] Error named(Error error) const;      ///< With the channel's name in front.
  [[nodiscard]] Result<void> check_process() const;  ///< Not a fork's copy.
  [[nodiscard]] Result<void> check_open() const;
  [[nodiscard]] Result<void> check_readers() const;
  [[nodiscard]] Result<void> stay_in_order(Deadline deadline);
  [[nodiscard]] bool is_queue_idle() const noexcept { return !queue_ || queue_->is_idle(); }

  template <class Ready>
  [[nodiscard]] Result<void> wait_until(Lock& lock, Deadline deadline, Ready ready,
                                        Lost lost = Lost::is_an_error);
  template <class Ready>
  [[nodiscard]] Result<void> sleep_until(Lock& lock, Deadline deadline, Ready ready, Lost lost);
  void heed_forwards();
  void stop_heeding() noexcept;
  [[nodiscard]] Result<void> await_room(Lock& lock, bool needs_slot, Bytes bytes,
                                        Deadline deadline);
  [[nodiscard]] Result<void> announced(Lock& lock, const Slot& slot, Deadline deadline);
  [[nodiscard]] Result<Slot*> await_slot(Lock& lock, Bytes bytes, Deadline deadline);
  [[nodiscard]] Result<Block> allocate(Bytes size, Deadline deadline);
  [[nodiscard]] Result<bool> await_return(Lock& held, std::uint64_t before, Deadline deadline);
  [[nodiscard]] Result<void> send_small(ConstByteSpan payload, const SendOptions& options);
  [[nodiscard]] Result<void> slow_send_small(ConstByteSpan payload, const SendOptions& options);
  Result<void> send_queued(SendJob& job);
  [[nodiscard]] Result<void> transmit(std::span<Draft::Part> parts, const SendOptions& options,
                                      Lane& lane);
  /// Memory for a slot that the caller has, `size` bytes or more of it.
  [[nodiscard]] Result<void> take_block(Slot& slot, Bytes size, Deadline deadline);
  /// What the engine would do with so many bytes in one piece.
  [[nodiscard]] CacheUse cache_use_of(const Lane& lane, Bytes bytes);
  [[nodiscard]] Error copy_error(const Completion& completion, Bytes bytes) const;

  ForkGuard fork_guard_;
  std::string name_;
  ChannelOptions options_;
  SpinTime spin_;
  std::unique_ptr<Lane> lane_;        // who copies for send()
  std::unique_ptr<Lane> queue_lane_;  // and for send_async()
  Pool pool_;
  Metrics metrics_;
  MetricsPage* counters_ = nullptr;  // that of metrics_; by whoever sends
  Region memory_;                    // the producer page
  // Under the lock. What was passed on must go back to its own sender as soon as the consumers have
  // released it, even if nobody calls us: then the acceptor watches the wake-up sockets instead of
  // the caller.
  bool caller_waits_ = false;
  bool acceptor_heeds_ = false;  // and the intent to sleep is announced for it
  std::uint64_t opened_ns_ = 0;
  std::uint64_t calls_ = 0;
  bool ended_ = false;
  Reach reach_ = Reach::listens;
  bool calling_ = false;             // under the lock: the inbox has not answered yet
  std::optional<Error> call_error_;  // under the lock: of the last call
  PeerIdentity called_;
  Fd called_life_;
  int told_event_ = -1;
  std::string engine_name_;
  LastCopy last_copy_;  // under the lock
  std::unique_ptr<ConsumerSet> consumers_;
  std::unique_ptr<SendQueue> queue_;       // made by the first send_async()
  std::unique_ptr<SecondCopier> second_;   // null: there is to be none
  std::array<CacheUse, 65> cache_uses_{};  // by bits of the size; automatic: not yet asked

  Claim claim_;
  std::optional<ConsumerListener> listener_;  // last: the acceptor uses all of the above
};

}  // namespace gantry
