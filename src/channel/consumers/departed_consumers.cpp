#include "channel/consumers/departed_consumers.hpp"

#include <map>

namespace gantry {

void DepartedConsumers::add(std::unique_ptr<ConsumerState> consumer, const SlotTable& slots,
                            bool confirmed) {
  Departed departed{std::move(consumer), {}, confirmed};
  for_each_bit(departed.consumer->holds(),
               [&](std::size_t slot) { departed.memory.emplace_back(slot, slots[slot].share()); });
  ConsumerResources& resources = departed.consumer->resources();
  resources.wake_sender.reset();  // it may still ring its own wake-up socket, for what it holds
  if (confirmed) resources.connection.reset();  // it sees that we know
  all_.push_back(std::move(departed));
}

void DepartedConsumers::confirm(unsigned id) {
  const auto found = std::find_if(all_.begin(), all_.end(), [id](const Departed& one) {
    return one.consumer->id() == id && !one.confirmed;
  });
  if (found == all_.end()) return;
  // Impossible words are believed as far as they are possible.
  static_cast<void>(found->consumer->refresh());
  for (const MessageRecord& record : found->consumer->unread_records())
    returns_ += std::erase_if(found->memory, [&](const auto& held) {
      return held.first == record.header.slot && held.second.number == record.header.number;
    });
  found->confirmed = true;
  found->consumer->resources().connection.reset();
  static_cast<void>(sweep());
}

bool DepartedConsumers::sweep() {
  const std::uint64_t before = returns_;
  const auto gone = std::erase_if(all_, [this](Departed& one) {
    const bool over = one.consumer->resources().is_gone();
    const auto released = std::erase_if(one.memory, [&](const auto& held) {
      return over || one.consumer->has_released(held.first, held.second.number);
    });
    returns_ += released;
    one.consumer->note_given_back(released);
    return one.memory.empty() && one.confirmed;  // its socket is watched until it confirms
  });
  return gone != 0 || returns_ != before;
}

void DepartedConsumers::abandon() noexcept {
  for (Departed& one : all_)
    for (auto& [slot, memory] : one.memory) memory.abandon();
}

bool DepartedConsumers::holds_forwards() const noexcept {
  return std::any_of(all_.begin(), all_.end(), [](const Departed& one) {
    return std::any_of(one.memory.begin(), one.memory.end(),
                       [](const auto& held) { return !held.second.forwarded.empty(); });
  });
}

bool DepartedConsumers::has_full_share(uid_t user, unsigned most) const {
  std::map<uid_t, unsigned> count{{user, 0}};
  for (const Departed& one : all_) ++count[one.consumer->resources().uid];
  return count[user] >= std::max<std::size_t>(most / count.size(), 1);
}

}  // namespace gantry
