#pragma once  // channel/consumers/departed_consumers.hpp: consumers that are no longer served but
              // may still read.

#include <gantry/channel/status.hpp>

#include "channel/consumers/consumer_state.hpp"
#include "channel/consumers/slot_table.hpp"

namespace gantry {

/// What consumers that left, or were cut off, may still read. Their slots are lent again at once;
/// the memory waits here. Used under the channel's lock.
///   G1  Nobody writes memory in here.
///   G2  A consumer that was cut off keeps all that it was given until it confirms, by hanging up,
///       that it takes no more. From then on it keeps what it had taken and not released.
///   G3  What a dead process held stays while anybody has a copy of its wake-up sender. Whoever it
///       forwarded messages to has one for as long as it maps their memory, as has a fork.
class DepartedConsumers {
 public:
  /// Takes shares of what `consumer` holds of `slots`. The caller then removes it from the slots.
  /// `confirmed`: it takes no more, and holds nothing that it has not taken.
  void add(std::unique_ptr<ConsumerState> consumer, const SlotTable& slots, bool confirmed);
  /// The consumer with this id hung up or died. G2
  void confirm(unsigned id);
  /// Drops what was released, and what nobody is left to read. G3
  /// True: there is news for those that wait for memory, or sleep on their wake-up sockets.
  bool sweep();
  /// The channel ends: nobody ever gets the memory that is still here.
  void abandon() noexcept;

  /// They may still ring, as they release what they hold.
  template <class Visit>
  void for_each(Visit visit) {
    for (Departed& one : all_) visit(*one.consumer);
  }
  [[nodiscard]] bool is_empty() const noexcept { return all_.empty(); }
  /// True if they may read a message that was passed on.
  [[nodiscard]] bool holds_forwards() const noexcept;
  /// True if `user` has used up its share: each user that has some in here, and `user`, may have an
  /// equal share of `most`.
  [[nodiscard]] bool has_full_share(uid_t user, unsigned most) const;
  /// Pieces of memory that came back so far.
  [[nodiscard]] std::uint64_t returns() const noexcept { return returns_; }
  /// `age(ticks)`: the time since then.
  template <class Age>
  void describe(std::vector<DepartedStatus>& all, Age age) const;

 private:
  struct Departed {
    std::unique_ptr<ConsumerState> consumer;
    std::vector<std::pair<std::size_t, Slot>> memory;
    bool confirmed;
  };

  std::vector<Departed> all_;
  std::uint64_t returns_ = 0;
};

template <class Age>
void DepartedConsumers::describe(std::vector<DepartedStatus>& all, Age age) const {
  for (const Departed& one : all_) {
    DepartedStatus& told = all.emplace_back();
    told.pid = one.consumer->resources().pid;
    told.who = decode_name(one.consumer->resources().page().who);
    told.messages = static_cast<unsigned>(one.memory.size());
    for (const auto& [slot, memory] : one.memory) {
      told.bytes += memory.bytes;
      told.age = std::max(told.age, age(memory.ticks));
    }
  }
}

}  // namespace gantry
