#include <algorithm>

#include "base/clock.hpp"
#include "channel/consumer/incoming.hpp"
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
  const ClockPair start = counters_->start;
  const double scale = ns_per_tick(start);
  told.name = name_;
  told.producer_pid = producer_pid_;
  told.producer_state = process_state(producer_pid_);
  told.policy = options_.when_slow;
  told.depth = depth_for(told.policy, options_.depth, static_cast<unsigned>(credits_));
  told.unread = must_claim() ? ring_->count_claimable(ring_page().revoked) : ring_->count_ready();
  told.dropped = ring_->missed();
  told.landing = pending_ != nullptr;
  told.producer_gone = gone_;
  const std::uint64_t end = ring_page().end.load(std::memory_order_seq_cst);  // [E]
  told.ended = end != 0;
  told.producer_sleeps = (page().producer_sleeps.read() & 1u) != 0;
  told.held = held_.list(scale);
  told.mapped_bytes = slabs_.mapped_bytes();
  told.spin = spin_.now();
  if (broken_) told.broken = broken_->message;
  told.metrics = MetricsMaker::report(*counters_, scale);
  return told;
}

}  // namespace gantry
