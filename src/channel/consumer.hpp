#pragma once  // channel/consumer.hpp: the receiving end behind Consumer.

#include <array>
#include <atomic>
#include <gantry/meter.hpp>
#include <optional>

#include "base/fork.hpp"
#include "channel/format.hpp"
#include "channel/metrics_page.hpp"
#include "channel/received_slabs.hpp"
#include "channel/waiter.hpp"

namespace gantry {

/// Threads: the caller's (one at a time); give_back() from any.
class Consumer::Impl final : public detail::Keeper,
                             public std::enable_shared_from_this<Consumer::Impl> {
 public:
  static Result<std::shared_ptr<Impl>> make(std::string_view name, const ChannelOptions& options,
                                            Deadline deadline);

  /// The next message of any of `ends` and its index; see Consumer::receive_any().
  static Result<Any> receive_any(std::span<Impl* const> ends, Deadline deadline);
  /// Of this end alone: polls first, with nothing in between that need not be.
  [[nodiscard]] Result<Message> receive(Deadline deadline);
  void leave() noexcept;  ///< The producer sees the hang-up.
  [[nodiscard]] MetricsReport metrics() const { return metrics_.report(); }

  void give_back(std::uint64_t token) noexcept override;

 private:
  Impl() = default;
  Result<void> join(Fd socket, Deadline deadline);
  Result<void> make_own_page();
  Result<void> await_ready(int socket, Deadline deadline);

  [[nodiscard]] const ProducerPage& page() const noexcept {
    return *reinterpret_cast<const ProducerPage*>(producer_memory_.data());
  }
  [[nodiscard]] ConsumerPage& own() noexcept {
    return *reinterpret_cast<ConsumerPage*>(memory_.data());
  }
  [[nodiscard]] bool at_end() const noexcept;
  [[nodiscard]] bool has_news() const noexcept { return reader_->ready() || at_end(); }
  [[nodiscard]] bool is_over() const noexcept { return finished_ || broken_.has_value(); }

  static Result<Any> wait_any(std::span<Impl* const> ends, std::uint64_t asked,
                              std::chrono::nanoseconds spin, Deadline deadline);
  static Result<std::optional<Any>> look_once(std::span<Impl* const> ends, std::uint64_t asked);
  Result<Message> take(std::uint64_t asked, bool waited);
  Result<Message> take_small(const MessageHeader& header, std::uint64_t sequence,
                             std::uint64_t asked, bool waited);
  void report_taken() noexcept;
  void note_arrival(const MessageHeader& header, std::uint64_t sequence, std::uint64_t asked,
                    bool waited) noexcept;
  Result<Message> view(const MessageHeader& header, std::uint64_t sequence);
  void examine_peer(std::span<const pollfd> events);
  Error ending_error();
  Error ruined(const Error& reason);
  Error misbehaved(std::string_view what);
  void ring_producer() noexcept;

  MakerProcess maker_;
  std::string name_;
  ChannelOptions options_;
  Fd socket_;
  Fd pidfd_;           // of the producer; empty: only the socket tells of its death
  Fd producer_event_;  // rung when the producer sleeps and a credit goes back
  Fd event_;           // rung by the producer when this end sleeps
  Region producer_memory_;
  Region memory_;  // the consumer page
  Metrics metrics_;
  MetricsPage* counters_ = nullptr;  // that of metrics_
  pid_t producer_pid_ = 0;
  std::uint64_t calls_ = 0;
  unsigned report_after_ = 1;  // small messages taken before their credits go back
  Bytes last_bytes_ = 0;       // of the newest message: the best guess at what the next call costs
  std::optional<RingReader<MessageRecord>> reader_;
  Ringer ringer_;
  ReceivedSlabs slabs_;
  // By slot: where its message lies while it is in the user's hands. Set by the receiving thread,
  // cleared by the releasing one; the slab stays as long as anything of it is held.
  std::array<std::atomic<ReceivedSlab*>, kMaxSlots> held_in_{};
  bool gone_ = false;      // the producer died or hung up; what it published may still be there
  bool finished_ = false;  // the end was reached and told
  std::optional<Error> broken_;  // why nothing of the producer is believed, or can be, any more
};

}  // namespace gantry
