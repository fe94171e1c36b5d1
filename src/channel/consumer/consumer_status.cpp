#include <algorithm>

#include "base/clock.hpp"
#include "base/result.hpp"
#include "channel/consumer/consumer.hpp"
#include "channel/wire/depth.hpp"

// What a consumer tells people. On its own thread.
namespace gantry {

std::vector<HeldSlot> HeldSlots::list(double ns_per_tick) const {
  std::vector<HeldSlot> held;
  const std::uint64_t now = read_ticks();
  for (std::size_t slot = 0; slot < slots_.size(); ++slot) {
    if (!is_held(slot)) continue;
    const Slot& one = slots_[slot];
    const auto age = static_cast<double>(now - std::min(now, one.ticks)) * ns_per_tick;
    held.push_back(
        {one.number, one.bytes, std::chrono::nanoseconds(static_cast<std::int64_t>(age)), true});
  }
  std::ranges::sort(held, {}, &HeldSlot::message);
  return held;
}

// The ring is the producer's: what is seen there is shown, and nothing is decided by it.
ConsumerExplanation Consumer::Impl::explain() const {
  ConsumerExplanation told;
  const ClockPair start = core_.counters->start;
  const double scale = ns_per_tick(start);
  told.name = core_.name;
  told.producer_pid = core_.producer_pid;
  told.producer_state = process_state(core_.producer_pid);
  told.policy = core_.options.when_slow;
  told.depth = depth_for(told.policy, core_.options.depth, static_cast<unsigned>(queue_.credits()));
  told.unread = queue_.unread();
  told.dropped = queue_.missed();
  told.landing = queue_.pending() != nullptr;
  told.producer_gone = core_.producer_gone;
  const std::uint64_t end = core_.ring_page().end.load(std::memory_order_seq_cst);  // [E]
  told.ended = end != 0;
  told.producer_sleeps = producer_sleeps();
  told.held = payloads_.held(scale);
  told.copies_held = queue_.copies_held();
  told.gathered_bytes = payloads_.gathered_bytes();
  told.mapped_bytes = payloads_.mapped_bytes();
  told.registrars = payloads_.registrations();
  told.spin = spin_.now();
  if (core_.broken) told.broken = core_.broken->message;
  told.metrics = MetricsMaker::report(*core_.counters, scale);
  return told;
}

void Consumer::Impl::tell_credits(SenderStatus& sender) const noexcept {
  sender.credits = static_cast<unsigned>(queue_.credits());
  sender.unread = queue_.unread_as_told();
  sender.held = payloads_.held_count();
  sender.waits = producer_sleeps();
}

tl::unexpected<Error> Consumer::Impl::nothing_came() const {
  const std::size_t holds = payloads_.held_count();
  if (holds < queue_.credits())
    return fail(Code::timed_out, fmt::format("channel '{}': no message in time", core_.name));
  return fail(Code::timed_out,
              fmt::format("channel '{}': no message in time: this reader holds {} of the {} that "
                          "may be out",
                          core_.name, holds, queue_.credits()),
              "let go of messages that were received, and of what looks into them; or copy them");
}

}  // namespace gantry
