// A producer without a name of its own: it calls an inbox, and again when that is gone.
#include "channel/wait_for_credit.hpp"

namespace gantry {

Result<void> Producer::Impl::call(Deadline deadline) {
  {
    const Lock held = lock();
    if (calling_ || readers_->count() != 0) return {};
  }
  auto socket = find_producer(options_.directory, name_, options_.interrupt_descriptor, deadline);
  if (!socket) {
    Error error = std::move(socket).error();
    if (error.code == Code::timed_out)
      error = named({Code::timed_out, "no inbox appeared in time",
                     "start its owner, and check that both use the same GANTRY_DIR"});
    return tl::unexpected(std::move(error));
  }
  GANTRY_ASSIGN(called_, peer_of(socket->get()));
  {
    const Lock held = lock();
    calling_ = true;
    call_error_.reset();
  }
  doorman_->call(std::move(*socket));
  return {};
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

bool Producer::Impl::is_alone() const {
  const Lock held = lock();
  return readers_->lost().has_value() || call_error_.has_value();
}

void Producer::Impl::call_failed(Error why) {
  const Lock held = lock();
  calling_ = false;
  call_error_ = std::move(why);
  readers_changed();
}

}  // namespace gantry
