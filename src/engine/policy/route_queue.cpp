#include "engine/policy/route_queue.hpp"

#include <algorithm>

#include "engine/execute.hpp"

namespace gantry {

RouteQueue::RouteQueue(PolicyEngine& engine, std::size_t depth)
    : engine_(engine), entries_(depth), batch_(depth) {}

// ---- in ------------------------------------------------------------------------------------

Ticket RouteQueue::add_over(const Completion& completion) noexcept {
  counters_.count_alone(completion);
  progress_.retire_at_once(completion.outcome);
  return take_ticket();
}

Ticket RouteQueue::add(std::span<const Move> batch, SubmitMode mode) noexcept {
  std::uint64_t ticket = given();
  Bytes bytes = 0;
  for (const Move& move : batch) {
    Entry& added = entry(++ticket);
    added.move = move;
    added.completion = {};
    added.use = mode;
    added.state = State::waiting;
    added.cancelled = false;
    added.group = batch.size();
    bytes += move.bytes;
  }
  engine_.add_load(bytes);
  given_.store(ticket, std::memory_order_relaxed);  // see given()
  return Ticket{ticket};
}

// ---- on ------------------------------------------------------------------------------------

std::size_t RouteQueue::drive(Lock& lock) noexcept {
  std::size_t ended = 0;
  do ended += collect();
  while (start_next(lock));
  return ended;
}

bool RouteQueue::start_next(Lock& lock) noexcept {
  if (handing_over_ || started_ == given()) return false;  // I2
  Group group = next_group();
  if (entry(group.first).cancelled) {
    end_unbegun(group, Cause::cancelled);
    return true;
  }
  const std::size_t engine = choose(group);
  if (group.refused || (engine == 0 && group.bytes <= kUnitBytes))
    run_here(group);
  else
    hand_over(group, engine, lock);
  return true;
}

RouteQueue::Group RouteQueue::next_group() noexcept {
  Group group{started_ + 1, entry(started_ + 1).group};
  for (std::size_t i = 0; i < group.count; ++i) {
    batch_[i] = entry(group.first + i).move;
    group.bytes += batch_[i].bytes;
  }
  return group;
}

std::size_t RouteQueue::choose(Group& group) noexcept {
  const Policy& policy = engine_.policy();
  const SubmitMode use = entry(group.first).use;
  std::size_t engine = 0;
  if (engine_.is_ours() && !(group.count == 1 && policy.is_small(batch_.front(), use))) {
    Situation situation = engine_.situation(group.bytes, use, own_);
    for (std::size_t i = 0; i < refused_.size(); ++i)
      situation.refused[i] = situation.refused[i] || refused_[i];
    engine = policy.choose({batch_.data(), group.count}, situation).engine;
  }
  for (std::size_t i = 0; i < group.count; ++i) batch_[i].cache = policy.cache_for(batch_[i]);
  group.refused = refused_[engine];  // it only gets what nobody else takes
  return engine;
}

// Executes in the calling thread, under the lock; only for short moves.
void RouteQueue::run_here(const Group& group) noexcept {
  for (std::size_t i = 0; i < group.count; ++i) {
    const Move& move = batch_[i];
    Entry& running = entry(group.first + i);
    running.completion =
        completion_of(execute(move, move.cache, true), CopyEngine::inline_, move.cache);
    running.state = State::over;
  }
  started_ += group.count;
}

void RouteQueue::end_unbegun(const Group& group, Cause cause) noexcept {
  for (std::size_t i = 0; i < group.count; ++i) {
    Entry& unbegun = entry(group.first + i);
    unbegun.completion = not_begun(unbegun.move, CopyEngine::inline_, cause);
    unbegun.state = State::over;
  }
  started_ += group.count;
}

void RouteQueue::hand_over(const Group& group, std::size_t engine, Lock& lock) noexcept {
  for (std::size_t i = 0; i < group.count; ++i)
    batch_[i].completion = &entry(group.first + i).completion;
  const std::uint64_t cancels = cancels_;
  const SubmitMode use = entry(group.first).use;
  handing_over_ = true;  // I2: batch_ and the group's entries are ours until we say otherwise
  lock.unlock();
  const auto last = submit_to(engine, {batch_.data(), group.count}, use, lock);
  handing_over_ = false;
  if (!last) {  // whatever the reason, this lane no longer uses that engine
    refused_[engine] = true;
    if (last.error().code != Code::out_of_memory) engine_.rule_out(engine);
    for (std::size_t i = 0; i < group.count; ++i)
      entry(group.first + i).cancelled = cancels_ != cancels;
    return;
  }
  if (engine != 0) engine_.note_awake();
  mark_away(group, engine, *last);
  if (cancels_ != cancels) lanes_[engine]->cancel();  // it may have come just too early
}

/// Called without the lock, returns with it.
Result<Ticket> RouteQueue::submit_to(std::size_t engine, std::span<const Move> batch,
                                     SubmitMode mode, Lock& lock) {
  const auto locked = [&](Result<Ticket> result) {
    lock.lock();
    return result;
  };
  // Only we write it (I2).
  if (lanes_[engine] == nullptr) {
    auto opened = engine_.engine(engine).open_lane({depth(), LaneOptions::Full::refuse});
    if (!opened) return locked(tl::unexpected(std::move(opened).error()));
    lock.lock();
    lanes_[engine] = std::move(*opened);
    Watched* const by = watched_by_;
    lock.unlock();
    if (by != nullptr)
      if (auto watched = watch(*lanes_[engine], *by); !watched)
        return locked(tl::unexpected(std::move(watched).error()));
  }
  return locked(lanes_[engine]->submit(batch, mode));
}

void RouteQueue::mark_away(const Group& group, std::size_t engine, Ticket last) noexcept {
  for (std::size_t i = 0; i < group.count; ++i) {
    Entry& sent = entry(group.first + i);
    sent.there = Ticket{static_cast<std::uint64_t>(last) - (group.count - 1 - i)};
    sent.engine = static_cast<std::uint8_t>(engine);
    sent.state = State::away;
  }
  own_[engine] += group.bytes;
  started_ += group.count;
}

// ---- out -----------------------------------------------------------------------------------

bool RouteQueue::is_over(const Entry& entry) const noexcept {
  return entry.state == State::over ||
         (entry.state == State::away &&
          lanes_[entry.engine]->outcome(entry.there) != Outcome::pending);
}

std::size_t RouteQueue::collect() noexcept {
  std::size_t ended = 0;
  while (progress_.ended() < started_ && is_over(entry(progress_.ended() + 1))) {
    end(entry(progress_.ended() + 1));
    ++ended;
  }
  if (ended > 0) progress_.announce();
  return ended;
}

void RouteQueue::end(Entry& entry) noexcept {
  if (entry.state == State::away) {
    own_[entry.engine] -= entry.move.bytes;
    if (entry.engine != 0) engine_.note_awake();
  }
  if (entry.move.completion != nullptr) *entry.move.completion = entry.completion;
  engine_.counters().count(entry.completion);
  engine_.counters().add_helper_cpu(entry.completion.helper_cpu_ns);
  engine_.drop_load(entry.move.bytes);
  progress_.retire(entry.completion.outcome);
}

RouteQueue::Away RouteQueue::last_away(Ticket ticket) noexcept {
  std::uint64_t at = std::min(static_cast<std::uint64_t>(ticket), started_);
  for (; at > progress_.ended(); --at)
    if (const Entry& sent = entry(at); sent.state == State::away && !is_over(sent))
      return {lanes_[sent.engine].get(), sent.there};
  return {};
}

// ---- besides -------------------------------------------------------------------------------

void RouteQueue::cancel_waiting() noexcept {
  ++cancels_;
  std::uint64_t ticket = started_ + 1;
  if (handing_over_) ticket += entry(ticket).group;  // those begin; cancel their lane for them
  for (; ticket <= given(); ++ticket) entry(ticket).cancelled = true;
}

RouteQueue::Lanes RouteQueue::open_lanes() const noexcept {
  Lanes open{};
  for (std::size_t i = 0; i < lanes_.size(); ++i) open[i] = lanes_[i].get();
  return open;
}

Result<void> RouteQueue::watch(Lane& lane, Watched& by) {
  return lane.event_descriptor().and_then(
      [&](int event) { return engine_.watcher().add(event, by); });
}

}  // namespace gantry
