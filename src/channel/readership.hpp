#pragma once  // channel/readership.hpp: all readers of a channel, what they may get and what they
              // hold.

#include <poll.h>

#include <deque>
#include <gantry/status.hpp>
#include <mutex>
#include <span>

#include "base/clock.hpp"
#include "channel/announced_slabs.hpp"
#include "channel/departed_readers.hpp"
#include "channel/reader.hpp"
#include "channel/slot_table.hpp"

namespace gantry {

/// The producer's side of its consumers. Every member is called under mutex(), by the sender or by
/// the acceptor; nothing in here waits.
///   I1  A slot is free exactly when no reader, the sender, the backlog or the history needs it.
///   I2  A message is in the ring of every reader that had room for it when it was published. Where
///       there was no reader it is in the backlog, which the next one gets whole.
///   I3  What a reader that left or was cut off may still read is written by nobody: see
///       DepartedReaders.
///   I4  From a reader with drop_oldest the oldest messages that it has not taken are taken back,
///   so
///       that it has room for the newest; a slot that it took, or may have taken, stays its own.
///   I5  Readers that do not block have, all together, so many slots that the credits remain, or
///       half of all.
class Readership {
 public:
  struct Limits {
    unsigned slots;
    unsigned consumers;
    unsigned history;
    Bytes bytes_in_flight;
    bool keeps_memory;  ///< Slots keep small blocks for their next messages.
  };
  Readership(const Pool& pool, const Limits& limits)
      : slabs_(pool),
        limits_(limits),
        slots_(std::min(limits.slots + limits.history, kMaxSlots), limits.keeps_memory) {}
  ~Readership();
  Readership(const Readership&) = delete;
  Readership& operator=(const Readership&) = delete;

  [[nodiscard]] std::mutex& mutex() const noexcept { return mutex_; }

  // ---- sleeping

  /// What the sender is to sleep on until it says wake_up(): `event`, which wake_sender() rings,
  /// and the readers' bells.
  [[nodiscard]] std::vector<pollfd> fall_asleep(SharedFd event);
  /// Takes in what was rung. A bell whose other end is gone is heard no more.
  void drain_bells(std::span<const pollfd> polled);
  void drain_bells();
  void wake_up() noexcept { event_.reset(); }
  /// By another thread of this process, when the readers have changed.
  void wake_sender() const noexcept;
  /// Has all bells watched by `watch`, which gets a descriptor and gives a Result<AcceptWatch>; or
  /// none. What cannot be watched now is tried again next time.
  template <class Watch>
  void watch_bells(bool wanted, Watch watch) {
    for_each_attached([&](Attached& one) {
      if (!wanted || one.is_silent) return one.bell_watch.end();
      if (one.bell_watch) return;
      if (auto watched = watch(one.bell.descriptor())) one.bell_watch = std::move(*watched);
    });
  }

  // ---- readers come and go: the acceptor

  [[nodiscard]] bool has_place() const noexcept;
  /// Tells it the slabs, gives it what is kept for it, then says `ready`. The answer is the id by
  /// which left() knows it. After an error it is as if it had never come.
  [[nodiscard]] Result<unsigned> admit(std::unique_ptr<Attached> attached, Region page);
  /// It hung up, or its process died. What it had not taken waits for the next one if it was the
  /// last.
  void left(unsigned id);
  /// Who joins, leaves with messages in hand, and joins again, would have all memory in the end. So
  /// many may have left so, and each of their users may have an equal share of that; whose share is
  /// used up is let in no more until some of it was released, or died.
  static constexpr unsigned kMostDeparted = 64;
  [[nodiscard]] bool holds_too_much(uid_t user) const {
    return departed_.has_full_share(user, kMostDeparted);
  }
  /// The process of one that hung up earlier died.
  void forget_departed() {
    if (departed_.sweep()) wake_sender();
  }

  // ---- sending

  /// Takes in how far the readers have come; cuts off those whose words cannot be.
  void refresh();
  /// Whether a message may be published, one with `needs_slot` of that many bytes.
  [[nodiscard]] bool may_send(bool needs_slot, Bytes bytes) const noexcept;
  /// Null: all are in use. It is the sender's until release().
  [[nodiscard]] Slot* take_slot(Bytes bytes) noexcept;
  [[nodiscard]] SlotTable& slots() noexcept { return slots_; }
  /// Somebody, be it one that has left, may read a message that was passed on.
  [[nodiscard]] bool holds_forwards() const noexcept {
    return slots_.holds_forwards() || departed_.holds_forwards();
  }
  /// The sender is done with a slot.
  void release(Slot& slot) noexcept;
  [[nodiscard]] AnnouncedSlabs& slabs() noexcept { return slabs_; }
  /// Tells the readers where the message in `slot` lies. False: some that must not miss it have
  /// first to confirm what they were told before; refresh() sees that. Error:
  /// AnnouncedSlabs::tell()
  [[nodiscard]] Result<bool> announce(const Slot& slot);
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
    return slots_.freed() + departed_.returns() + slabs_.returned();
  }
  /// There is no memory for the next message: the history and readers with drop_oldest give up
  /// older ones for it, one that frees some at a time. False: they have none that would.
  [[nodiscard]] bool take_back_for_memory();
  /// Memory of messages is out, besides that of one slot.
  [[nodiscard]] bool awaits_memory() const noexcept {
    return slots_held() > 1 || !departed_.is_empty();
  }
  /// Slabs that were dropped are still mapped by readers that may hold the producer up.
  [[nodiscard]] bool awaits_slabs() const noexcept { return slabs_.awaits_return(who_block()); }
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
  template <class Visit>
  void for_each_attached(Visit visit) {
    for (const auto& reader : readers_) visit(reader->attached());
    departed_.for_each_attached(visit);
  }
  void find_only() noexcept;
  void reclaim(Reader& reader) noexcept;
  void cut(Reader& reader, Code code, std::string why);
  void give(Reader& reader, const MessageRecord& record);
  void hand_over_kept(Reader& reader);
  [[nodiscard]] bool may_have(Reader& reader, const MessageHeader& message);
  void take_back_surplus(Reader& reader);
  void take_back_oldest(Reader& reader);
  [[nodiscard]] bool leaves_slots() const noexcept;
  [[nodiscard]] bool take_back_for_slots(Reader& reader);
  void cut_liar(Reader& reader);
  [[nodiscard]] bool needs(const Reader& reader, const MessageHeader& header) const noexcept;
  [[nodiscard]] bool look_at(Reader& reader);
  void note_missed(const Reader& reader);
  void keep_for_successor(const Reader& reader);
  void depart(std::unique_ptr<Reader> reader, bool confirmed);
  void retire_the_cut();
  void let_go_of_unread(Reader& reader);
  void keep_history(const Outgoing& message, Slot* slot);
  void forget_oldest();  ///< Of the history.
  [[nodiscard]] std::uint64_t charged() const noexcept;
  [[nodiscard]] std::uint64_t who_block() const noexcept;
  [[nodiscard]] bool is_exhausted_but_for(const Reader* missing) const noexcept;
  void find_who_holds_up(ChannelStatus& status) const;
  [[nodiscard]] unsigned free_index() const noexcept;
  [[nodiscard]] std::vector<std::uint32_t> slabs_of_kept() const;
  [[nodiscard]] bool tell_at_last(Reader& reader, const Slot& slot);

  mutable std::mutex mutex_;
  SharedFd event_;  // of the sender that sleeps
  AnnouncedSlabs slabs_;
  Limits limits_;
  SlotTable slots_;
  std::vector<std::unique_ptr<Reader>> readers_;
  Reader* only_ = nullptr;  // that one, when it is alone, blocks, and there is no history
  bool any_cut_ = false;    // of readers_
  DepartedReaders departed_;
  unsigned last_id_ = 0;
  std::deque<MessageRecord> backlog_;
  std::deque<MessageRecord> history_;
  std::uint64_t number_ = 0;
  bool ended_ = false;
  bool anyone_came_ = false;
  std::optional<Error> lost_;
  MakerProcess maker_;
};

}  // namespace gantry
