#pragma once  // channel/readership.hpp: all readers of a channel, what they may get and what they
              // hold.

#include <deque>
#include <gantry/status.hpp>
#include <mutex>

#include "base/bell_tower.hpp"
#include "base/clock.hpp"
#include "channel/announced_slabs.hpp"
#include "channel/reader.hpp"
#include "channel/slot_table.hpp"

namespace gantry {

/// The producer's side of its consumers. Every member is called under mutex(), by the sender or by
/// the doorman; nothing in here waits.
///   I1  A slot is free exactly when no reader, the sender, the backlog or the history needs it.
///   I2  A message is in the ring of every reader that had room for it when it was published. Where
///       there was no reader it is in the backlog, which the next one gets whole.
///   I3  What a reader that left still has mapped is written by nobody until it gave it back, or
///       its process is known to be dead.
///   I4  From a reader with drop_oldest the oldest messages that it has not taken are taken back,
///   so
///       that it has room for the newest; a slot that it took, or may have taken, stays its own.
class Readership {
 public:
  struct Limits {
    unsigned slots;
    unsigned consumers;
    unsigned history;
    Bytes bytes_in_flight;
    bool keeps_memory;  ///< Slots keep small blocks for their next messages.
  };
  Readership(const Pool& pool, const Limits& limits, BellTower bells) noexcept
      : bells_(std::move(bells)),
        slabs_(pool),
        limits_(limits),
        slots_(std::min(limits.slots + limits.history, kMaxSlots), limits.keeps_memory) {}
  ~Readership();
  Readership(const Readership&) = delete;
  Readership& operator=(const Readership&) = delete;

  [[nodiscard]] std::mutex& mutex() const noexcept { return mutex_; }
  /// On which the sender sleeps: the readers' bells, and its own process's events. drain() under
  /// the lock, the rest from any thread.
  [[nodiscard]] const BellTower& bells() const noexcept { return bells_; }

  // ---- readers come and go: the doorman

  [[nodiscard]] bool has_place() const noexcept;
  /// Tells it the slabs, gives it what is kept for it, then says `ready`. The answer is what
  /// left() knows it by. After an error it is as if it had never come.
  [[nodiscard]] Result<unsigned> admit(std::unique_ptr<Attached> attached, Region page);
  /// It hung up, or its process died. What it had not taken waits for the next one if it was the
  /// last.
  void left(unsigned index, bool died);
  /// A process that joins, leaves with messages in hand, and joins again, would have all memory in
  /// the end: so many times, and it is let in no more until it released some.
  static constexpr unsigned kMostDeparted = 16;
  [[nodiscard]] unsigned departed_of(pid_t pid) const noexcept;
  /// The process of one that hung up earlier died.
  void forget_departed() noexcept;

  // ---- sending

  /// Takes in how far the readers have come; cuts off those whose words cannot be.
  void refresh();
  /// Whether a message may be published, one with `needs_slot` of that many bytes.
  [[nodiscard]] bool may_send(bool needs_slot, Bytes bytes) const noexcept;
  /// Null: all are in use. It is the sender's until release().
  [[nodiscard]] Slot* take_slot(Bytes bytes) noexcept;
  [[nodiscard]] SlotTable& slots() noexcept { return slots_; }
  /// The sender is done with a slot.
  void release(Slot& slot) noexcept;
  [[nodiscard]] AnnouncedSlabs& slabs() noexcept { return slabs_; }
  [[nodiscard]] Result<void> announce(std::uint32_t slab);
  /// A small message without extras, if there is one reader, with room, and nothing else to do.
  /// False: go the long way.
  [[nodiscard]] bool try_publish_small(ConstByteSpan payload, std::uint32_t type,
                                       std::uint64_t user) noexcept {
    if (only_ == nullptr || only_->unread() >= limits_.slots) return false;
    const std::uint64_t number = ++number_;
    const std::uint64_t ticks = is_timed(kNoSlot, number) ? read_ticks() : 0;
    only_->publish_small(payload, {.number = number,
                                   .ticks = ticks,
                                   .user = user,
                                   .type = type,
                                   .slot = kNoSlot,
                                   .kind = static_cast<std::uint8_t>(Lies::here),
                                   .count = static_cast<std::uint8_t>(payload.size())});
    return true;
  }
  /// Gives it its number and puts it into the rings. `slot` null: small.
  void publish(Outgoing& message, Slot* slot);
  [[nodiscard]] std::uint64_t published() const noexcept { return number_; }
  /// More of a landing message is there.
  void wake_holders(const Slot& slot) noexcept;
  /// The fewest chunks of it that any of its readers is done with; nothing when none is left.
  [[nodiscard]] std::optional<std::uint64_t> chunks_passed_of(const Slot& slot) const noexcept;
  void end_stream();

  // ---- looking

  [[nodiscard]] unsigned count() const noexcept;  ///< Readers that are there.
  /// All that are there block: a window may wait for them.
  [[nodiscard]] bool all_block() const noexcept;
  /// Why there is nobody any more; nothing while somebody is there, or nobody came yet.
  [[nodiscard]] const std::optional<Error>& lost() const noexcept { return lost_; }
  /// The only one that was to come never will.
  void expect_nobody(std::string why) {
    if (count() == 0 && !lost_) lost_ = Error{Code::peer_gone, std::move(why), ""};
  }
  /// Every reader took all that it was given, and at least one came.
  [[nodiscard]] bool all_taken() const noexcept;
  [[nodiscard]] std::uint64_t untaken() const noexcept;
  [[nodiscard]] unsigned slots_held() const noexcept;
  /// Grows whenever memory of messages has gone back to the pool.
  [[nodiscard]] std::uint64_t memory_returns() const noexcept {
    return slots_.freed() + departures_;
  }
  /// There is no memory for the next message: readers with drop_oldest give up older ones for it,
  /// one that frees some at a time. False: they have none that would.
  [[nodiscard]] bool take_back_for_memory();
  /// Memory of messages is out, besides that of one slot.
  [[nodiscard]] bool awaits_memory() const noexcept {
    return slots_held() > 1 || !departed_.empty();
  }
  [[nodiscard]] const std::vector<std::unique_ptr<Reader>>& readers() const noexcept {
    return readers_;
  }
  /// Everything that ChannelStatus says of readers, slots and what waits for them.
  void describe(ChannelStatus& status, double ns_per_tick);
  /// What a message of `bytes` in a slot would wait for now.
  [[nodiscard]] std::vector<std::string> obstacles(bool needs_slot, Bytes bytes);
  /// Ends every line: the consumers see the hang-up.
  void hang_up() noexcept;

 private:
  /// One that hung up while its process lives on: it may still read what it had taken.
  struct Departed {
    std::unique_ptr<Reader> reader;
    std::vector<std::pair<std::size_t, Slot>> memory;
  };

  void find_only() noexcept;
  void reclaim(Reader& reader) noexcept;
  void cut(Reader& reader, Code code, std::string why);
  void give(Reader& reader, const MessageRecord& record);
  void hand_over_kept(Reader& reader);
  [[nodiscard]] bool may_have(Reader& reader, const MessageHeader& message);
  void take_back_surplus(Reader& reader);
  void take_back_oldest(Reader& reader);
  void cut_liar(Reader& reader);
  [[nodiscard]] bool needs(const Reader& reader, const MessageHeader& header) const noexcept;
  [[nodiscard]] bool look_at(Reader& reader);
  void keep_for_successor(const Reader& reader);
  void depart(std::unique_ptr<Reader> reader);
  void keep_history(const Outgoing& message, Slot* slot);
  [[nodiscard]] std::uint64_t charged() const noexcept;
  [[nodiscard]] bool is_exhausted_but_for(const Reader* missing) const noexcept;
  void find_who_holds_up(ChannelStatus& status) const;
  [[nodiscard]] Reader* find(unsigned index) const noexcept;
  [[nodiscard]] std::vector<int> sockets() const;

  mutable std::mutex mutex_;
  BellTower bells_;  // before the readers, whose bells hang in it
  AnnouncedSlabs slabs_;
  Limits limits_;
  SlotTable slots_;
  std::vector<std::unique_ptr<Reader>> readers_;
  Reader* only_ = nullptr;  // that one, when it is alone, blocks, and there is no history
  std::vector<Departed> departed_;
  std::uint64_t departures_ = 0;  // pieces of memory that the departed gave back
  std::deque<MessageRecord> backlog_;
  std::deque<MessageRecord> history_;
  std::uint64_t number_ = 0;
  bool ended_ = false;
  bool anyone_came_ = false;
  std::optional<Error> lost_;
};

}  // namespace gantry
