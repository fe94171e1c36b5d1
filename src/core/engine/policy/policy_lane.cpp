#include "core/engine/policy/policy_lane.hpp"

#include <algorithm>

#include "core/base/assert.hpp"
#include "core/base/clock.hpp"
#include "core/base/result.hpp"
#include "core/engine/check.hpp"
#include "core/engine/execute.hpp"
#include "core/engine/fault_guard.hpp"

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
    : engine_(std::move(engine)), options_(options), entries_(options.depth) {}

// In a forked child moves on their way are the parent's, and its locks may be held for ever: a lane
// there takes nothing, waits for nothing, and locks nothing.
PolicyLane::~PolicyLane() {
  if (!engine_->is_ours()) return;
  static_cast<void>(wait(Ticket{given()}, Deadline::never(), WaitStrategy::automatic));
  engine_->watcher().remove(*this);
  engine_->forget(*this);
}

// ---- submitting ----------------------------------------------------------------------------

// What most small moves are: a copy while nothing is on its way. Ticket 0: it may have written some
// of the destination, and nobody was told.
inline Ticket PolicyLane::try_copy(const Move& move) noexcept {
  if (!is_sound_copy(move) || !mutex_.try_lock_briefly()) return Ticket{0};
  Ticket ticket{0};
  if (is_idle() && engine_->policy().cache_for(move) == CacheUse::reader_soon &&
      copy_guarded(move.destination, move.source, move.bytes)) [[likely]] {
    if (move.completion != nullptr) note_copied(move);
    counters_.count_alone(CopyEngine::inline_, move.bytes);
    progress_.retire_at_once(Outcome::done);
    ticket = give(1);
  }
  mutex_.unlock_briefly();
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
  if (!mutex_.try_lock_briefly()) return slow_submit({&move, 1}, mode);
  if (!is_idle()) {
    mutex_.unlock_briefly();
    return slow_submit({&move, 1}, mode);
  }
  const CacheUse cache = engine_->policy().cache_for(move);
  Completion unwanted;
  Completion& completion = move.completion != nullptr ? *move.completion : unwanted;
  complete(completion, execute(move, cache), CopyEngine::inline_, cache);
  counters_.count_alone(completion);
  progress_.retire_at_once(completion.outcome);
  const Ticket ticket = give(1);
  mutex_.unlock_briefly();
  return ticket;
}

Result<Ticket> PolicyLane::slow_submit(std::span<const Move> batch, SubmitMode mode) {
  GANTRY_TRY(check_batch(batch, options_.depth));
  for (const Move& move : batch) engine_->consider_calibrating(move.bytes);
  const std::lock_guard submitting(submitting_);
  Lock lock(mutex_);
  GANTRY_TRY(make_room(lock, batch.size()));
  const std::uint64_t first = given() + 1, cancels = cancels_;
  add(batch);
  for (std::size_t i = 0; i < batch.size(); ++i) start(entry(first + i), mode, cancels, lock);
  collect();
  return Ticket{first + batch.size() - 1};
}

Result<void> PolicyLane::make_room(Lock& lock, std::size_t moves) {
  for (;;) {
    collect();
    const std::uint64_t unended = given() - progress_.ended();
    if (unended + moves <= entries_.size()) return {};
    if (options_.full == LaneOptions::Full::refuse)
      return fail(Code::busy, fmt::format("the lane is full: {} moves of {} have not ended",
                                          unended, entries_.size()));
    const Ticket enough{given() + moves - entries_.size()};
    lock.unlock();
    static_cast<void>(wait(enough, Deadline::never(), WaitStrategy::automatic));
    lock.lock();
  }
}

PolicyLane::Entry& PolicyLane::entry(std::uint64_t ticket) const noexcept {
  GANTRY_DEBUG_ASSERT(ticket > progress_.ended() && ticket <= given());  // I1
  return entries_[(ticket - 1) % entries_.size()];
}

void PolicyLane::add(std::span<const Move> batch) noexcept {
  std::uint64_t ticket = given();
  give(batch.size());
  for (const Move& move : batch) {
    Entry& added = entry(++ticket);
    added = {};
    added.move = move;
    engine_->add_load(move.bytes);
  }
}

// Has the move executed, here or by the engine that the policy chooses among those that did not
// refuse this lane, unless cancel() was called since `cancels` was read.
void PolicyLane::start(Entry& entry, SubmitMode mode, std::uint64_t cancels, Lock& lock) noexcept {
  GANTRY_DEBUG_ASSERT(entry.state == State::starting);  // I2
  while (cancels_ == cancels) {
    Move move = entry.move;
    const std::size_t engine = choose(move, mode);
    if (refused_[engine] || (engine == 0 && move.bytes <= kUnitBytes)) {
      entry.completion = completion_of(execute(move, move.cache), CopyEngine::inline_, move.cache);
      entry.state = State::over;
      return;
    }
    move.completion = &entry.completion;
    lock.unlock();
    const auto there = hand_over(engine, move, mode);
    lock.lock();
    if (!there) {  // whatever the reason, this lane no longer uses that engine
      refused_[engine] = true;
      if (there.error().code != Code::out_of_memory) engine_->rule_out(engine);
      continue;
    }
    if (engine != 0) engine_->note_awake();
    entry.there = *there;
    entry.engine = engine;
    entry.state = State::away;
    own_[engine] += move.bytes;
    if (cancels_ != cancels) lanes_[engine]->cancel();  // that cancel() may have come too early
    return;
  }
  entry.completion = not_begun(entry.move, CopyEngine::inline_, Cause::cancelled);
  entry.state = State::over;
}

// An engine that refused gets only what nobody else takes.
std::size_t PolicyLane::choose(Move& move, SubmitMode mode) const noexcept {
  const Policy& policy = engine_->policy();
  move.cache = policy.cache_for(move);
  if (policy.is_small(move, mode)) return 0;
  Situation situation = engine_->situation(move.bytes, mode, own_);
  for (std::size_t i = 0; i < refused_.size(); ++i)
    situation.refused[i] = situation.refused[i] || refused_[i];
  return policy.choose(move, situation);
}

Result<Ticket> PolicyLane::hand_over(std::size_t engine, const Move& move, SubmitMode mode) {
  if (lanes_[engine] == nullptr) {
    GANTRY_ASSIGN(auto opened,
                  engine_->engine(engine).open_lane({entries_.size(), LaneOptions::Full::refuse}));
    Lock lock(mutex_);
    lanes_[engine] = std::move(opened);
    const bool is_watched = is_watched_;
    lock.unlock();
    if (is_watched) GANTRY_TRY(watch(*lanes_[engine]));
  }
  return lanes_[engine]->submit(move, mode);
}

// ---- looking and waiting -------------------------------------------------------------------

bool PolicyLane::is_over(const Entry& entry) const noexcept {
  return entry.state == State::over ||
         (entry.state == State::away &&
          lanes_[entry.engine]->outcome(entry.there) != Outcome::pending);
}

/// Ends moves that are over, and returns how many.
std::size_t PolicyLane::collect() const noexcept {
  std::size_t ended = 0;
  for (; !is_idle() && is_over(entry(progress_.ended() + 1)); ++ended)
    end(entry(progress_.ended() + 1));
  if (ended > 0) progress_.announce();
  return ended;
}

void PolicyLane::end(Entry& entry) const noexcept {
  if (entry.state == State::away) {
    GANTRY_ASSERT(own_[entry.engine] >= entry.move.bytes);
    own_[entry.engine] -= entry.move.bytes;
    if (entry.engine != 0) engine_->note_awake();
  }
  if (entry.move.completion != nullptr) *entry.move.completion = entry.completion;
  engine_->counters().count(entry.completion);
  engine_->counters().add_helper_cpu(entry.completion.helper_cpu_ns);
  engine_->drop_load(entry.move.bytes);
  progress_.retire(entry.completion.outcome);
}

/// The last move up to `ticket` that some lane executes; null: there is none.
const PolicyLane::Entry* PolicyLane::last_away(Ticket ticket) const noexcept {
  for (auto at = static_cast<std::uint64_t>(ticket); at > progress_.ended(); --at)
    if (const Entry& sent = entry(at); sent.state == State::away && !is_over(sent)) return &sent;
  return nullptr;
}

PolicyLane::Lanes PolicyLane::open_lanes() const noexcept {
  Lanes open{};
  std::ranges::transform(lanes_, open.begin(), [](const auto& lane) { return lane.get(); });
  return open;
}

std::size_t PolicyLane::poll() {
  if (!engine_->is_ours()) return 0;
  Lock lock(mutex_);
  const Lanes lanes = open_lanes();
  lock.unlock();
  for (Lane* lane : lanes)
    if (lane != nullptr) lane->poll();
  lock.lock();
  return collect();
}

Outcome PolicyLane::outcome(Ticket ticket) const noexcept {
  if (!progress_.has_ended(ticket)) {
    if (!engine_->is_ours()) return Outcome::failed;
    // A thread that holds the lock does the same.
    if (const Lock lock(mutex_, std::try_to_lock); lock.owns_lock()) collect();
  }
  return progress_.outcome(ticket);
}

Outcome PolicyLane::wait(Ticket ticket, Deadline deadline, WaitStrategy waiting) {
  if (progress_.is_done(ticket)) [[likely]]
    return Outcome::done;
  return slow_wait(ticket, deadline, waiting);
}

Outcome PolicyLane::slow_wait(Ticket ticket, Deadline deadline, WaitStrategy waiting) {
  if (progress_.has_ended(ticket)) return progress_.outcome(ticket);
  if (static_cast<std::uint64_t>(ticket) > given() || !engine_->is_ours()) return Outcome::failed;
  for (;;) {
    Lock lock(mutex_);
    collect();
    if (progress_.has_ended(ticket)) return progress_.outcome(ticket);
    if (deadline.passed()) return Outcome::pending;
    const Entry* const away = last_away(ticket);
    Lane* const lane = away == nullptr ? nullptr : lanes_[away->engine].get();
    const Ticket there = away == nullptr ? Ticket{} : away->there;
    lock.unlock();
    if (lane != nullptr)
      static_cast<void>(lane->wait(there, deadline, waiting));
    else  // another thread hands it over, or executes it
      progress_.sleep(ticket, next_look(deadline));
  }
}

// A move that is being handed over is cancelled by its submitter, who sees the count.
void PolicyLane::cancel() noexcept {
  if (!engine_->is_ours()) return;
  Lock lock(mutex_);
  ++cancels_;
  const Lanes lanes = open_lanes();
  lock.unlock();
  for (Lane* lane : lanes)
    if (lane != nullptr) lane->cancel();
}

// ---- being watched -------------------------------------------------------------------------

Result<void> PolicyLane::watch(Lane& lane) {
  return lane.event_descriptor().and_then(
      [&](int event) { return engine_->watcher().add(event, *this); });
}

// Lanes that are watched end moves without being polled.
void PolicyLane::look() noexcept {
  const Lock lock(mutex_);
  collect();
}

Result<int> PolicyLane::event_descriptor() {
  if (!engine_->is_ours()) return fail_forked();
  Lock lock(mutex_);
  is_watched_ = true;  // lanes opened from now on are watched, too
  const Lanes lanes = open_lanes();
  lock.unlock();
  for (Lane* lane : lanes)
    if (lane != nullptr) GANTRY_TRY(watch(*lane));
  lock.lock();
  collect();                            // what ended before
  return progress_.event_descriptor();  // I4 of LaneProgress
}

Explanation PolicyLane::explain(const Move& move, SubmitMode mode) const {
  if (!engine_->is_ours()) {
    Explanation explanation;
    explanation.reasons.push_back(fail_forked().value().message);
    return explanation;
  }
  Lock lock(mutex_);
  const EngineBytes own = own_;
  lock.unlock();
  return engine_->explain(move, mode, own);
}

}  // namespace gantry
