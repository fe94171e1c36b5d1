#include "core/channel/fan_out/consumer_set.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <map>

#include "core/base/event.hpp"
#include "core/channel/wire/step.hpp"

namespace gantry {
namespace {

// A streamed message can be repeated only if its window holds all of it. Otherwise its sender,
// which waits for the window, is told when nobody else has it either.
void note_missed(const ConsumerState& consumer, SlotTable& slots) {
  consumer.for_each_unread([&](const MessageRecord& record) {
    if (outgrew_window(record) && needs(consumer, slots, record.header))
      slots[record.header.slot].was_missed = true;
  });
}

// It says itself that it takes no more, so it knows nothing of what it had not taken.
void let_go_of_unread(ConsumerState& consumer, SlotTable& slots) {
  consumer.for_each_unread([&](const MessageRecord& record) {
    if (!needs(consumer, slots, record.header)) return;
    slots.remove(record.header.slot, consumer.bit());
    consumer.let_go(record.header.slot);
  });
}

}  // namespace

// Consumers may read what they still hold for as long as they like: nobody else gets that memory. A
// fork's copy knows nothing of it, and the connection is the parent's.
ConsumerSet::~ConsumerSet() {
  if (!fork_guard_.is_this()) return;
  // Without heap, what they released since the last look is abandoned with the rest.
  static_cast<void>(guarded([this]() -> Result<void> {
    refresh();
    return {};
  }));
  for (const auto& consumer : consumers_)
    for_each_bit(consumer->holds(), [&](std::size_t slot) { slots_[slot].abandon(); });
  departed_.for_each_unshared([&](std::size_t slot, auto) { slots_[slot].abandon(); });
  departed_.abandon();
}

// ---- consumers come and go -------------------------------------------------------------------

bool ConsumerSet::has_place() const noexcept {
  return count() < limits_.consumers && free_index() < kMaxConsumers;
}

unsigned ConsumerSet::free_index() const noexcept {
  std::uint64_t taken = 0;
  for (const auto& consumer : consumers_) taken |= consumer->bit();
  departed_.for_each_unshared([&](auto, std::uint64_t bit) { taken |= bit; });
  return static_cast<unsigned>(std::countr_one(taken));
}

Result<unsigned> ConsumerSet::admit(std::unique_ptr<ConsumerResources> resources, Region page) {
  const int socket = resources->connection.send_fd();
  if (!has_place()) {
    refuse(socket, Code::already_exists);
    return fail(Code::already_exists, "there is a consumer already");
  }
  const unsigned index = free_index();
  departed_.reserve(consumers_.size() + 1);
  slabs_.add(index, socket);
  if (auto told = slabs_.introduce(index, kept_.slabs()); !told) {
    slabs_.remove(index);
    tell_own_trouble(socket, told.error().code);
    return tl::unexpected(std::move(told).error());
  }
  GANTRY_STEP(slabs_introduced);
  auto consumer = std::make_unique<ConsumerState>(++last_id_, index, std::move(resources),
                                                  std::move(page), limits_.slots);
  // A message for which the sender has taken a slot comes without asking, and must find its
  // cell. I9
  const auto coming = static_cast<std::size_t>(std::popcount(slots_.needed_by(kSenderBit)));
  kept_.hand_over(*consumer, cells_for(limits_.slots) - coming);
  GANTRY_STEP(kept_handed_over);
  if (ended_) consumer->end_stream();
  consumers_.push_back(std::move(consumer));
  find_only();
  anyone_came_ = true;
  lost_.reset();
  trouble_.reset();
  GANTRY_CHECK_INVARIANTS(*this);
  return last_id_;
}

void ConsumerSet::left(unsigned id, Gone& gone) {
  const auto found = std::find_if(consumers_.begin(), consumers_.end(),
                                  [id](const auto& consumer) { return consumer->id() == id; });
  if (found == consumers_.end()) return departed_.confirm(id, gone);
  std::unique_ptr<ConsumerState> consumer = std::move(*found);
  consumers_.erase(found);
  slabs_.remove(consumer->index());
  find_only();
  const bool is_honest = consumer->refresh();
  reclaim(*consumer);
  note_missed(*consumer, slots_);
  if (count() == 0) {
    try {
      keep_for_next(*consumer, is_honest);
    } catch (const std::bad_alloc&) {  // what it holds goes back, heap or not
      if (!lost_) lost_ = Error{Code::peer_gone, "it is gone", ""};
    }
  }
  let_go_of_unread(*consumer, slots_);
  if (consumer->resources().is_gone()) {
    for_each_bit(consumer->holds(),
                 [&](std::size_t slot) { slots_.remove(slot, consumer->bit()); });
    departed_.drop(std::move(consumer), gone);
  } else {
    depart(std::move(consumer), true, gone);
  }
  GANTRY_CHECK_INVARIANTS(*this);
}

void ConsumerSet::keep_for_next(ConsumerState& consumer, bool is_honest) {
  if (is_honest) kept_.keep_unread(consumer);
  if (!lost_) lost_ = farewell_of(consumer);
}

// I3
void ConsumerSet::depart(std::unique_ptr<ConsumerState> consumer, bool confirmed,
                         Gone& gone) noexcept {
  if (consumer->holds() != 0 || !confirmed || consumer->looking() != 0)
    departed_.add(std::move(consumer), confirmed);
  else
    departed_.drop(std::move(consumer), gone);
  GANTRY_STEP(consumer_departed);
}

void ConsumerSet::cut(ConsumerState& consumer, Code code, std::string_view why) {
  consumer.is_cut = any_cut_ = true;
  find_only();
  consumer.resources()
      .connection.stop_sending();  // it answers by hanging up, after it has read its ring
  if (count() == 0) lost_ = Error{code, fmt::format("{} {}", called(consumer), why), ""};
}

void ConsumerSet::retire_the_cut() {
  if (!std::exchange(any_cut_, false)) return;
  Gone none;  // each has yet to confirm
  for (std::size_t i = consumers_.size(); i-- > 0;) {
    if (!consumers_[i]->is_cut) continue;
    std::unique_ptr<ConsumerState> consumer = std::move(consumers_[i]);
    consumers_.erase(consumers_.begin() + static_cast<std::ptrdiff_t>(i));
    slabs_.remove(consumer->index());
    find_only();
    note_missed(*consumer, slots_);
    depart(std::move(consumer), false, none);
  }
}

void ConsumerSet::expect_nobody(std::string why) {
  if (count() == 0 && !lost_) lost_ = Error{Code::peer_gone, std::move(why), ""};
  GANTRY_CHECK_INVARIANTS(*this);
}

void ConsumerSet::end_stream() {
  if (ended_) return;
  ended_ = true;
  for (const auto& consumer : consumers_) consumer->end_stream();
  GANTRY_STEP(end_stored);
}

void ConsumerSet::hang_up() noexcept {
  for (const auto& consumer : consumers_) consumer->resources().connection.hang_up();
  GANTRY_STEP(hung_up);
}

void ConsumerSet::wake_producer() const noexcept {
  if (event_) ring(event_.get());
}

// ---- taking in what they did -----------------------------------------------------------------

void ConsumerSet::refresh() {
  for (const auto& consumer : consumers_)
    if (!consumer->is_cut) static_cast<void>(look_at(*consumer));
  retire_the_cut();
  slabs_.keep_up();
  if (Gone gone; !departed_.is_empty()) forget_departed(gone);
  slots_.refresh_lends();
  GANTRY_CHECK_INVARIANTS(*this);
}

bool ConsumerSet::look_at(ConsumerState& consumer) {
  const bool is_honest = consumer.refresh() && (!slabs_.is_unheard(consumer.index()) ||
                                                slabs_.heard(consumer.index(), consumer.heard()));
  if (is_honest)
    reclaim(consumer);
  else
    cut(consumer, Code::peer_misbehaved, kNonsense);
  return !consumer.is_cut;
}

void ConsumerSet::reclaim(ConsumerState& consumer) noexcept {
  for_each_bit(consumer.holds(), [&](std::size_t slot) {
    if (!consumer.has_released(slot, slots_[slot].number)) return;
    consumer.let_go(slot);
    slots_.remove(slot, consumer.bit());
  });
}

// ---- who they are ----------------------------------------------------------------------------

unsigned ConsumerSet::count() const noexcept {
  return static_cast<unsigned>(
      std::count_if(consumers_.begin(), consumers_.end(),
                    [](const auto& consumer) { return !consumer->is_cut; }));
}

bool ConsumerSet::all_block() const noexcept {
  return std::all_of(consumers_.begin(), consumers_.end(), [](const auto& consumer) {
    return consumer->is_cut || consumer->resources().blocks();
  });
}

std::uint64_t ConsumerSet::who_block() const noexcept {
  std::uint64_t consumers = 0;
  for (const auto& consumer : consumers_)
    if (consumer->resources().blocks()) consumers |= consumer->bit();
  return consumers;
}

void ConsumerSet::find_only() noexcept {
  is_plain_ = !consumers_.empty() && limits_.history == 0;
  for (const auto& consumer : consumers_)
    is_plain_ = is_plain_ && !consumer->is_cut && consumer->resources().blocks();
  only_ = is_plain_ && consumers_.size() == 1 ? consumers_.front().get() : nullptr;
  takes_beside_ = is_plain_ && limits_.places != nullptr && consumers_.size() <= kBesideReaders;
}

std::string ConsumerSet::called(const ConsumerState& consumer) const {
  return fmt::format("the {} (process {})", limits_.reader, consumer.resources().pid);
}

// A consumer without descriptors or memory lives, and nobody who comes again gets on.
Error ConsumerSet::farewell_of(const ConsumerState& consumer) {
  if (!trouble_) trouble_ = told_why(consumer.resources().connection.receive_fd());
  const Error why = trouble_.value_or(Error{Code::peer_gone, "is gone", ""});
  return {why.code, fmt::format("{} {}", called(consumer), why.message), why.hint};
}

std::optional<Error> ConsumerSet::hear_trouble() {
  if (consumers_.size() == 1) static_cast<void>(farewell_of(*consumers_.front()));
  return trouble_;
}

// I3 is about sequences of steps.
#ifndef NDEBUG
void ConsumerSet::check_invariants() const noexcept {
  std::array<std::uint64_t, kMaxSlots> who_needs{};
  std::uint64_t places = 0;
  unsigned last_id = 0;
  bool any_cut = false;
  for (const auto& consumer : consumers_) {
    const std::uint64_t bit = consumer->bit();
    GANTRY_ASSERT(consumer->index() < kMaxConsumers && (places & bit) == 0);  // I6
    GANTRY_ASSERT(consumer->id() > last_id && consumer->id() <= last_id_);    // I6
    GANTRY_ASSERT(consumer->unread() <= cells_for(limits_.slots));            // I9
    places |= bit;
    last_id = consumer->id();
    any_cut |= consumer->is_cut;
    for_each_bit(consumer->holds(), [&](std::size_t slot) { who_needs[slot] |= bit; });
  }
  departed_.for_each_unshared([&](std::size_t slot, std::uint64_t bit) {
    GANTRY_ASSERT((places & bit) == 0);  // I6
    who_needs[slot] |= bit;
  });
  kept_.check_invariants();
  constexpr std::uint64_t kOthers = kSenderBit | kBacklogBit | kHistoryBit;
  for (std::size_t slot = 0; slot < kMaxSlots; ++slot)
    GANTRY_ASSERT((slots_[slot].consumers & ~kOthers) == who_needs[slot]);  // I1
  GANTRY_ASSERT(kept_.backlog() == 0 || consumers_.empty());                // I2
  GANTRY_ASSERT(any_cut_ == any_cut);                                       // I10
  const bool is_plain = !consumers_.empty() && !any_cut && all_block() && limits_.history == 0;
  GANTRY_ASSERT(is_plain_ == is_plain);  // I7
  GANTRY_ASSERT(only_ ==
                (is_plain && consumers_.size() == 1 ? consumers_.front().get() : nullptr));  // I7
  GANTRY_ASSERT(takes_beside_ == (is_plain && limits_.places != nullptr &&
                                  consumers_.size() <= kBesideReaders));  // I7
  GANTRY_ASSERT(!lost_ || count() == 0);                                  // I10
}
#endif

// ---- departed consumers ----------------------------------------------------------------------

void DepartedConsumers::add(std::unique_ptr<ConsumerState> consumer, bool confirmed) noexcept {
  ConsumerResources& resources = consumer->resources();
  resources.wake_sender.reset();  // it may still ring its own wake-up socket, for what it holds
  if (confirmed) resources.connection.reset();  // it sees that we know
  move_to(all_, std::move(consumer), confirmed);
  Departed& departed = all_.back();
  departed.unshared = departed.consumer->holds();
  const auto share = [&](std::size_t slot) {
    departed.memory.emplace_back(slot, slots_[slot].share());
    departed.unshared &= ~(std::uint64_t{1} << slot);
    slots_.remove(slot, departed.consumer->bit());
  };
  // Without heap the rest stays its own until it gives that back.
  static_cast<void>(guarded([&]() -> Result<void> {
    for_each_bit(departed.unshared, share);
    return {};
  }));
}

void DepartedConsumers::move_to(Gone& list, std::unique_ptr<ConsumerState> consumer,
                                bool confirmed) noexcept {
  GANTRY_ASSERT(!spare_.empty());  // reserve()
  list.splice(list.end(), spare_, spare_.begin());
  list.back().consumer = std::move(consumer);
  list.back().confirmed = confirmed;
}

void DepartedConsumers::confirm(unsigned id, Gone& gone) {
  const auto found = std::find_if(all_.begin(), all_.end(), [id](const Departed& one) {
    return one.consumer->id() == id && !one.confirmed;
  });
  if (found == all_.end()) return;
  // Impossible words are believed as far as they are possible.
  static_cast<void>(found->consumer->refresh());
  found->consumer->for_each_unread([&](const MessageRecord& record) {
    const auto is_it = [&](std::size_t slot, std::uint64_t number) {
      return slot == record.header.slot && number == record.header.number;
    };
    returns_ += std::erase_if(
        found->memory, [&](const auto& held) { return is_it(held.first, held.second.number); });
    returns_ += give_back_unshared(*found, is_it);
  });
  found->confirmed = true;
  found->consumer->resources().connection.reset();
  static_cast<void>(sweep(gone));
}

template <class IsOver>
std::size_t DepartedConsumers::give_back_unshared(Departed& departed, IsOver is_over) noexcept {
  const std::uint64_t before = departed.unshared;
  for_each_bit(before, [&](std::size_t slot) {
    if (!is_over(slot, slots_[slot].number)) return;
    departed.unshared &= ~(std::uint64_t{1} << slot);
    slots_.remove(slot, departed.consumer->bit());
  });
  return static_cast<std::size_t>(std::popcount(before ^ departed.unshared));
}

bool DepartedConsumers::sweep(Gone& gone) {
  const std::uint64_t before = returns_;
  const std::size_t departed = all_.size();
  for (auto next = all_.begin(); next != all_.end();) {
    const auto at = next++;
    const bool over = at->consumer->resources().is_gone();
    const auto is_over = [&](std::size_t slot, std::uint64_t number) {
      return over || at->consumer->has_released(slot, number);
    };
    const auto released =
        std::erase_if(at->memory,
                      [&](const auto& held) { return is_over(held.first, held.second.number); }) +
        give_back_unshared(*at, is_over);
    returns_ += released;
    at->consumer->note_given_back(released);
    const bool is_done = at->memory.empty() && at->unshared == 0 && at->confirmed &&
                         (over || at->consumer->looking() == 0);
    // Otherwise its socket is watched until it confirms.
    if (is_done) gone.splice(gone.end(), all_, at);
  }
  return all_.size() != departed || returns_ != before;
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

bool DepartedConsumers::has_full_share(uid_t user) const {
  std::map<uid_t, unsigned> count{{user, 0}};
  for (const Departed& one : all_) ++count[one.consumer->resources().uid];
  return count[user] >= std::max<std::size_t>(kMost / count.size(), 1);
}

// ---- sleeping --------------------------------------------------------------------------------

std::vector<pollfd> ConsumerWakes::fall_asleep(SharedFd event, std::uint64_t now_ns) const {
  std::vector<pollfd> entries{{event.get(), POLLIN, 0}};
  consumers_.sleep_on(std::move(event));
  consumers_.for_each_ringing([&](ConsumerState& consumer) {
    const ConsumerResources& one = consumer.resources();
    if (!one.is_silent && !one.wake_limit.is_muted(now_ns))
      entries.push_back({one.wake_receiver.descriptor(), POLLIN, 0});
  });
  return entries;
}

std::chrono::nanoseconds ConsumerWakes::until_mutes_end(std::uint64_t now_ns) const {
  auto left = std::chrono::nanoseconds::max();
  consumers_.for_each_ringing([&](ConsumerState& consumer) {
    const WakeLimit& limit = consumer.resources().wake_limit;
    if (limit.is_muted(now_ns))
      left = std::min(left, std::chrono::nanoseconds(limit.over_ns() - now_ns));
  });
  return left;
}

// Consumers may have come and gone since `polled` was made. One that has gone has no wake-up
// socket, and draining a new one does no harm, since the consumers are looked at next.
void ConsumerWakes::drain(std::span<const pollfd> polled, std::uint64_t now_ns) const {
  GANTRY_DEBUG_ASSERT(!polled.empty());
  if (polled.front().revents != 0) gantry::drain(polled.front().fd);
  const auto has_rung = [polled](const ConsumerState& consumer) {
    return std::any_of(polled.begin() + 1, polled.end(), [&](const pollfd& entry) {
      return entry.revents != 0 && entry.fd == consumer.resources().wake_receiver.descriptor();
    });
  };
  consumers_.for_each_ringing([&](ConsumerState& consumer) {
    ConsumerResources& one = consumer.resources();
    if (has_rung(consumer)) one.is_silent = !one.wake_receiver.drain();
  });
  consumers_.refresh();  // whoever rang has done before what it rang for
  for (const auto& one : consumers_.consumers())
    if (has_rung(*one)) one->note_ring(consumers_.slabs().confirmed(one->index()), now_ns);
  consumers_.departed().for_each([&](ConsumerState& one) {
    if (has_rung(one)) one.note_ring(0, now_ns);
  });
}

void ConsumerWakes::drain() const {
  consumers_.for_each_ringing([](ConsumerState& consumer) {
    ConsumerResources& one = consumer.resources();
    if (!one.is_silent) one.is_silent = !one.wake_receiver.drain();
  });
}

}  // namespace gantry
