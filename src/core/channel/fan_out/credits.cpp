#include "core/channel/fan_out/credits.hpp"

#include <algorithm>
#include <bit>

#include "core/base/clock.hpp"
#include "core/channel/status/status_text.hpp"
#include "core/channel/wire/metrics_page.hpp"

namespace gantry {
namespace {

/// One moment from which ages are measured.
struct Clock {
  double ns_per_tick;
  std::uint64_t ticks = read_ticks();
  std::uint64_t ns = monotonic_ns();

  [[nodiscard]] std::chrono::nanoseconds since_ticks(std::uint64_t then) const noexcept {
    const auto passed = static_cast<double>(ticks - std::min(ticks, then)) * ns_per_tick;
    return std::chrono::nanoseconds(static_cast<std::int64_t>(passed));
  }
  [[nodiscard]] std::chrono::nanoseconds since_ns(std::uint64_t then) const noexcept {
    return std::chrono::nanoseconds(static_cast<std::int64_t>(ns - std::min(ns, then)));
  }
};

std::vector<HeldSlot> held_by(const ConsumerState& consumer, const SlotTable& slots,
                              const Clock& clock) {
  std::vector<HeldSlot> held;
  const std::uint64_t unread = consumer.oldest_unread();
  for_each_bit(consumer.holds(), [&](std::size_t index) {
    const Slot& slot = slots[index];
    held.push_back({slot.number, slot.bytes, clock.since_ticks(slot.ticks), slot.number < unread});
  });
  std::ranges::sort(held, {}, &HeldSlot::message);
  return held;
}

ConsumerStatus status_of(const ConsumerState& consumer, const SlotTable& slots,
                         const Clock& clock) {
  const ConsumerResources& resources = consumer.resources();
  ConsumerStatus status;
  status.pid = resources.pid;
  status.who = decode_name(resources.page().who);
  status.uid = resources.uid;
  status.policy = resources.policy;
  status.depth = consumer.depth();
  status.unread = consumer.unread();
  status.dropped = consumer.dropped + consumer.taken_back();
  status.is_cut = consumer.is_cut;
  status.joined = clock.since_ns(resources.joined_ns);
  status.held = held_by(consumer, slots, clock);
  status.metrics = MetricsMaker::report(*MetricsMaker::page(resources.metrics), clock.ns_per_tick);
  status.handoffs = MetricsMaker::handoffs(*MetricsMaker::page(resources.metrics));
  // The page may be as wrong as its owner likes, but it can have taken nothing before it came.
  status.idle = status.joined;
  if (status.metrics.idle_ns != 0)
    status.idle = std::chrono::nanoseconds(static_cast<std::int64_t>(
        std::min(status.metrics.idle_ns, static_cast<std::uint64_t>(status.joined.count()))));
  return status;
}

}  // namespace

// Slots that count against the credits; slots of consumers with other policies, and of the history,
// do not.
std::uint64_t Credits::charged() const noexcept {
  if (consumers_.only() != nullptr) return slots_.used();  // I7: nobody else has any
  return slots_.needed_by(kSenderBit | kBacklogBit | consumers_.who_block());
}

bool Credits::may_send(bool needs_slot, Bytes bytes) const noexcept {
  bool anyone = false;
  for (const auto& consumer : consumers_.consumers()) {
    if (consumer->is_cut) continue;
    anyone = true;
    if (consumer->resources().blocks() && consumer->unread() >= limits_.slots) return false;
  }
  if (!anyone && consumers_.kept().backlog() >= limits_.slots) return false;
  if (!needs_slot) return true;
  const std::uint64_t held = charged();
  if (slots_.used() == ~std::uint64_t{0}) return false;
  if (static_cast<unsigned>(std::popcount(held)) >= limits_.slots) return false;
  return limits_.bytes_in_flight == 0 || held == 0 ||
         slots_.bytes_of(held) + bytes <= limits_.bytes_in_flight;
}

// Counts as may_send() does for the smallest message with a slot.
bool Credits::is_exhausted_but_for(const ConsumerState* missing) const noexcept {
  std::uint64_t needed = kSenderBit | kBacklogBit;
  for (const auto& consumer : consumers_.consumers()) {
    if (consumer->is_cut || !consumer->resources().blocks() || consumer.get() == missing) continue;
    if (consumer->unread() >= limits_.slots) return true;
    needed |= consumer->bit();
  }
  const std::uint64_t held = slots_.needed_by(needed);
  if (static_cast<unsigned>(std::popcount(held)) >= limits_.slots) return true;
  return limits_.bytes_in_flight != 0 && held != 0 &&
         slots_.bytes_of(held) >= limits_.bytes_in_flight;
}

// Finds those without which it would go on; if no single one is the reason, all that hold
// something.
void Credits::find_who_holds_up(ChannelStatus& status) const {
  if (!is_exhausted_but_for(nullptr)) return;
  const auto& all = consumers_.consumers();
  bool found = false;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const ConsumerState& consumer = *all[i];
    if (consumer.is_cut || !consumer.resources().blocks() || is_exhausted_but_for(&consumer))
      continue;
    status.consumers[i].holds_up = found = true;
  }
  if (found) return;
  for (std::size_t i = 0; i < all.size(); ++i)
    status.consumers[i].holds_up = !all[i]->is_cut && all[i]->resources().blocks() &&
                                   (all[i]->holds() != 0 || all[i]->unread() != 0);
}

// A small message has no slot; its place in a ring is the credit.
unsigned Credits::credits_used(std::uint64_t charged) const noexcept {
  auto used = static_cast<std::uint64_t>(std::popcount(charged));
  bool anyone = false;
  for (const auto& consumer : consumers_.consumers()) {
    if (consumer->is_cut) continue;
    anyone = true;
    if (consumer->resources().blocks()) used = std::max(used, consumer->unread());
  }
  if (!anyone) used = std::max<std::uint64_t>(used, consumers_.kept().backlog());
  return static_cast<unsigned>(used);
}

void Credits::describe(ChannelStatus& status, double ns_per_tick) const {
  consumers_.refresh();
  const Clock clock{.ns_per_tick = ns_per_tick};
  const std::uint64_t credits = charged();
  status.ended = consumers_.has_ended();
  status.slots = limits_.slots;
  status.slots_held = static_cast<unsigned>(std::popcount(slots_.used()));
  status.slots_charged = credits_used(credits);
  status.slots_sending = static_cast<unsigned>(std::popcount(slots_.needed_by(kSenderBit)));
  status.bytes_in_flight = limits_.bytes_in_flight;
  status.bytes_charged = slots_.bytes_of(credits);
  status.consumers_limit = limits_.consumers;
  status.history_limit = limits_.history;
  status.history = static_cast<unsigned>(consumers_.kept().history());
  status.backlog = consumers_.kept().backlog();
  for (const auto& consumer : consumers_.consumers())
    status.consumers.push_back(status_of(*consumer, slots_, clock));
  find_who_holds_up(status);
  consumers_.departed().describe(
      status.departed, [&clock](std::uint64_t ticks) { return clock.since_ticks(ticks); });
}

std::vector<std::string> Credits::obstacles(bool needs_slot, Bytes bytes) const {
  consumers_.refresh();
  std::vector<std::string> found;
  const auto& lost = consumers_.lost();
  if (lost) found.push_back(fmt::format("for nothing, but fails: {}", lost->message));
  if (may_send(needs_slot, bytes)) return found;
  for (const auto& consumer : consumers_.consumers())
    if (!consumer->is_cut && consumer->resources().blocks() && consumer->unread() >= limits_.slots)
      found.push_back(fmt::format("for consumer {}, which has {} unread and may have no more",
                                  consumer->resources().pid,
                                  count_text(consumer->unread(), "message")));
  if (consumers_.count() == 0 && consumers_.kept().backlog() != 0)
    found.push_back(fmt::format("for a {}: the backlog of {} is full",
                                lost ? "consumer" : "first consumer",
                                count_text(consumers_.kept().backlog(), "message")));
  if (!needs_slot) return found;
  if (const auto only_we = loans_in_the_way(needs_slot, bytes)) {
    found.push_back(fmt::format("for nothing, but fails: {}", only_we->message));
    return found;
  }
  const std::uint64_t held = charged();
  const auto used = static_cast<unsigned>(std::popcount(held));
  if (used >= limits_.slots)
    found.push_back(
        fmt::format("for a slot: {} of {} are in use{}", used, limits_.slots, who_has(held)));
  else if (limits_.bytes_in_flight != 0 && held != 0)
    found.push_back(fmt::format("for memory: {} are in flight, {} may be",
                                bytes_text(slots_.bytes_of(held)),
                                bytes_text(limits_.bytes_in_flight)));
  return found;
}

// Several may have the same slot.
std::string Credits::who_has(std::uint64_t slots) const {
  std::string text;
  const auto add = [&](std::uint64_t of_one, std::string_view whose) {
    if (const int count = std::popcount(slots & of_one); count != 0)
      text += fmt::format(", {} by {}", count, whose);
  };
  add(slots_.lent(), "your loans");
  for (const auto& consumer : consumers_.consumers())
    add(slots_.needed_by(consumer->bit()), fmt::format("consumer {}", consumer->resources().pid));
  add(slots_.needed_by(kHistoryBit), "the history");
  return text;
}

std::optional<Error> Credits::loans_in_the_way(bool needs_slot, Bytes bytes) const {
  const std::uint64_t lent = needs_slot ? slots_.lent() : 0;
  if (lent == 0) return std::nullopt;
  const auto count = static_cast<unsigned>(std::popcount(lent));
  if (count >= limits_.slots)
    return Error{Code::busy, fmt::format("your loans hold all {} slots", limits_.slots),
                 "publish or drop a loan, or raise PayloadOptions::slots"};
  const Bytes most = limits_.bytes_in_flight;
  if (most == 0 || slots_.bytes_of(lent) + bytes <= most) return std::nullopt;
  return Error{Code::busy,
               fmt::format("your loans hold {} of the {} that may be in flight",
                           bytes_text(slots_.bytes_of(lent)), bytes_text(most)),
               "publish or drop a loan, or raise PayloadOptions::bytes_in_flight"};
}

// A message that such a consumer took cannot be taken back, but the wait for it is not certain.
Bytes Credits::yielding_bytes() const noexcept {
  std::uint64_t yielding = kHistoryBit;
  for (const auto& consumer : consumers_.consumers())
    if (consumer->resources().drops_oldest()) yielding |= consumer->bit();
  const std::uint64_t needed = slots_.needed_by(~yielding);
  return slots_.bytes_of(slots_.used() & ~needed) + slots_.spare_bytes();
}

std::uint64_t Credits::untaken() const noexcept {
  std::uint64_t most = consumers_.kept().backlog();
  for (const auto& consumer : consumers_.consumers())
    if (!consumer->is_cut) most = std::max(most, consumer->unread());
  return most;
}

}  // namespace gantry
