#pragma once  // channel/fan_out/credits.hpp: whether a message may be sent, and what is in its
              // way.

#include "core/channel/fan_out/consumer_set.hpp"

namespace gantry {

/// Counts what the consumers of a channel, its sender and its loans hold. It has no state of its
/// own: make one where it is needed, under the consumers' mutex().
class Credits {
 public:
  explicit Credits(ConsumerSet& consumers) noexcept
      : consumers_(consumers), slots_(consumers.slots()), limits_(consumers.limits()) {}

  /// True if a message may be published, one with `needs_slot` of that many bytes.
  [[nodiscard]] bool may_send(bool needs_slot, Bytes bytes) const noexcept;
  /// True if a message of that many bytes needs no refresh() as long as credits last: looking at
  /// what one consumer has done since costs a small message a tenth of its time, and nobody waits
  /// for copies of theirs. Large ones go into what came back last, as it is in the caches.
  [[nodiscard]] bool may_send_unseen(Bytes bytes) const noexcept {
    return consumers_.is_plain() && !slots_.lends() && slots_.keeps() && bytes <= kUnseenUpTo;
  }
  /// What a message of `bytes` would wait for now, each as "for a slot: ...". Refreshes first.
  [[nodiscard]] std::vector<std::string> obstacles(bool needs_slot, Bytes bytes) const;
  /// Why a message of `bytes` cannot have a credit before loans end, which only the caller can do;
  /// empty: others can end its wait.
  [[nodiscard]] std::optional<Error> loans_in_the_way(bool needs_slot, Bytes bytes) const;

  [[nodiscard]] std::uint64_t untaken() const noexcept;
  /// True if every consumer took all that it was given, and at least one came: a stream without
  /// messages has an end to be told, too.
  [[nodiscard]] bool all_taken() const noexcept {
    return consumers_.anyone_came() && untaken() == 0;
  }
  /// True if somebody, perhaps a consumer that has left, may read a message that was passed on.
  [[nodiscard]] bool holds_forwards() const noexcept {
    return slots_.holds_forwards() || consumers_.departed().holds_forwards();
  }

  // ---- memory

  /// Grows whenever memory of messages has gone back to the pool.
  [[nodiscard]] std::uint64_t memory_returns() const noexcept {
    return slots_.freed() + consumers_.departed().returns() + consumers_.slabs().returned();
  }
  /// True if others than the sender have messages: their memory may come back while it waits.
  [[nodiscard]] bool awaits_memory() const noexcept {
    return slots_.needed_by(~kSenderBit) != 0 || consumers_.departed().holds_memory();
  }
  [[nodiscard]] Bytes lent_bytes() const noexcept { return slots_.bytes_of(slots_.lent()); }
  /// Bytes that nobody need be waited for: kept for a slot's next message, or to be taken back.
  [[nodiscard]] Bytes yielding_bytes() const noexcept;
  /// True if consumers that may hold the producer up still map dropped slabs.
  [[nodiscard]] bool awaits_slabs() const noexcept {
    return consumers_.slabs().awaits_return(consumers_.who_block());
  }

  /// Fills in what ChannelStatus says of consumers, slots and what waits for them. Refreshes first.
  void describe(ChannelStatus& status, double ns_per_tick) const;

 private:
  static constexpr Bytes kUnseenUpTo = Bytes{64} << 10;

  [[nodiscard]] std::uint64_t charged() const noexcept;
  [[nodiscard]] unsigned credits_used(std::uint64_t charged) const noexcept;
  [[nodiscard]] std::string who_has(std::uint64_t slots) const;
  [[nodiscard]] bool is_exhausted_but_for(const ConsumerState* missing) const noexcept;
  void find_who_holds_up(ChannelStatus& status) const;

  ConsumerSet& consumers_;
  const SlotTable& slots_;
  const ConsumerSet::Limits& limits_;
};

}  // namespace gantry
