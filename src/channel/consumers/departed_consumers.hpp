#pragma once  // channel/consumers/departed_consumers.hpp: consumers that are served no more but may
              // still read.

#include <gantry/channel/status.hpp>

#include "channel/consumers/consumer_state.hpp"
#include "channel/consumers/slot_table.hpp"

namespace gantry {

/// What consumers that left, or were cut off, may still read. Their slots are lent again at once;
/// the memory waits here. Under the channel's lock.
///   D1  Memory in here is written by nobody.
///   D2  A consumer that was cut off keeps all that it was given until it confirms, by hanging up,
///       that it takes no more. From then on it keeps what it had taken and not released.
///   D3  What a dead process held stays while anybody has a copy of its wake-up sender. Whoever it
///       forwarded messages to has one for as long as it maps their memory, as has a fork.
class DepartedConsumers {
 public:
  /// Shares what `consumer` holds of `slots`. The caller then takes it off the slots. `confirmed`:
  /// it takes no more, and holds nothing that it has not taken.
  void add(std::unique_ptr<ConsumerState> consumer, const SlotTable& slots, bool confirmed);
  /// The consumer that admission called `id` hung up or died. D2
  void confirm(unsigned id);
  /// Lets go of what was released, and of what nobody is left to read. D3
  /// True: there is news for who waits for memory, or sleeps on their wake-up sockets.
  bool sweep();
  /// Nobody ever gets what is still in here: the channel ends.
  void abandon() noexcept;

  /// Theirs may still be rung, as they release what they hold.
  template <class Visit>
  void for_each_resources(Visit visit) {
    for (Departed& one : all_) visit(one.consumer->resources());
  }
  [[nodiscard]] bool is_empty() const noexcept { return all_.empty(); }
  /// A message that was passed on is among what they may read.
  [[nodiscard]] bool holds_forwards() const noexcept;
  /// Of `most` in here each user that has some, and `user`, may have an equal share: it is used up.
  [[nodiscard]] bool has_full_share(uid_t user, unsigned most) const;
  /// Pieces of memory that came back so far.
  [[nodiscard]] std::uint64_t returns() const noexcept { return returns_; }
  /// `age(ticks)`: how long ago that was.
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
    told.messages = static_cast<unsigned>(one.memory.size());
    for (const auto& [slot, memory] : one.memory) {
      told.bytes += memory.bytes;
      told.age = std::max(told.age, age(memory.ticks));
    }
  }
}

}  // namespace gantry
