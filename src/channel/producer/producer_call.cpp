// A producer without a name of its own. It calls an inbox, and again when that is gone; or it calls
// somebody over a control connection that it was given.
#include "channel/producer/producer.hpp"
#include "channel/wire/protocol.hpp"
#include "channel/wire/step.hpp"

namespace gantry {
Result<void> Producer::Impl::call(Deadline deadline) {
  {
    const Lock held = core_.lock();
    if (calling_ || core_.consumers->count() != 0) return {};
  }
  GANTRY_ASSIGN(Fd socket, find_producer(core_.options.directory, core_.name,
                                         core_.options.interrupt_descriptor, deadline,
                                         "inbox or server", core_.options.notices));
  GANTRY_STEP(inbox_found);
  GANTRY_ASSIGN(called_, peer_of(socket.get()));
  GANTRY_ASSIGN(called_life_, peer_pidfd(socket.get(), called_.pid));
  begin_call(Connection(std::move(socket)));
  return {};
}

Result<void> Producer::Impl::call_over(ReceivedFd& control, const PeerIdentity& whom) {
  GANTRY_ASSIGN(control, adopt_control_end(std::move(control), whom));
  called_ = whom;
  GANTRY_ASSIGN(ControlPair own, make_control_pair());
  // If nobody can be told any more the listener's hello will fail, too.
  static_cast<void>(send_control_end(control.get(), own.theirs.get()));
  Connection connection(std::move(own.ours));
  connection.send_through(std::move(control));
  begin_call(std::move(connection));
  return {};
}

void Producer::Impl::begin_call(Connection connection) {
  {
    const Lock held = core_.lock();
    calling_ = true;
    call_error_.reset();
  }
  listener_->call(std::move(connection));
}

Result<void> Producer::Impl::wait_for_inbox(Deadline deadline) {
  constexpr int kTries = 3;  // it may end between our call and its answer; then try its successor
  for (int attempt = 1;; ++attempt) {
    GANTRY_TRY(call(deadline));
    Lock held = core_.lock();
    GANTRY_TRY(gate_.wait_until(
        held, deadline, [this] { return core_.consumers->count() != 0 || !calling_; },
        [this]() -> WaitReason {
          const std::string whom = fmt::format("the inbox (process {})", called_.pid);
          return {WaitReason::Kind::consumer, fmt::format("for {} to answer", whom),
                  fmt::format("{} did not answer in time", whom)};
        },
        CreditGate::Lost::is_fine));
    if (core_.consumers->count() != 0) return {};
    const bool left_again = !call_error_;
    const auto& lost = core_.consumers->lost();
    if (left_again && lost && is_own_trouble(lost->code)) return tl::unexpected(core_.named(*lost));
    const bool is_gone = left_again || call_error_->code == Code::peer_gone;
    if (is_gone && attempt < kTries && !deadline.passed()) continue;
    return tl::unexpected(core_.named(
        left_again ? Error{Code::peer_gone, "the inbox left again", ""} : *call_error_));
  }
}

// Under the lock, as everything that uses that socket.
Result<void> Producer::Impl::send_control(int control) {
  const Lock held = core_.lock();
  for (const auto& consumer : core_.consumers->consumers())
    if (!consumer->is_cut)
      return send_control_end(consumer->resources().connection.send_fd(), control);
  return tl::unexpected(core_.named({Code::peer_gone, "the inbox left again", ""}));
}

bool Producer::Impl::is_alone() const {
  const Lock held = core_.lock();
  return core_.consumers->lost().has_value() || call_error_.has_value();
}

std::optional<Error> Producer::Impl::consumers_trouble() const {
  const Lock held = core_.lock();
  return core_.consumers->hear_trouble();
}

void Producer::Impl::call_failed(const Error& why) {
  const Lock held = core_.lock();
  calling_ = false;
  call_error_ = why;
  // A control connection leads to one process: nobody else will come for a waiter to be woken by.
  if (reach_ == Reach::answers)
    core_.consumers->expect_nobody(fmt::format("process {} did not take its control connection: {}",
                                               called_.pid, why.message));
  consumers_changed();
}

}  // namespace gantry
