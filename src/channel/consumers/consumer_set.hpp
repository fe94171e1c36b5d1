#pragma once  // channel/consumers/consumer_set.hpp: all consumers of a channel, what they may get
              // and hold.

#include <poll.h>

#include <deque>
#include <gantry/channel/status.hpp>
#include <mutex>
#include <span>

#include "base/assert.hpp"
#include "base/clock.hpp"
#include "channel/consumers/announced_slabs.hpp"
#include "channel/consumers/consumer_state.hpp"
#include "channel/consumers/departed_consumers.hpp"
#include "channel/consumers/slot_table.hpp"

namespace gantry {

/// A record of the backlog. `ring`: where its payload lies, if it is beside the record.
struct KeptRecord : MessageRecord {
  std::shared_ptr<const Region> ring;
};

/// The producer's side of its consumers. The sender or the acceptor calls every member under
/// mutex(); nothing here waits.
///   I1  A slot is free exactly when no consumer, the sender, the backlog or the history needs it.
///   I2  A message is in the ring of every consumer that had room for it when it was published. If
///       there was no consumer it is in the backlog, which the next consumer gets whole.
///   I3  Nobody writes what a consumer that left or was cut off may still read: see
///       DepartedConsumers.
///   I4  From a consumer with drop_oldest the oldest messages that it has not taken are taken back,
///       so that it has room for the newest. A slot that it took, or may have taken, stays its own.
///   I5  Consumers that do not block hold together so few slots that the credits remain, or half of
///       all; less by a slot for each one with drop_oldest that has one at most, as long as half of
///       that remains.
///   I6  No two consumers share a place or an id; a later consumer has a larger id.
///   I7  is_plain_ is set while there are consumers, all of them block, none is cut, and there is
///   no
///       history. only_ is the consumer that is alone then, else null: a message goes beside its
///       record only to that one.
///   I8  Backlog and history are in the order of publication, and what they keep of a message is
///       still that message's. The history is no longer than was asked for.
///   I9  No consumer has more unread messages than its ring has cells.
///   I10 lost_ is empty while there is a consumer; any_cut_ is set while a consumer is cut.
class ConsumerSet {
 public:
  struct Limits {
    unsigned slots;
    unsigned consumers;
    unsigned history;
    Bytes bytes_in_flight;
    bool keeps_memory;                     ///< Slots keep small blocks for their next messages.
    std::string_view reader = "consumer";  ///< What errors call whoever reads.
  };
  ConsumerSet(const Pool& pool, const Limits& limits)
      : slabs_(pool), limits_(limits), slots_(limits.keeps_memory) {}
  ~ConsumerSet();
  ConsumerSet(const ConsumerSet&) = delete;
  ConsumerSet& operator=(const ConsumerSet&) = delete;

  [[nodiscard]] std::mutex& mutex() const noexcept { return mutex_; }

  // ---- sleeping

  /// The descriptors for the sender to sleep on until it calls wake_up(): `event`, which
  /// wake_producer() rings, and the consumers' wake-up sockets, except those that are muted. So it
  /// sleeps no longer than until_mutes_end().
  [[nodiscard]] std::vector<pollfd> fall_asleep(SharedFd event, std::uint64_t now_ns);
  /// Until the first consumer that is muted at `now_ns` is listened to again; `max()`: none is.
  [[nodiscard]] std::chrono::nanoseconds until_mutes_end(std::uint64_t now_ns);
  /// Takes in the rings, and refresh()es: one that rings for nothing too often
  /// is muted. A wake-up socket whose other end is gone is no longer listened to.
  void drain_wakes(std::span<const pollfd> polled, std::uint64_t now_ns);
  void drain_wakes();
  void wake_up() noexcept { event_.reset(); }
  /// Called by another thread of this process when the consumers have changed.
  void wake_producer() const noexcept;
  /// Has `watch`, which takes a descriptor and returns a Result<AcceptWatch>, watch all wake-up
  /// sockets; or none. A socket that cannot be watched now is tried again next time.
  template <class Watch>
  void watch_wakes(bool wanted, Watch watch) {
    for_each_resources([&](ConsumerResources& one) {
      if (!wanted || one.is_silent) return one.wake_watch.end();
      if (one.wake_watch) return;
      if (auto watched = watch(one.wake_receiver.descriptor()))
        one.wake_watch = std::move(*watched);
    });
  }

  // ---- consumers come and go: the acceptor

  [[nodiscard]] bool has_place() const noexcept;
  /// Tells the consumer of the slabs, gives it what is kept for it, then says `ready`. Returns its
  /// id for left(). After an error it is as if it had never come.
  [[nodiscard]] Result<unsigned> admit(std::unique_ptr<ConsumerResources> resources, Region page);
  /// The consumer hung up, or its process died. If it was the last, what it had not taken waits for
  /// the next.
  void left(unsigned id);
  /// The most consumers that may have left with messages in hand. Each of their users may have an
  /// equal share of them; a user that has used it up is let in again only when some of it was
  /// released, or died. Otherwise consumers that join and leave so again and again would in the end
  /// have all memory.
  static constexpr unsigned kMostDeparted = 64;
  [[nodiscard]] bool holds_too_much(uid_t user) const {
    return departed_.has_full_share(user, kMostDeparted);
  }
  /// The process of a consumer that hung up earlier died.
  void forget_departed() {
    if (departed_.sweep()) wake_producer();
  }

  // ---- sending

  /// Takes in how far the consumers have come; cuts off those whose words are impossible.
  void refresh();
  /// True if a message may be published, one with `needs_slot` of that many bytes.
  [[nodiscard]] bool may_send(bool needs_slot, Bytes bytes) const noexcept;
  /// True if a message of that many bytes needs no refresh() as long as credits last: looking at
  /// what one consumer has done since costs a small message a tenth of its time, and nobody waits
  /// for copies of theirs. Large ones go into what came back last, as it is in the caches.
  [[nodiscard]] bool may_send_unseen(Bytes bytes) const noexcept {
    return is_plain_ && !lends_ && slots_.keeps() && bytes <= kUnseenUpTo;
  }
  /// Takes a slot, which is the sender's until release(); null when all are in use. See
  /// SlotTable::take().
  [[nodiscard]] Slot* take_slot(Bytes bytes, unsigned turns) noexcept;
  [[nodiscard]] SlotTable& slots() noexcept { return slots_; }
  /// True if somebody, perhaps a consumer that has left, may read a message that was passed on.
  [[nodiscard]] bool holds_forwards() const noexcept {
    return slots_.holds_forwards() || departed_.holds_forwards();
  }
  /// The sender is done with the slot.
  void release(Slot& slot) noexcept;
  [[nodiscard]] AnnouncedSlabs& slabs() noexcept { return slabs_; }
  /// Tells the consumers where the message in `slot` lies. False: some that must not miss it have
  /// to confirm earlier packets first; refresh() sees that. Errors: AnnouncedSlabs::tell().
  [[nodiscard]] Result<bool> announce(const Slot& slot);
  /// Publishes small messages without extras, from the first on, as long as there is room for them
  /// and nothing else to do; then wakes the consumers. Returns how many; for the others use
  /// publish().
  [[nodiscard]] std::size_t try_publish_small(std::span<const ConstByteSpan> payloads,
                                              std::uint32_t type, std::uint64_t user) noexcept {
    if (!is_plain_) return 0;
    std::size_t done = 0;
    for (; done < payloads.size() && all_have_room(); ++done)
      publish_small(payloads[done], type, user);
    if (done != 0)
      for (const auto& consumer : consumers_) consumer->wake();
    GANTRY_CHECK_INVARIANTS(*this);
    return done;
  }
  /// A message that goes beside its record: where, and for whom. Without a place it must go another
  /// way. The memory stays for as long as somebody has it.
  struct BesidePlan {
    ByteSpan place;
    std::shared_ptr<const Region> memory;
    unsigned consumer = 0;
  };
  /// Without a place its ring is full, unless is_alone() is false by now.
  [[nodiscard]] BesidePlan plan_beside();
  /// There is a consumer that messages may go beside their records for.
  [[nodiscard]] bool is_alone() const noexcept { return only_ != nullptr; }
  /// False: the consumers have changed since the plan was made.
  [[nodiscard]] bool try_publish_beside(const BesidePlan& plan, const BesidePayload& payload,
                                        std::uint32_t type, std::uint64_t user) noexcept;
  /// Gives the message its number and puts it into the rings. `slot` null: small.
  void publish(RecordToSend& message, Slot* slot);
  [[nodiscard]] std::uint64_t published() const noexcept { return number_; }
  /// Wakes consumers of a landing message of which more has landed.
  void wake_holders(const Slot& slot) noexcept;
  /// The fewest chunks of it that any of its consumers is done with; nothing when it has no
  /// consumer left.
  [[nodiscard]] std::optional<std::uint64_t> chunks_passed_of(const Slot& slot) const noexcept;
  void end_stream();

  // ---- looking

  [[nodiscard]] unsigned count() const noexcept;  ///< Consumers that have joined.
  /// True if all consumers block: a window may wait for them.
  [[nodiscard]] bool all_block() const noexcept;
  /// Why there is no consumer any more; empty while there is one, or before the first.
  [[nodiscard]] const std::optional<Error>& lost() const noexcept { return lost_; }
  /// The last word of the newest consumer, told_why(), if it was one: also before its end is
  /// seen.
  [[nodiscard]] std::optional<Error> hear_trouble();
  /// The only consumer that was expected never will come.
  void expect_nobody(std::string why) {
    if (count() == 0 && !lost_) lost_ = Error{Code::peer_gone, std::move(why), ""};
    GANTRY_CHECK_INVARIANTS(*this);
  }
  /// True if every consumer took all that it was given, and at least one came: a stream without
  /// messages has an end to be told, too.
  [[nodiscard]] bool all_taken() const noexcept;
  [[nodiscard]] std::uint64_t untaken() const noexcept;
  [[nodiscard]] unsigned slots_held() const noexcept;
  /// Grows whenever memory of messages has gone back to the pool.
  [[nodiscard]] std::uint64_t memory_returns() const noexcept {
    return slots_.freed() + departed_.returns() + slabs_.returned();
  }
  /// When there is no memory for the next message: the history and consumers with drop_oldest give
  /// up older messages, until one frees some memory. False: they have none that would.
  [[nodiscard]] bool take_back_for_memory();
  /// True if others than the sender have messages: their memory may come back while it waits.
  [[nodiscard]] bool awaits_memory() const noexcept {
    return slots_.needed_by(~kSenderBit) != 0 || !departed_.is_empty();
  }
  [[nodiscard]] Bytes lent_bytes() const noexcept { return slots_.bytes_of(slots_.lent()); }
  /// Bytes that nobody need be waited for: kept for a slot's next message, or to be taken back.
  [[nodiscard]] Bytes yielding_bytes() const noexcept;
  /// Why a message of `bytes` cannot have a credit before loans end, which only the caller can do;
  /// empty: others can end its wait.
  [[nodiscard]] std::string who_has(std::uint64_t slots) const;
  [[nodiscard]] std::optional<Error> loans_in_the_way(bool needs_slot, Bytes bytes) const;
  /// True if consumers that may hold the producer up still map dropped slabs.
  [[nodiscard]] bool awaits_slabs() const noexcept { return slabs_.awaits_return(who_block()); }
  [[nodiscard]] const std::vector<std::unique_ptr<ConsumerState>>& consumers() const noexcept {
    return consumers_;
  }
  /// Fills in what ChannelStatus says of consumers, slots and what waits for them.
  void describe(ChannelStatus& status, double ns_per_tick);
  /// What a message of `bytes` in a slot would wait for now, each as "for a slot: ...".
  [[nodiscard]] std::vector<std::string> obstacles(bool needs_slot, Bytes bytes);
  /// Ends every connection: the consumers see the hang-up.
  void hang_up() noexcept;

  /// Debug builds only, as GANTRY_CHECK_INVARIANTS. Checks I1 as far as it shows here, I2 of the
  /// backlog, and I6 to I10.
  void check_invariants() const noexcept;

 private:
  friend struct InvariantBreaker<ConsumerSet>;
  static constexpr Bytes kUnseenUpTo = Bytes{64} << 10;

  template <class Visit>
  void for_each_resources(Visit visit) {
    for (const auto& consumer : consumers_) visit(consumer->resources());
    departed_.for_each([&](ConsumerState& one) { visit(one.resources()); });
  }
  void find_only() noexcept;
  void reclaim(ConsumerState& consumer) noexcept;
  void cut(ConsumerState& consumer, Code code, std::string why);
  void give(ConsumerState& consumer, const MessageRecord& record, const Region* ring);
  void hand_over_kept(ConsumerState& consumer);
  [[nodiscard]] bool may_have(ConsumerState& consumer, const MessageHeader& message);
  void take_back_surplus(ConsumerState& consumer);
  void take_back_oldest(ConsumerState& consumer);
  [[nodiscard]] bool leaves_slots() const noexcept;
  [[nodiscard]] int most_for_others() const noexcept;
  [[nodiscard]] std::uint64_t held_by_others() const noexcept;
  [[nodiscard]] bool may_have_one(const ConsumerState& consumer) const noexcept;
  [[nodiscard]] bool take_back_for_slots(ConsumerState& consumer);
  void cut_liar(ConsumerState& consumer);
  [[nodiscard]] bool needs(const ConsumerState& consumer,
                           const MessageHeader& header) const noexcept;
  [[nodiscard]] bool look_at(ConsumerState& consumer);
  void note_missed(const ConsumerState& consumer);
  [[nodiscard]] std::string called(const ConsumerState& consumer) const;
  [[nodiscard]] Error farewell_of(const ConsumerState& consumer);
  void keep_for_successor(const ConsumerState& consumer);
  void depart(std::unique_ptr<ConsumerState> consumer, bool confirmed);
  void retire_the_cut();
  void let_go_of_unread(ConsumerState& consumer);
  void keep_history(const RecordToSend& message, Slot* slot);
  void forget_oldest();  ///< Of the history.
  [[nodiscard]] std::uint64_t charged() const noexcept;
  [[nodiscard]] unsigned credits_used(std::uint64_t charged) const noexcept;
  [[nodiscard]] std::uint64_t who_block() const noexcept;
  [[nodiscard]] bool is_exhausted_but_for(const ConsumerState* missing) const noexcept;
  void find_who_holds_up(ChannelStatus& status) const;
  [[nodiscard]] unsigned free_index() const noexcept;
  [[nodiscard]] std::vector<std::uint32_t> slabs_of_kept() const;
  [[nodiscard]] bool tell_at_last(ConsumerState& consumer, const Slot& slot);

  [[nodiscard]] bool all_have_room() const noexcept {
    for (const auto& consumer : consumers_)
      if (consumer->unread() >= limits_.slots) return false;
    return true;
  }
  void publish_small(ConstByteSpan payload, std::uint32_t type, std::uint64_t user) noexcept {
    const std::uint64_t number = ++number_;
    const MessageHeader header{.number = number,
                               .ticks = is_timed(kNoSlot, number) ? trace::ticks_and_look() : 0,
                               .user = user,
                               .type = type,
                               .slot = kNoSlot,
                               .kind = static_cast<std::uint8_t>(PayloadLocation::here),
                               .count = static_cast<std::uint8_t>(payload.size())};
    if (only_ != nullptr) return only_->publish_small(payload, header);
    std::array<std::byte, Message::kInlineBytes> body{};
    if (!payload.empty()) std::memcpy(body.data(), payload.data(), payload.size());
    for (const auto& consumer : consumers_) consumer->publish_small(body, header);
  }

  mutable std::mutex mutex_;
  SharedFd event_;  // of the sleeping sender
  AnnouncedSlabs slabs_;
  Limits limits_;
  SlotTable slots_;
  std::vector<std::unique_ptr<ConsumerState>> consumers_;
  bool is_plain_ = false;          // I7
  ConsumerState* only_ = nullptr;  // I7
  bool any_cut_ = false;           // of consumers_
  bool lends_ = false;             // messages may hold memory that somebody else waits for
  DepartedConsumers departed_;
  unsigned last_id_ = 0;
  std::deque<KeptRecord> backlog_;
  std::deque<MessageRecord> history_;
  std::uint64_t number_ = 0;
  bool ended_ = false;
  bool anyone_came_ = false;
  std::optional<Error> lost_;
  std::optional<Error> trouble_;  // see hear_trouble()
  ForkGuard fork_guard_;
};

}  // namespace gantry
