#include "engine/lane_base.hpp"

#include "base/result.hpp"

namespace gantry {

Outcome LaneBase::wait(Ticket ticket, Deadline deadline, WaitStrategy waiting) {
  if (progress_.has_ended(ticket)) return progress_.outcome(ticket);
  if (static_cast<std::uint64_t>(ticket) > given()) return Outcome::failed;
  // A sleeper that nobody would wake looks up now and then instead.
  if (waiting == WaitStrategy::sleep && !be_watched()) waiting = WaitStrategy::hybrid;
  return waiter_.wait(*this, ticket, deadline, waiting);
}

Result<int> LaneBase::event_descriptor() {
  GANTRY_TRY(be_watched());
  return progress_.event_descriptor();
}

}  // namespace gantry
