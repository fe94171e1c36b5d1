#include "device/operation.hpp"

#include "base/result.hpp"
#include "device/ordered_queue.hpp"

namespace gantry {

std::string_view to_string(Operation::Kind kind) noexcept {
  switch (kind) {
    case Operation::Kind::copy_in:
      return "copy-in";
    case Operation::Kind::copy_out:
      return "copy-out";
    case Operation::Kind::copy:
      return "copy";
    case Operation::Kind::fill:
      return "fill";
    case Operation::Kind::launch:
      return "launch";
    case Operation::Kind::record:
      return "record";
  }
  return "unknown";
}

// ---- the device ----------------------------------------------------------------------------

Result<void> DeviceCore::state() const {
  if (!is_here())
    return fail(Code::device_lost, fmt::format("{}: opened by the parent of this process", name),
                "open the device after fork()");
  const std::lock_guard lock(mutex);
  if (lost) return tl::unexpected(*lost);
  return {};
}

void DeviceCore::lose(std::string why) noexcept {
  if (!is_here()) return;
  QueueCore::Operations never_begun;  // freed after the lock was let go
  const std::lock_guard lock(mutex);
  if (lost) return;
  lost = Error{Code::device_lost, std::move(why), {}};
  try {
    lost->message = fmt::format("{}: lost: {}", name, lost->message);
    lost->hint = "drop what belongs to it and open it again";
  } catch (const std::bad_alloc&) {
    lost->hint.clear();  // the code says it
  }
  for (QueueCore* queue : queues) queue->give_up(never_begun);
}

// ---- events --------------------------------------------------------------------------------

Result<void> QueuedEvent::ended_how() const {
  if (error_) return tl::unexpected(*error_);
  return {};
}

// In a forked child a thread that does not exist may hold the lock for ever.
Outcome QueuedEvent::outcome() const noexcept {
  if (!core_->is_here()) return Outcome::failed;
  const std::lock_guard lock(core_->mutex);
  if (!ended_) return Outcome::pending;
  return error_ ? Outcome::failed : Outcome::done;
}

Result<void> QueuedEvent::wait(Deadline deadline) {
  if (!core_->is_here()) return core_->state();
  std::unique_lock lock(core_->mutex);
  ++waiters_;
  while (!ended_ && !deadline.passed()) {
    if (deadline.is_never())
      over_.wait(lock);
    else
      over_.wait_for(lock, deadline.left());
  }
  --waiters_;
  if (ended_) return ended_how();
  return fail(Code::timed_out, fmt::format("{}: the deadline passed before its end", core_->name),
              "wait again, cancel the queue, or abandon the device");
}

Result<DeviceTiming> QueuedEvent::timing() const {
  if (!core_->is_here()) return tl::unexpected(core_->state().error());
  const std::lock_guard lock(core_->mutex);
  if (!ended_)
    return fail(Code::busy, fmt::format("{}: not ended yet", core_->name), "wait for it first");
  if (error_) return tl::unexpected(*error_);
  return timing_;
}

void QueuedEvent::end(std::optional<Error> error, const DeviceTiming& timing) noexcept {
  ended_ = true;
  error_ = std::move(error);
  timing_ = timing;
  if (waiters_ != 0) over_.notify_all();
  for (QueueCore* queue : listeners_) queue->wake();
  listeners_.clear();
}

}  // namespace gantry
