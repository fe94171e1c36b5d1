#include "engine/policy/policy_lane.hpp"

#include <algorithm>

#include "base/clock.hpp"
#include "base/result.hpp"
#include "engine/check.hpp"
#include "engine/execute.hpp"
#include "engine/fault_guard.hpp"

namespace gantry {
namespace {

// For moves in another thread's hands, which announces their end; this is only a safety net.
constexpr std::uint64_t kLookAgainNs = 1'000'000;

std::uint64_t next_look(Deadline deadline) noexcept {
  const std::uint64_t left =
      deadline.is_never() ? kLookAgainNs : static_cast<std::uint64_t>(deadline.left().count());
  return monotonic_ns() + std::min(left, kLookAgainNs);
}

// As complete() of a copy that ended well.
void note_copied(const Move& move) noexcept {
  Completion& completion = *move.completion;
  completion = {};
  completion.outcome = Outcome::done;
  completion.cache = CacheUse::reader_soon;
  completion.bytes_done = move.bytes;
}

tl::unexpected<Error> fail_forked() {
  return fail(Code::closed, "this lane of the auto engine was opened before fork()",
              "open another one in the child");
}

}  // namespace

PolicyLane::PolicyLane(std::shared_ptr<PolicyEngine> engine, const LaneOptions& options)
    : engine_(std::move(engine)), options_(options), queue_(*engine_, options.depth) {}

// In a forked child moves on their way are the parent's, and its locks may be held for ever: a lane
// there takes nothing, waits for nothing, and locks nothing.
PolicyLane::~PolicyLane() {
  if (!engine_->is_ours()) return;
  close();
  drain();
  engine_->watcher().remove(*this);
  engine_->forget(*this);
}

// ---- submitting ----------------------------------------------------------------------------

// What most small moves are: a copy while nothing is on its way. Ticket 0: it may have written some
// of the destination, and nobody was told.
inline Ticket PolicyLane::try_copy(const Move& move) noexcept {
  if (!is_sound_copy(move) || !queue_.mutex.try_lock_briefly()) return Ticket{0};
  Ticket ticket{0};
  if (!closed_ && queue_.is_idle() && engine_->policy().cache_for(move) == CacheUse::reader_soon &&
      copy_guarded(move.destination, move.source, move.bytes)) [[likely]] {
    if (move.completion != nullptr) note_copied(move);
    ticket = queue_.add_copied(move.bytes);
  }
  queue_.mutex.unlock_briefly();
  return ticket;
}

Result<Ticket> PolicyLane::submit(std::span<const Move> batch, SubmitMode mode) {
  if (!engine_->is_ours()) [[unlikely]]
    return fail_forked();
  if (batch.size() == 1 && batch.front().bytes <= kUnitBytes &&
      engine_->policy().is_small(batch.front(), mode)) [[likely]] {
    if (const Ticket ticket = try_copy(batch.front()); ticket != Ticket{0}) [[likely]]
      return ticket;
    return slow_submit_small(batch.front(), mode);
  }
  return slow_submit(batch, mode);
}

// Only the caller could gain; a page that is missing is found here.
Result<Ticket> PolicyLane::slow_submit_small(const Move& move, SubmitMode mode) {
  GANTRY_TRY(check_move(move));
  if (!queue_.mutex.try_lock_briefly()) return slow_submit({&move, 1}, mode);
  if (closed_ || !queue_.is_idle()) {
    queue_.mutex.unlock_briefly();
    return slow_submit({&move, 1}, mode);
  }
  const CacheUse cache = engine_->policy().cache_for(move);
  Completion unwanted;
  Completion& completion = move.completion != nullptr ? *move.completion : unwanted;
  complete(completion, execute(move, cache, true), CopyEngine::inline_, cache);
  const Ticket ticket = queue_.add_over(completion);
  queue_.mutex.unlock_briefly();
  return ticket;
}

Result<Ticket> PolicyLane::slow_submit(std::span<const Move> batch, SubmitMode mode) {
  GANTRY_TRY(check_batch(batch, options_.depth));
  Bytes bytes = 0;
  for (const Move& move : batch) bytes += move.bytes;
  engine_->consider_calibrating(bytes);
  RouteQueue::Lock lock(queue_.mutex);
  GANTRY_TRY(make_room(lock, batch.size()));
  if (batch.empty()) return Ticket{queue_.given()};
  const Ticket ticket = queue_.add(batch, mode);
  queue_.drive(lock);
  return ticket;
}

Result<void> PolicyLane::make_room(RouteQueue::Lock& lock, std::size_t moves) {
  for (;;) {
    if (closed_) return fail_stopped(engine_->name());
    if (queue_.room() < moves) queue_.drive(lock);
    if (queue_.room() >= moves) return {};
    if (options_.full == LaneOptions::Full::refuse)
      return fail(Code::busy, fmt::format("the lane is full: {} moves of {} have not ended",
                                          queue_.depth() - queue_.room(), queue_.depth()));
    const Ticket enough{queue_.given() + moves - queue_.depth()};
    lock.unlock();
    static_cast<void>(wait(enough, Deadline::never(), WaitStrategy::automatic));
    lock.lock();
  }
}

// ---- looking and waiting -------------------------------------------------------------------

std::size_t PolicyLane::poll() {
  if (!engine_->is_ours()) return 0;
  RouteQueue::Lock lock(queue_.mutex);
  const RouteQueue::Lanes lanes = queue_.open_lanes();
  lock.unlock();
  for (Lane* lane : lanes)
    if (lane != nullptr) lane->poll();
  lock.lock();
  return queue_.drive(lock);
}

Outcome PolicyLane::outcome(Ticket ticket) const noexcept {
  if (!queue_.progress().has_ended(ticket)) {
    if (!engine_->is_ours()) return Outcome::failed;
    // A thread that holds the lock does the same.
    if (const RouteQueue::Lock lock(queue_.mutex, std::try_to_lock); lock.owns_lock())
      queue_.collect();
  }
  return queue_.progress().outcome(ticket);
}

Outcome PolicyLane::wait(Ticket ticket, Deadline deadline, WaitStrategy waiting) {
  if (queue_.progress().is_done(ticket)) [[likely]]
    return Outcome::done;
  return slow_wait(ticket, deadline, waiting);
}

Outcome PolicyLane::slow_wait(Ticket ticket, Deadline deadline, WaitStrategy waiting) {
  LaneProgress& progress = queue_.progress();
  if (progress.has_ended(ticket)) return progress.outcome(ticket);
  if (static_cast<std::uint64_t>(ticket) > queue_.given() || !engine_->is_ours())
    return Outcome::failed;
  for (;;) {
    RouteQueue::Lock lock(queue_.mutex);
    queue_.drive(lock);
    if (progress.has_ended(ticket)) return progress.outcome(ticket);
    if (deadline.passed()) return Outcome::pending;
    const RouteQueue::Away away = queue_.last_away(ticket);
    lock.unlock();
    if (away.lane != nullptr)
      static_cast<void>(away.lane->wait(away.ticket, deadline, waiting));
    else  // another thread hands it over, or executes it
      progress.sleep(ticket, next_look(deadline));
  }
}

void PolicyLane::cancel() noexcept {
  if (!engine_->is_ours()) return;
  RouteQueue::Lock lock(queue_.mutex);
  queue_.cancel_waiting();
  const RouteQueue::Lanes lanes = queue_.open_lanes();
  lock.unlock();
  for (Lane* lane : lanes)
    if (lane != nullptr) lane->cancel();
}

void PolicyLane::close() noexcept {
  const std::lock_guard lock(queue_.mutex);
  closed_ = true;
}

void PolicyLane::drain() noexcept {
  static_cast<void>(wait(Ticket{queue_.given()}, Deadline::never(), WaitStrategy::automatic));
}

// ---- being watched -------------------------------------------------------------------------

// Lanes that are watched end moves without being polled.
void PolicyLane::look() noexcept {
  RouteQueue::Lock lock(queue_.mutex);
  queue_.drive(lock);
}

Result<void> PolicyLane::be_watched() {
  if (!engine_->is_ours()) return fail_forked();
  RouteQueue::Lock lock(queue_.mutex);
  queue_.be_watched(*this);
  const RouteQueue::Lanes lanes = queue_.open_lanes();
  lock.unlock();
  for (Lane* lane : lanes)
    if (lane != nullptr) GANTRY_TRY(queue_.watch(*lane, *this));
  look();  // what ended before
  return {};
}

Result<int> PolicyLane::event_descriptor() {
  GANTRY_TRY(be_watched());
  const RouteQueue::Lock lock(queue_.mutex);  // I4 of LaneProgress
  return queue_.progress().event_descriptor();
}

Explanation PolicyLane::explain(const Move& move, SubmitMode mode) const {
  if (!engine_->is_ours()) {
    Explanation explanation;
    explanation.reasons.push_back(fail_forked().value().message);
    return explanation;
  }
  RouteQueue::Lock lock(queue_.mutex);
  const EngineBytes own = queue_.own();
  lock.unlock();
  return engine_->explain(move, mode, own);
}

}  // namespace gantry
