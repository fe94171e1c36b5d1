#include "remote/calls_side.hpp"

#include "base/result.hpp"
#include "link/turn.hpp"

namespace gantry {

RemoteEnd CallsSide::end(Link& link, const Result<void>& done) {
  RemoteEnd end = end_over(link, done);
  in_.end_transfers(link);
  out_.end_exports();
  return end;
}

Result<void> CallsSide::begin(Link& link, std::uint64_t received) {
  GANTRY_TRY(in_.begin(link, 0));
  return out_.begin(link, received);
}

// Answers are sent on and acknowledged before the next request goes out, so that the service has
// room for its answer.
Result<RemoteSide::Turn> CallsSide::turn(Link& link) {
  const LinkTurn turn(link);
  GANTRY_ASSIGN(const bool has_heard, hear(link));
  if (is_over()) return Turn::over;
  GANTRY_ASSIGN(const bool has_received, in_.step(link, true));
  if (is_over()) return Turn::over;
  GANTRY_ASSIGN(const bool has_sent, out_.step(link));
  return has_heard || has_received || has_sent || turn.has_moved() ? Turn::moved : Turn::idle;
}

Result<bool> CallsSide::hear(Link& link) {
  bool has_heard = false;
  for (;;) {
    GANTRY_ASSIGN(const auto record, next_record(link, buffer_));
    if (!record) {
      GANTRY_ASSIGN(const bool has_landed, in_.take_landed(link));
      return has_heard || has_landed;
    }
    has_heard = true;
    WordReader in(*record);
    const auto kind = static_cast<RemoteKind>(in.number(1));
    const bool is_senders =
        kind == RemoteKind::message || kind == RemoteKind::more || kind == RemoteKind::ended;
    GANTRY_ASSIGN(const bool is_known,
                  is_senders ? in_.take_record(kind, in) : out_.take_record(link, kind, in));
    const bool is_closed = in_.ended() && in_.ended()->code == Code::closed;
    if (!is_known || is_closed)
      return fail(Code::peer_misbehaved, "it says what nobody says in a session of calls");
    if (out_.answer()) return true;
  }
}

// Transfers into memory of in_ have ended when the link is closed.
RemoteEnd CallsSide::end_over(Link& link, const Result<void>& done) {
  const bool link_lives = link.state().has_value();
  if (done && !is_over()) {
    const Error why = stopped_or("the other end was closed");
    return {RemoteEnd::Kind::stopped, end_session(link, RemoteKind::stopped, why).why};
  }
  if (!done && link_lives) return end_session(link, RemoteKind::stopped, done.error());
  link.close();
  if (out_.answer()) return {RemoteEnd::Kind::over, *out_.answer()};
  if (in_.is_done()) return {RemoteEnd::Kind::over, in_.why()};
  return end_of_link(done.error());
}

}  // namespace gantry
