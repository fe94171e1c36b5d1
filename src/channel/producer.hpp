#pragma once  // channel/producer.hpp: the sending end behind Producer.

#include <array>

#include "base/fork.hpp"
#include "channel/announced_slabs.hpp"
#include "channel/doorman.hpp"
#include "channel/metrics_page.hpp"
#include "channel/waiter.hpp"

namespace gantry {

/// Threads: the caller's (one at a time) and the doorman's. Shared between them: attached_ and
/// gone_ (atomics), held_ (a counter), slabs_ (locks by itself). consumer_ is the doorman's.
class Producer::Impl final : public detail::Keeper,
                             public Household,
                             public std::enable_shared_from_this<Producer::Impl> {
 public:
  static Result<std::shared_ptr<Impl>> make(std::string_view name, const ChannelOptions& options,
                                            std::shared_ptr<Engine> engine);
  ~Impl() override;

  Result<void> send(ConstByteSpan payload, Deadline deadline);
  Result<Loan> loan(Bytes size, Deadline deadline);
  Result<void> publish(Loan&& loan);
  Result<void> publish(Block block, Deadline deadline);
  [[nodiscard]] const Pool& pool() const noexcept { return pool_; }
  Result<void> wait_for_consumer(Deadline deadline);
  Result<void> close(Deadline deadline);
  void shut_down() noexcept;  ///< No more callers; the consumer sees the hang-up.
  [[nodiscard]] MetricsReport metrics() const { return metrics_.report(); }

  void give_back(std::uint64_t token) noexcept override;

  std::array<int, 3> welcome_descriptors() const override;
  bool has_consumer() const override;
  Result<void> admit(std::unique_ptr<Attached> consumer) override;
  void consumer_left() override;
  std::pair<WirePacket, std::vector<int>> status() const override;

 private:
  /// A credit for a message whose payload lies in a block.
  struct Slot {
    enum class State { free, loaned, published };
    State state = State::free;
    std::uint64_t sequence = 0;  // when published
    Block block;
  };

  explicit Impl(Pool pool) noexcept : pool_(std::move(pool)) {}
  Result<void> set_up(std::string_view name, const ChannelOptions& options);

  [[nodiscard]] ProducerPage& page() noexcept {
    return *reinterpret_cast<ProducerPage*>(memory_.data());
  }
  [[nodiscard]] Attached* attached() const noexcept {
    // seq_cst: publishing, then not seeing a consumer, must mean that it will see the message.
    return attached_.load(std::memory_order_seq_cst);
  }

  /// The two checks below as one question; whether they would pass.
  [[nodiscard]] bool is_fine() const noexcept {
    return !ended_ && !misbehaved_ && !gone_.load(std::memory_order_acquire);  // [G]
  }
  [[nodiscard]] Error named(Error error) const;  ///< With the channel's name in front.
  Result<void> check_open() const;
  Result<void> check_peer();
  void look_at_consumer();
  void reclaim(const ConsumerPage& page);
  [[nodiscard]] Slot* free_slot() noexcept;
  [[nodiscard]] bool any_published() const noexcept;
  template <class Ready>
  Result<void> wait_until(Deadline deadline, Ready ready);
  Result<Block> allocate(Bytes size, Deadline deadline);
  Result<void> copy(ByteSpan to, ConstByteSpan from);
  [[nodiscard]] tl::unexpected<Error> fail_copy(const Completion& completion, Bytes bytes) const;
  Result<void> await_slot(Deadline deadline);
  void publish_slot(Slot& slot, Bytes size);
  void publish_record(const MessageHeader& header, ConstByteSpan small);
  void free_slot_of(Slot& slot) noexcept;

  MakerProcess maker_;
  std::string name_;
  ChannelOptions options_;
  std::unique_ptr<Lane> lane_;  // who copies for send()
  Pool pool_;
  Metrics metrics_;
  MetricsPage* counters_ = nullptr;  // that of metrics_
  Region memory_;                    // the producer page
  Fd event_;  // rung when this end sleeps and a credit comes back, or the consumer changes
  std::uint64_t opened_ns_ = 0;
  std::uint64_t calls_ = 0;
  bool ended_ = false;
  bool misbehaved_ = false;
  std::optional<RingWriter<MessageRecord>> ring_;
  std::vector<Slot> slots_;
  std::atomic<std::uint32_t> held_{0};  // slots not free, for status()

  AnnouncedSlabs slabs_{pool_};
  std::unique_ptr<Attached> consumer_;
  std::atomic<Attached*> attached_{nullptr};
  std::atomic<bool> gone_{false};

  Claim claim_;
  std::optional<Doorman> doorman_;  // last: its thread uses all of the above
};

}  // namespace gantry
