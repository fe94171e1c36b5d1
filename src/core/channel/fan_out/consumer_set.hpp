#pragma once  // channel/fan_out/consumer_set.hpp: all consumers of a channel: how they come and
              // go, and what they hold.

#include <poll.h>

#include <gantry/runtime.hpp>
#include <list>
#include <span>

#include "core/base/assert.hpp"
#include "core/channel/fan_out/announced_slabs.hpp"
#include "core/channel/fan_out/beside_places.hpp"
#include "core/channel/fan_out/consumer_state.hpp"
#include "core/channel/fan_out/kept_messages.hpp"
#include "core/channel/fan_out/slot_table.hpp"
#include "core/sync/kept_mutex.hpp"

namespace gantry {

/// What consumers that left, or were cut off, may still read. Their slots are lent again at once;
/// the memory waits here. A slot of whose memory no share could be made, for want of heap, stays
/// theirs meanwhile, as does their bit. Used under the channel's lock.
///   G1  Nobody writes memory in here.
///   G2  A consumer that was cut off keeps all that it was given until it confirms, by hanging up,
///       that it takes no more. From then on it keeps what it had taken and not released.
///       The same holds for places beside records: see may_read().
///   G3  What a dead process held stays while anybody has a copy of its wake-up sender. Whoever it
///       forwarded messages to has one for as long as it maps their memory, as has a fork.
class DepartedConsumers {
  struct Departed {
    std::unique_ptr<ConsumerState> consumer;
    std::vector<std::pair<std::size_t, Slot>> memory;
    std::uint64_t unshared = 0;  // slots, as bits
    bool confirmed = false;
  };

 public:
  /// Consumers that nobody needs any more. Destroying one unmaps memory and closes descriptors,
  /// which takes longer than all that is done under the channel's lock: do it without that lock.
  using Gone = std::list<Departed>;
  explicit DepartedConsumers(SlotTable& slots) noexcept : slots_(slots) {}
  /// Takes shares of what `consumer` holds, and removes it from those slots. `confirmed`: it takes
  /// no more, and holds nothing that it has not taken.
  void add(std::unique_ptr<ConsumerState> consumer, bool confirmed) noexcept;
  /// The consumer with this id hung up or died. G2
  void confirm(unsigned id, Gone& gone);
  /// Drops what was released, and what nobody is left to read. Moves consumers without either to
  /// `gone`. G3
  /// True: there is news for those that wait for memory, or sleep on their wake-up sockets.
  bool sweep(Gone& gone);
  /// True if one of them may still read the place of message `number`.
  [[nodiscard]] bool may_read(std::uint64_t number) const noexcept {
    return std::any_of(all_.begin(), all_.end(), [number](const Departed& one) {
      return one.consumer->may_read(number, one.confirmed);
    });
  }
  /// A consumer that nothing holds: to `gone` at once.
  void drop(std::unique_ptr<ConsumerState> consumer, Gone& gone) noexcept {
    move_to(gone, std::move(consumer), true);
  }
  /// Room for `more` consumers, so that none is forgotten for want of heap.
  void reserve(std::size_t more) {
    while (spare_.size() < more) spare_.emplace_back();
  }
  /// The channel ends: nobody ever gets the memory that is still here.
  void abandon() noexcept;

  /// They may still ring, as they release what they hold.
  template <class Visit>
  void for_each(Visit visit) const {
    for (const Departed& one : all_) visit(*one.consumer);
  }
  [[nodiscard]] bool is_empty() const noexcept { return all_.empty(); }
  /// True if memory may come back from them. One that only looks at a place brings none.
  [[nodiscard]] bool holds_memory() const noexcept {
    return std::any_of(all_.begin(), all_.end(), [](const Departed& one) {
      return !one.memory.empty() || one.unshared != 0;
    });
  }
  /// Visits the slots that are still theirs, and the bit of whose they are.
  template <class Visit>
  void for_each_unshared(Visit visit) const {
    for (const Departed& one : all_)
      for_each_bit(one.unshared, [&](std::size_t slot) { visit(slot, one.consumer->bit()); });
  }
  /// True if they may read a message that was passed on.
  [[nodiscard]] bool holds_forwards() const noexcept;
  /// The most consumers that may have left with messages in hand. Otherwise consumers that join and
  /// leave so again and again would in the end have all memory.
  static constexpr unsigned kMost = 64;
  /// True if `user` has used up its share: each user that has some in here, and `user`, may have an
  /// equal share of kMost. It is let in again only when some of it was released, or died.
  [[nodiscard]] bool has_full_share(uid_t user) const;
  /// Pieces of memory that came back so far.
  [[nodiscard]] std::uint64_t returns() const noexcept { return returns_; }
  /// `age(ticks)`: the time since then.
  template <class Age>
  void describe(std::vector<DepartedStatus>& all, Age age) const;

 private:
  void move_to(Gone& list, std::unique_ptr<ConsumerState> consumer, bool confirmed) noexcept;
  /// Gives back slots that are still its own and of which `is_over(slot, number)`. Returns how
  /// many.
  template <class IsOver>
  [[nodiscard]] std::size_t give_back_unshared(Departed& departed, IsOver is_over) noexcept;

  SlotTable& slots_;
  Gone all_;
  Gone spare_;  // empty
  std::uint64_t returns_ = 0;
};

template <class Age>
void DepartedConsumers::describe(std::vector<DepartedStatus>& all, Age age) const {
  for (const Departed& one : all_) {
    DepartedStatus& told = all.emplace_back();
    told.pid = one.consumer->resources().pid;
    told.who = decode_name(one.consumer->resources().page().who);
    told.messages = static_cast<unsigned>(one.memory.size()) +
                    static_cast<unsigned>(std::popcount(one.unshared));
    for (const auto& [slot, memory] : one.memory) {
      told.bytes += memory.bytes;
      told.age = std::max(told.age, age(memory.ticks));
    }
  }
}

/// The producer's side of its consumers, below the Publisher, which sends to them. The sender or
/// the acceptor calls every member under mutex(); nothing here waits. The Publisher has I2, I4 and
/// I5.
///   I1  A slot is free exactly when no consumer, the sender, the backlog or the history needs it.
///   I3  Nobody writes what a consumer that left or was cut off may still read: see
///       DepartedConsumers.
///   I6  No two consumers share a place or an id; a later consumer has a larger id.
///   I7  is_plain() while there are consumers, all of them block, none is cut, and there is no
///       history. only() is the consumer that is alone then, otherwise null. takes_beside() while
///       is_plain(), there are places, and they are for that many consumers: kBesideReaders.
///   I9  No consumer has more unread messages than its ring has cells.
///   I10 lost() is empty while there is a consumer; any_cut_ is set while a consumer is cut.
class ConsumerSet {
 public:
  struct Limits {
    unsigned slots;
    unsigned consumers;
    unsigned history;
    Bytes bytes_in_flight;
    bool keeps_memory;                       ///< Slots keep small blocks for their next messages.
    std::string_view reader = "consumer";    ///< What errors call whoever reads.
    BesidePlaces::Memory* places = nullptr;  ///< Null: nothing goes beside its record.
  };
  ConsumerSet(const Pool& pool, const Limits& limits)
      : slabs_(pool), limits_(limits), slots_(limits.keeps_memory), kept_(slots_, limits.history) {}
  ~ConsumerSet();
  ConsumerSet(const ConsumerSet&) = delete;
  ConsumerSet& operator=(const ConsumerSet&) = delete;

  [[nodiscard]] KeptMutex& mutex() const noexcept { return mutex_; }

  // ---- consumers come and go: the acceptor

  [[nodiscard]] bool has_place() const noexcept;
  /// Tells the consumer of the slabs, gives it what is kept for it. Then say `ready` to it. Returns
  /// its id for left(). After an error it is as if it had never come, and it was told so; error
  /// `already_exists`: there is no place.
  [[nodiscard]] Result<unsigned> admit(std::unique_ptr<ConsumerResources> resources, Region page);
  using Gone = DepartedConsumers::Gone;
  /// The consumer hung up, or its process died. If it was the last, what it had not taken waits for
  /// the next; without heap, a part of that.
  void left(unsigned id, Gone& gone);
  /// The process of a consumer that hung up earlier died.
  void forget_departed(Gone& gone) {
    if (departed_.sweep(gone)) wake_producer();
  }
  /// The only consumer that was expected never will come.
  void expect_nobody(std::string why);
  /// Tells the consumers, and those that join later, that nothing more is published.
  void end_stream();
  /// Ends every connection: the consumers see the hang-up.
  void hang_up() noexcept;

  // ---- taking in what they did: the sender

  /// Takes in how far the consumers have come; cuts off those whose words are impossible.
  void refresh();
  /// The same for one of them. False: it is cut off.
  [[nodiscard]] bool look_at(ConsumerState& consumer);
  /// Takes back the slots that the consumer has released.
  void reclaim(ConsumerState& consumer) noexcept;
  /// Serves the consumer no longer. Call retire_the_cut() after the round in which it was cut.
  void cut(ConsumerState& consumer, Code code, std::string_view why);
  static constexpr std::string_view kNonsense = "wrote nonsense into its page";
  void retire_the_cut();

  // ---- who they are

  [[nodiscard]] const std::vector<std::unique_ptr<ConsumerState>>& consumers() const noexcept {
    return consumers_;
  }
  [[nodiscard]] unsigned count() const noexcept;  ///< Consumers that have joined.
  [[nodiscard]] bool anyone_came() const noexcept { return anyone_came_; }
  [[nodiscard]] bool is_plain() const noexcept { return is_plain_; }          ///< I7
  [[nodiscard]] ConsumerState* only() const noexcept { return only_; }        ///< I7
  [[nodiscard]] bool takes_beside() const noexcept { return takes_beside_; }  ///< I7
  /// True if all consumers block: a window may wait for them.
  [[nodiscard]] bool all_block() const noexcept;
  [[nodiscard]] std::uint64_t who_block() const noexcept;  ///< As bits.
  /// Why there is no consumer any more; empty while there is one, or before the first.
  [[nodiscard]] const std::optional<Error>& lost() const noexcept { return lost_; }
  /// The last word of the newest consumer, told_why(), if it was one: also before its end is
  /// seen.
  [[nodiscard]] std::optional<Error> hear_trouble();

  // ---- what they share

  [[nodiscard]] const Limits& limits() const noexcept { return limits_; }
  [[nodiscard]] SlotTable& slots() noexcept { return slots_; }
  [[nodiscard]] AnnouncedSlabs& slabs() noexcept { return slabs_; }
  [[nodiscard]] KeptMessages& kept() noexcept { return kept_; }
  [[nodiscard]] const DepartedConsumers& departed() const noexcept { return departed_; }
  [[nodiscard]] bool has_ended() const noexcept { return ended_; }

  // ---- sleeping: see ConsumerWakes

  /// The sender sleeps on `event` until it gives none.
  void sleep_on(SharedFd event) noexcept { event_ = std::move(event); }
  /// Called by another thread of this process when the consumers have changed.
  void wake_producer() const noexcept;
  /// All consumers that may ring, also departed ones.
  template <class Visit>
  void for_each_ringing(Visit visit) {
    for (const auto& consumer : consumers_) visit(*consumer);
    departed_.for_each(visit);
  }

  /// Debug builds only, as GANTRY_CHECK_INVARIANTS. Checks I1 as far as it shows here, I2 of the
  /// backlog, I6, I7, I9 and I10.
  void check_invariants() const noexcept;

 private:
  friend struct InvariantBreaker<ConsumerSet>;

  void find_only() noexcept;
  [[nodiscard]] std::string called(const ConsumerState& consumer) const;
  [[nodiscard]] Error farewell_of(const ConsumerState& consumer);
  [[nodiscard]] unsigned free_index() const noexcept;
  void keep_for_next(ConsumerState& consumer, bool is_honest);
  void depart(std::unique_ptr<ConsumerState> consumer, bool confirmed, Gone& gone) noexcept;

  mutable KeptMutex mutex_;
  SharedFd event_;  // of the sleeping sender
  AnnouncedSlabs slabs_;
  Limits limits_;
  SlotTable slots_;
  KeptMessages kept_;
  std::vector<std::unique_ptr<ConsumerState>> consumers_;
  bool is_plain_ = false;          // I7
  ConsumerState* only_ = nullptr;  // I7
  bool takes_beside_ = false;      // I7
  bool any_cut_ = false;           // of consumers_
  DepartedConsumers departed_{slots_};
  unsigned last_id_ = 0;
  bool ended_ = false;
  bool anyone_came_ = false;
  std::optional<Error> lost_;
  std::optional<Error> trouble_;  // see hear_trouble()
  ForkGuard fork_guard_;
};

/// The wake-up sockets of all consumers, and of those that have left. It has no state of its own:
/// make one where it is needed, under the consumers' mutex().
class ConsumerWakes {
 public:
  explicit ConsumerWakes(ConsumerSet& consumers) noexcept : consumers_(consumers) {}

  /// The descriptors for the sender to sleep on until it calls ConsumerSet::sleep_on({}): `event`,
  /// which wake_producer() rings, and the consumers' wake-up sockets, except those that are muted.
  /// So it sleeps no longer than until_mutes_end().
  [[nodiscard]] std::vector<pollfd> fall_asleep(SharedFd event, std::uint64_t now_ns) const;
  /// Until the first consumer that is muted at `now_ns` is listened to again; `max()`: none is.
  [[nodiscard]] std::chrono::nanoseconds until_mutes_end(std::uint64_t now_ns) const;
  /// Takes in the rings, and refreshes: a consumer that rings for nothing too often is muted. A
  /// wake-up socket whose other end is gone is no longer listened to.
  void drain(std::span<const pollfd> polled, std::uint64_t now_ns) const;
  void drain() const;
  /// Has `watch`, which takes a descriptor and returns a Result<AcceptWatch>, watch all wake-up
  /// sockets; or none. A socket that cannot be watched now is tried again next time.
  template <class Watch>
  void watch(bool wanted, Watch watch) const {
    consumers_.for_each_ringing([&](ConsumerState& consumer) {
      ConsumerResources& one = consumer.resources();
      if (!wanted || one.is_silent) return one.wake_watch.end();
      if (one.wake_watch) return;
      if (auto watched = watch(one.wake_receiver.descriptor()))
        one.wake_watch = std::move(*watched);
    });
  }

 private:
  ConsumerSet& consumers_;
};

}  // namespace gantry
