#pragma once  // channel/fan_out/consumer_state.hpp: a consumer as its producer knows it.

#include <bit>
#include <gantry/channel.hpp>
#include <optional>

#include "core/base/event.hpp"
#include "core/base/wake.hpp"
#include "core/base/wake_limit.hpp"
#include "core/channel/wire/beside_tensor.hpp"
#include "core/channel/wire/connection.hpp"
#include "core/channel/wire/depth.hpp"
#include "core/channel/wire/format.hpp"
#include "core/channel/wire/protocol.hpp"
#include "core/channel/wire/record_to_send.hpp"
#include "core/channel/wire/step.hpp"
#include "core/sync/wait_flag.hpp"
#include "core/trace/end_trace.hpp"

namespace gantry {

/// Everything that a consumer handed over when it joined. The ConsumerListener makes it; then it is
/// constant, except the wake filter and what is noted of its rings. The pages behind `page` are the
/// consumer's and may hold anything.
struct ConsumerResources {
  Connection connection;
  SharedFd pidfd;          // empty: only the connection and the wake-up socket tell of its death
  AcceptWatch life_watch;  // of the pidfd; ends with this
  WakeSender wake_sender;  // of the wake-up socket on which it sleeps
  WakeReceiver wake_receiver;  // it rings this when we sleep
  AcceptWatch wake_watch;      // of the wake-up socket, while the acceptor watches it
  bool is_silent =
      false;  // the wake-up socket has lost its other end, and would be readable for ever
  Region memory;
  Metrics metrics;
  pid_t pid = 0;
  uid_t uid = 0;
  std::uint64_t joined_ns = 0;  // monotonic
  SlowConsumer policy = SlowConsumer::block;
  unsigned depth = 0;  // 0: by its policy
  WakeFilter wake_filter;
  trace::EndTrace* trace = nullptr;  // the producer's
  WakeLimit wake_limit;

  [[nodiscard]] bool blocks() const noexcept { return policy == SlowConsumer::block; }
  [[nodiscard]] bool drops_oldest() const noexcept { return policy == SlowConsumer::drop_oldest; }
  [[nodiscard]] bool may_miss() const noexcept {
    return policy == SlowConsumer::drop_newest || drops_oldest();
  }
  /// True if nobody reads any more what it took: no copy is left of our wake-up sender, which a
  /// consumer keeps until it has released everything, and hands on with memory that it forwards.
  [[nodiscard]] bool is_gone() const noexcept { return !wake_receiver.has_other_end(); }

  [[nodiscard]] const ConsumerPage& page() const noexcept {
    return *reinterpret_cast<const ConsumerPage*>(memory.data());
  }
};

/// One consumer's ring, and what the consumer holds. Used under the channel's lock.
class ConsumerState {
 public:
  /// Makes the page that a joining consumer gets before it has joined.
  [[nodiscard]] static Result<Region> make_page(unsigned credits);

  /// `id`: no other consumer of the channel ever has it. `index`: no other has it at the same time.
  ConsumerState(unsigned id, unsigned index, std::unique_ptr<ConsumerResources> resources,
                Region page, unsigned credits);

  [[nodiscard]] unsigned id() const noexcept { return id_; }
  [[nodiscard]] unsigned index() const noexcept { return index_; }
  [[nodiscard]] std::uint64_t bit() const noexcept { return std::uint64_t{1} << index_; }
  [[nodiscard]] ConsumerResources& resources() noexcept { return *resources_; }
  [[nodiscard]] const ConsumerResources& resources() const noexcept { return *resources_; }

  /// Reads how far it has come. False: what it wrote is impossible.
  [[nodiscard]] bool refresh() noexcept { return ring_.refresh(resources_->page().taken); }
  /// True if it gave back message `number` in `slot`.
  [[nodiscard]] bool has_released(std::size_t slot, std::uint64_t number) const noexcept {
    return resources_->page().released.is_released(slot, number);
  }

  /// Packets about slabs that it says it has taken in.
  [[nodiscard]] std::uint64_t heard() const noexcept {
    return resources_->page().heard.load(std::memory_order_seq_cst);  // [K]
  }

  /// Messages published to it and, as far as refresh() has seen, not taken.
  [[nodiscard]] std::uint64_t unread() const noexcept { return ring_.unread(); }
  [[nodiscard]] unsigned depth() const noexcept { return depth_; }
  /// Number of the oldest message that it has not taken, as far as refresh() has seen; the largest
  /// number when it took all.
  [[nodiscard]] std::uint64_t oldest_unread() const noexcept {
    if (ring_.unread() == 0) return ~std::uint64_t{0};
    return ring_.record(ring_.published() + 1 - ring_.unread()).header.number;
  }
  [[nodiscard]] bool has_room(bool needs_slot) const noexcept {
    return ring_.unread() < depth_ && (!needs_slot || count(holds_) < depth_);
  }

  // With drop_oldest a message is published first, then the surplus is taken back: a producer that
  // dies in between has taken nothing away. The consumer keeps what it has in hand, so it has one
  // slot more, for the newest.
  [[nodiscard]] bool may_have_newest(bool needs_slot) const noexcept {
    return !needs_slot || count(holds_ & ~unread_slots()) <= depth_;
  }
  [[nodiscard]] bool has_too_many() const noexcept {
    return ring_.unread() > depth_ || (count(holds_) > depth_ && count(unread_slots()) > 1);
  }
  [[nodiscard]] bool has_unread_slot() const noexcept { return unread_slots() != 0; }
  struct TakenBack {
    bool is_honest = true;  ///< False: what it wrote is impossible; nothing else counts then.
    bool is_certain = false;
    MessageHeader header{};
  };
  /// Takes the oldest unread message back; there must be one. The consumer may have it by now; then
  /// it keeps it until it releases it.
  [[nodiscard]] TakenBack take_back_oldest() noexcept;
  /// Messages that were in its ring and that it never got; exact once it has looked at its ring.
  [[nodiscard]] std::uint64_t taken_back() const noexcept;

  void publish(const RecordToSend& message) noexcept {
    if (resources_->drops_oldest()) return publish_over(message);
    ring_.publish([&](MessageRecord& record) {
      message.write(record);
      GANTRY_STEP(record_written);
    });
    GANTRY_STEP(sequence_published);
    wake(message.urgency);
    GANTRY_STEP(consumer_woken);
  }
  /// Call wake() afterwards, after the last of several.
  template <class Payload>
  void publish_small(const Payload& payload, const MessageHeader& header) noexcept {
    ring_.publish([&](MessageRecord& record) { write_small(record, payload, header); });
  }
  void publish(const MessageRecord& message) noexcept {
    if (resources_->drops_oldest())
      ring_.publish_over(message);
    else
      ring_.publish([&](MessageRecord& record) { record = message; });
    wake();
  }
  /// Publishes a payload that was written to a place. Call wake() afterwards. Only for a consumer
  /// that blocks.
  void publish_beside(const MessageHeader& header, std::uint32_t place,
                      const BesidePayload& payload) noexcept;
  /// Number of the oldest message whose place it may still read, as far as refresh() has seen; the
  /// largest number if there is none. A lie locks places until the liar is gone, no more.
  [[nodiscard]] std::uint64_t oldest_needed() const noexcept {
    const std::uint64_t looked_at = looking();
    return looked_at == 0 ? oldest_unread() : std::min(oldest_unread(), looked_at);
  }
  /// Of one that departed: it may still read the place of message `number`. `confirmed`: it takes
  /// no more messages. A reader that does not block reads a place after it took the message: until
  /// it confirms, it may read every one.
  [[nodiscard]] bool may_read(std::uint64_t number, bool confirmed) const noexcept {
    if (number == 0 || ring_.published() == 0 ||
        number > ring_.record(ring_.published()).header.number)
      return false;
    if (looking() == number) return true;
    return !confirmed && (number >= oldest_unread() || !resources_->blocks());
  }
  /// Number of the message at whose place it looks; 0: it does not.
  [[nodiscard]] std::uint64_t looking() const noexcept {
    return resources_->page().looking.load(std::memory_order_acquire);  // [Q]
  }
  /// Rings if it sleeps. Call after a word that it waits for has changed.
  void wake(Urgency urgency = Urgency::urgent) noexcept {
    if (resources_->wake_filter.must_wake(resources_->page().consumer_sleeps, urgency)) ring();
  }
  void end_stream() noexcept;

  /// Visits its untaken messages, the oldest first, as far as refresh() has seen.
  template <class Visit>
  void for_each_unread(Visit visit) const {
    for (std::uint64_t back = ring_.unread(); back > 0; --back)
      visit(ring_.record(ring_.published() + 1 - back));
  }

  [[nodiscard]] std::uint64_t holds() const noexcept { return holds_; }
  void hold(std::size_t slot) noexcept { holds_ |= std::uint64_t{1} << slot; }
  void let_go(std::size_t slot) noexcept {
    holds_ &= ~(std::uint64_t{1} << slot);
    ++gave_back_;
  }
  /// Of one that departed: what it held is not on the slots any more.
  void note_given_back(std::size_t pieces) noexcept { gave_back_ += pieces; }

  /// It rang. Has it done anything since it rang before, as far as refresh(), the slots, and
  /// `confirmed` packets tell?
  void note_ring(std::uint64_t confirmed, std::uint64_t now_ns) noexcept {
    const std::uint64_t done = work_done() + confirmed;
    resources_->wake_limit.note(std::exchange(done_at_ring_, done) != done, now_ns);
  }

  std::uint64_t dropped = 0;  ///< Messages that passed it over.
  bool is_cut = false;        ///< We told it that it is no longer served; see DepartedConsumers.

 private:
  void publish_over(const RecordToSend& message) noexcept;
  void ring() noexcept;
  [[nodiscard]] static unsigned count(std::uint64_t slots) noexcept {
    return static_cast<unsigned>(std::popcount(slots));
  }
  [[nodiscard]] std::uint64_t unread_slots() const noexcept;  // those it holds
  [[nodiscard]] std::uint64_t work_done() const noexcept;
  [[nodiscard]] RingPage& page() noexcept { return *reinterpret_cast<RingPage*>(memory_.data()); }

  unsigned id_;
  unsigned index_;
  unsigned depth_;
  std::unique_ptr<ConsumerResources> resources_;
  Region memory_;
  RevocableWriter<MessageRecord> ring_;
  std::uint64_t holds_ = 0;      // slots, as bits
  std::uint64_t certain_ = 0;    // messages that were taken back without doubt
  std::uint64_t gave_back_ = 0;  // slots, and what it held when it departed
  std::uint64_t done_at_ring_ = 0;
};

}  // namespace gantry
