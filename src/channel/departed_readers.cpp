#include "channel/departed_readers.hpp"

#include <map>

namespace gantry {

void DepartedReaders::add(std::unique_ptr<Reader> reader, const SlotTable& slots, bool confirmed) {
  Departed departed{std::move(reader), {}, confirmed};
  for_each_bit(departed.reader->holds(),
               [&](std::size_t slot) { departed.memory.emplace_back(slot, slots[slot].share()); });
  Attached& attached = departed.reader->attached();
  attached.pull.reset();                       // its own bell it may still ring, for what it holds
  if (confirmed) attached.connection.reset();  // it sees that we know
  all_.push_back(std::move(departed));
}

void DepartedReaders::confirm(unsigned id) {
  const auto found = std::find_if(all_.begin(), all_.end(), [id](const Departed& one) {
    return one.reader->id() == id && !one.confirmed;
  });
  if (found == all_.end()) return;
  // One whose word cannot be is believed as far as it could be.
  static_cast<void>(found->reader->refresh());
  for (const MessageRecord& record : found->reader->unread_records())
    returns_ += std::erase_if(found->memory, [&](const auto& held) {
      return held.first == record.header.slot && held.second.number == record.header.number;
    });
  found->confirmed = true;
  found->reader->attached().connection.reset();
  static_cast<void>(sweep());
}

bool DepartedReaders::sweep() {
  const std::uint64_t before = returns_;
  const auto gone = std::erase_if(all_, [this](Departed& one) {
    const bool over = one.reader->attached().is_gone();
    returns_ += std::erase_if(one.memory, [&](const auto& held) {
      return over || one.reader->has_released(held.first, held.second.number);
    });
    return one.memory.empty() && one.confirmed;  // who has not confirmed is watched by its socket
  });
  return gone != 0 || returns_ != before;
}

void DepartedReaders::abandon() noexcept {
  for (Departed& one : all_)
    for (auto& [slot, memory] : one.memory) memory.abandon();
}

bool DepartedReaders::holds_forwards() const noexcept {
  return std::any_of(all_.begin(), all_.end(), [](const Departed& one) {
    return std::any_of(one.memory.begin(), one.memory.end(),
                       [](const auto& held) { return !held.second.forwarded.empty(); });
  });
}

bool DepartedReaders::has_full_share(uid_t user, unsigned most) const {
  std::map<uid_t, unsigned> count{{user, 0}};
  for (const Departed& one : all_) ++count[one.reader->attached().uid];
  return count[user] >= std::max<std::size_t>(most / count.size(), 1);
}

}  // namespace gantry
