// A producer without a name of its own: it calls an inbox, and again when that is gone; or somebody
// to whom it was given a line.
#include "channel/step.hpp"
#include "channel/wait_for_credit.hpp"

namespace gantry {
Result<void> Producer::Impl::call(Deadline deadline) {
  {
    const Lock held = lock();
    if (calling_ || readers_->count() != 0) return {};
  }
  GANTRY_ASSIGN(Fd socket, find_producer(options_.directory, name_, options_.interrupt_descriptor,
                                         deadline, "inbox"));
  GANTRY_STEP(inbox_found);
  GANTRY_ASSIGN(called_, peer_of(socket.get()));
  GANTRY_ASSIGN(called_life_, peer_pidfd(socket.get(), called_.pid));
  begin_call(Connection(std::move(socket)));
  return {};
}

Result<void> Producer::Impl::call_over(ReceivedFd line, const PeerIdentity& whom) {
  GANTRY_ASSIGN(ReceivedFd mouth, adopt_line(std::move(line), whom));
  called_ = whom;
  GANTRY_ASSIGN(LinePair own, make_line());
  // Where nobody can be told any more the listener's hello will fail, too.
  static_cast<void>(say_line(mouth.get(), own.theirs.get()));
  Connection connection(std::move(own.ours));
  connection.speak_through(std::move(mouth));
  begin_call(std::move(connection));
  return {};
}

void Producer::Impl::begin_call(Connection connection) {
  {
    const Lock held = lock();
    calling_ = true;
    call_error_.reset();
  }
  listener_->call(std::move(connection));
}

Result<void> Producer::Impl::wait_for_inbox(Deadline deadline) {
  constexpr int kTries = 3;  // it may end between our call and its answer; then its successor
  for (int attempt = 1;; ++attempt) {
    GANTRY_TRY(call(deadline));
    Lock held = lock();
    GANTRY_TRY(wait_until(
        held, deadline, [this] { return readers_->count() != 0 || !calling_; }, Lost::is_fine));
    if (readers_->count() != 0) return {};
    const bool left_again = !call_error_;
    const bool is_gone = left_again || call_error_->code == Code::peer_gone;
    if (is_gone && attempt < kTries && !deadline.passed()) continue;
    return tl::unexpected(
        named(left_again ? Error{Code::peer_gone, "the inbox left again", ""} : *call_error_));
  }
}

// Under the lock, as all that goes over that socket.
Result<void> Producer::Impl::send_line(int line) {
  const Lock held = lock();
  for (const auto& reader : readers_->readers())
    if (!reader->is_cut) return say_line(reader->attached().connection.mouth(), line);
  return tl::unexpected(named({Code::peer_gone, "the inbox left again", ""}));
}

bool Producer::Impl::is_alone() const {
  const Lock held = lock();
  return readers_->lost().has_value() || call_error_.has_value();
}

void Producer::Impl::call_failed(const Error& why) {
  const Lock held = lock();
  calling_ = false;
  call_error_ = why;
  // A line leads to one process: there will be nobody to make room for who waits for that.
  if (reach_ == Reach::answers)
    readers_->expect_nobody(
        fmt::format("process {} did not take its line: {}", called_.pid, why.message));
  readers_changed();
}

}  // namespace gantry
