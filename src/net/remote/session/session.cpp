#include "net/remote/session/session.hpp"

#include <poll.h>
#include <sched.h>

#include "core/base/assert.hpp"
#include "core/base/event.hpp"
#include "core/base/result.hpp"
#include "net/link/turn.hpp"

namespace gantry {
namespace {

// So long nobody looks after a link whose user may come back.
constexpr std::chrono::milliseconds kRest{1};
// After so many in which a user's thread only waited, run() sleeps until that ends.
constexpr unsigned kQuietRests = 8;
constexpr std::chrono::milliseconds kLongRest{60'000};

}  // namespace

Result<bool> RemoteSpeech::flush(Link& link) {
  bool has_moved = false;
  while (!waiting_.empty()) {
    auto sent = link.send_control(waiting_.front(), Deadline::now());
    if (!sent && sent.error().code == Code::timed_out) return has_moved;
    GANTRY_TRY(std::move(sent));
    waiting_.pop_front();
    has_moved = true;
  }
  return has_moved;
}

Result<std::optional<ConstByteSpan>> next_record(Link& link, ByteSpan buffer) {
  const auto size = link.receive_control(buffer, Deadline::now());
  if (size) return ConstByteSpan(buffer.first(*size));
  if (size.error().code == Code::timed_out) return std::nullopt;
  return tl::unexpected(size.error());
}

Result<bool> RemoteSide::hear(Link& link, std::string_view stranger) {
  for (bool has_heard = false;; has_heard = true) {
    if (has_heard && has_last_word()) return true;
    GANTRY_ASSIGN(const auto record, next_record(link, buffer_));
    if (!record) return has_heard;
    WordReader in(*record);
    const auto kind = in.number(1);
    GANTRY_ASSIGN(const bool is_known, take_record(link, static_cast<RemoteKind>(kind), in));
    if (!is_known)
      return fail(Code::peer_misbehaved,
                  fmt::format("{} (record kind {}, {} bytes)", stranger, kind, record->size()));
  }
}

// A look at a channel that seems to be empty may be cut short, so nothing is to be sent behind two.
void RemoteSide::settle(Link& link) {
  constexpr std::chrono::milliseconds kLook{10};
  constexpr std::chrono::seconds kMost{5};
  const auto began = std::chrono::steady_clock::now();
  for (unsigned idle = 0;;) {
    const auto taken = turn(link);
    if (!taken || *taken == Turn::over) return;
    idle = *taken == Turn::idle ? idle + 1 : 0;
    const auto took = std::chrono::steady_clock::now() - began;
    if (took >= kMost || (idle > 1 && took >= time_to_settle())) return;
    if (idle > 1) sleep_on({link.descriptor()}, kLook);
  }
}

Error read_last_word(WordReader& in) {
  Error error = read_error(in);
  if (error.code == Code::timed_out || error.code == Code::busy || error.code == Code::interrupted)
    error.code = Code::peer_gone;
  return error;
}

RemoteEnd end_of_link(Error why) {
  const bool is_final = why.code == Code::peer_misbehaved || why.code == Code::closed;
  if (why.code == Code::closed) why.code = Code::peer_gone;  // the channel was not ended by that
  return {is_final ? RemoteEnd::Kind::over : RemoteEnd::Kind::broken, std::move(why)};
}

// Behind a piece of payload it takes a moment where little goes into the socket at a time.
void say_last(Link& link, ConstByteSpan record) noexcept {
  constexpr std::chrono::milliseconds kMost{500};
  constexpr std::chrono::milliseconds kLook{10};
  static_cast<void>(link.send_control(record, Deadline::now()));
  const auto* const words = dynamic_cast<const LinkInTurns*>(&link);
  for (const Deadline deadline = Deadline::after(kMost);
       words != nullptr && words->has_words_left() && !deadline.passed();)
    if (!link.poll()) sleep_on({link.descriptor()}, kLook);
}

RemoteEnd end_session(Link& link, RemoteKind kind, Error why) {
  say_last(link, say_error(kind, why));
  link.close();
  return {RemoteEnd::Kind::over, std::move(why)};
}

// ---- the thread of the side ----------------------------------------------------------------

RemoteEnd SharedTurns::run(RemoteSide& side, std::shared_ptr<Link> link, std::uint64_t received) {
  Lock lock(mutex_);
  side_ = &side;
  link_ = link;
  end_.reset();
  const auto done = guarded([&]() -> Result<void> {
    GANTRY_TRY(side.begin(*link, received));
    GANTRY_TRY(work(lock));
    if (settles_ && is_readable(stop_)) side.settle(*link);
    return {};
  });
  side_ = nullptr;  // I1
  link_.reset();
  return side.end(*link, done);
}

Result<void> SharedTurns::work(Lock& lock) {
  for (unsigned turn = 0;; ++turn) {
    GANTRY_CHECK_INVARIANTS(*this);
    if (turn % kRemoteTurns == 0 && is_readable(stop_)) return {};
    rest(lock);
    if (end_) return *end_;
    if (is_driven_) return {};                         // I2: it is to stop
    is_sent_.store(false, std::memory_order_seq_cst);  // [S]; the turn looks for it
    GANTRY_ASSIGN(const Turn taken, side_->turn(*link_));
    if (taken == Turn::over) return {};
    if (taken == Turn::moved) continue;
    GANTRY_ASSIGN(const bool has_lingered, side_->linger(*link_));
    if (!has_lingered && sleep(lock)) return {};
    if (has_lingered) turn = kRemoteTurns - 1;
  }
}

// Sleeps on all that the side waits for, unless others take its turns.
bool SharedTurns::sleep(Lock& lock) {
  if (drives_ != seen_drives_ && side_->may_rest()) return false;  // rest() follows
  const int event = side_->event(*link_);
  const auto patience = side_->patience(*link_);
  is_at_link_ = true;
  lock.unlock();
  const unsigned readable = sleep_on({link_->descriptor(), event, stop_, ring_.get()}, patience);
  if ((readable & 1u << 3) != 0) drain(ring_.get());
  lock.lock();
  is_at_link_ = false;
  return (readable & 1u << 2) != 0;
}

// Returns when it is up to run() to take turns. Whoever has just driven may do so again.
void SharedTurns::rest(Lock& lock) {
  unsigned quiet = 0;
  while (is_driven_ || (drives_ != seen_drives_ && side_->may_rest())) {
    if (end_ || is_readable(stop_)) break;
    quiet = std::exchange(seen_drives_, drives_) == drives_ ? quiet + 1 : 0;
    is_to_ring_ = quiet >= kQuietRests;
    const auto most = is_to_ring_ ? kLongRest : kRest;
    rests_.store(true, std::memory_order_seq_cst);  // [S]
    lock.unlock();
    // What is sent by now is seen to by its sender, or here: one of both sees the other's word.
    const bool must_look = is_sent_.load(std::memory_order_seq_cst);  // [S]
    const unsigned readable = must_look ? 0 : sleep_on({stop_, ring_.get()}, most);
    if ((readable & 1u << 1) != 0) drain(ring_.get());
    rests_.store(false, std::memory_order_seq_cst);
    lock.lock();
    is_to_ring_ = false;
    if (is_sent_.load(std::memory_order_relaxed) && !is_driven_) break;  // under the lock
  }
  seen_drives_ = drives_;
}

// ---- users' threads ------------------------------------------------------------------------

bool SharedTurns::receive(Deadline deadline, int interrupt,
                          const std::function<bool()>& is_there) noexcept {
  if (!ring_ || deadline.passed()) return false;
  Lock lock(mutex_, std::try_to_lock);
  if (!lock || side_ == nullptr || end_ || !side_->may_rest()) return false;
  if (is_there()) return true;  // I5
  ++drives_;
  is_driven_ = true;  // I2
  if (is_at_link_) ring(ring_.get());
  const bool has_received = drive(lock, deadline, interrupt);
  is_driven_ = false;
  const bool may_rest = has_received && side_ != nullptr && side_->may_rest();
  if (std::exchange(is_to_ring_, false) || !may_rest) ring(ring_.get());  // I3, I4
  GANTRY_CHECK_INVARIANTS(*this);
  return has_received;
}

bool SharedTurns::drive(Lock& lock, Deadline deadline, int interrupt) {
  const std::uint64_t before = side_->received();
  const std::shared_ptr<Link> link = link_;  // keeps the descriptor while this sleeps on it
  const SpinTime::Wait wait(spin_);
  const Deadline spin = Deadline::after(spin_.now());
  for (unsigned turn = 1;; ++turn) {
    const auto taken = take_turn();
    if (!taken) return false;
    if (side_->received() != before) return true;
    if (!side_->waits_for_link(*link) || deadline.passed()) return false;
    const bool polls = *taken == Turn::moved || !spin.passed();
    if (!polls) {
      const auto most = std::min<std::chrono::nanoseconds>(deadline.left(), kRemoteRest);
      lock.unlock();
      const unsigned readable = sleep_on({link->descriptor(), interrupt}, most);
      lock.lock();
      if (link_ != link || end_ || (readable & 1u << 1) != 0) return false;
    } else if (*taken == Turn::idle) {
      ::sched_yield();  // the far end may need this CPU
    }
    if (turn % kRemoteTurns == 0 && is_readable(interrupt)) return false;
  }
}

void SharedTurns::has_sent(bool is_small) noexcept {
  if (!ring_) return;
  is_sent_.store(true, std::memory_order_seq_cst);  // [S]
  const Lock lock = is_small ? Lock(mutex_, std::try_to_lock) : Lock();
  const bool may_drive = lock && side_ != nullptr && !end_ && side_->may_rest();
  if (may_drive) {
    is_sent_.store(false, std::memory_order_seq_cst);
    ++drives_;
    if (take_turn() && side_->may_rest()) return;
  }
  // Else run() sees to it; it is only asleep beside the doorbell while it rests.
  if (may_drive || rests_.load(std::memory_order_seq_cst)) ring(ring_.get());  // [S], I3
}

std::optional<RemoteSide::Turn> SharedTurns::take_turn() noexcept {
  GANTRY_DEBUG_ASSERT(side_ != nullptr && !end_);  // I3
  const auto taken = guarded([&] { return side_->turn(*link_); });
  if (taken && *taken != Turn::over) return *taken;
  end_ = taken ? Result<void>() : Result<void>(tl::unexpected(taken.error()));
  return {};
}

void SharedTurns::check_invariants() const noexcept {
  GANTRY_ASSERT((side_ == nullptr) == (link_ == nullptr));  // I1
  GANTRY_ASSERT(!is_to_ring_ || is_driven_);                // I4
}

}  // namespace gantry
