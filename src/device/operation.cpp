#include "device/operation.hpp"

#include <algorithm>

#include "core/base/assert.hpp"
#include "core/base/result.hpp"

namespace gantry {

std::string_view to_string(Operation::Kind kind) noexcept {
  static constexpr std::string_view kNames[] = {"copy-in", "copy-out", "copy",
                                                "fill",    "launch",   "record"};
  const auto index = static_cast<std::size_t>(kind);
  return index < std::size(kNames) ? kNames[index] : "unknown";
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

Result<void> EventState::ended_how() const {
  if (error_) return tl::unexpected(*error_);
  return {};
}

// In a forked child a thread that does not exist may hold the lock for ever.
Outcome EventState::outcome() const noexcept {
  if (!core_->is_here()) return Outcome::failed;
  const std::lock_guard lock(core_->mutex);
  if (!ended_) return Outcome::pending;
  return error_ ? Outcome::failed : Outcome::done;
}

Result<void> EventState::wait(Deadline deadline) {
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

Result<DeviceTiming> EventState::timing() const {
  if (!core_->is_here()) return tl::unexpected(core_->state().error());
  const std::lock_guard lock(core_->mutex);
  if (!ended_)
    return fail(Code::busy, fmt::format("{}: not ended yet", core_->name), "wait for it first");
  if (error_) return tl::unexpected(*error_);
  return timing_;
}

void EventState::end(std::optional<Error> error, const DeviceTiming& timing) noexcept {
  GANTRY_DEBUG_ASSERT(!ended_);  // I2 of QueueCore
  ended_ = true;
  error_ = std::move(error);
  timing_ = timing;
  if (waiters_ != 0) over_.notify_all();
  for (QueueCore* queue : listeners_) queue->wake();
  listeners_.clear();
}

namespace {

DeviceTiming::Time now() noexcept {
  return Deadline::Clock::now();
}

std::string describe(const Operation& operation) {
  if (operation.kind == Operation::Kind::launch && operation.kernel != nullptr)
    return fmt::format("launch of '{}'", operation.kernel->name);
  if (operation.rows != 1)
    return fmt::format("{} of {} rows of {} bytes", to_string(operation.kind), operation.rows,
                       operation.size);
  return fmt::format("{} of {} bytes", to_string(operation.kind), operation.size);
}

// Keeps the code, which those that wait for it see, too. Without heap there is only the code.
Error described(const DeviceCore& device, const Operation& operation, Error error) noexcept {
  try {
    error.message = fmt::format("{}: {}: {}", device.name, describe(operation), error.message);
  } catch (const std::bad_alloc&) {
    error.message.clear();
  }
  return error;
}

// The error of an operation that did not begin since another failed: that one's comes first.
Error not_begun_after(Error cause, const Operation& operation) noexcept {
  try {
    cause.message = fmt::format("{} (so {} was not begun)", cause.message, describe(operation));
  } catch (const std::bad_alloc&) {
    cause.hint.clear();  // the cause alone says enough
  }
  return cause;
}

}  // namespace

// What came to its end in time that its device told, or, of the CPU, was seen by its thread.
void QueueCore::trace_end(const Operation& operation, std::string_view kernel) noexcept {
  constexpr auto code_of = [](Operation::Kind kind) {
    return static_cast<std::uint8_t>(static_cast<std::uint8_t>(kind) + 1);
  };
  static_assert(code_of(Operation::Kind::copy_in) ==
                static_cast<std::uint8_t>(trace::QueueWork::copy_in));
  static_assert(code_of(Operation::Kind::record) ==
                static_cast<std::uint8_t>(trace::QueueWork::record));
  trace_.worked({.kind = trace::EventKind::operation,
                 .detail = code_of(operation.kind),
                 .begin = operation.timing.began,
                 .end = operation.timing.ended,
                 .bytes = operation.size * operation.rows,
                 .text = kernel});
}

// ---- submission ----------------------------------------------------------------------------

Result<DeviceEvent> QueueCore::submit(OperationPointer operation) {
  GANTRY_TRY(device_->state());
  if (!operation->is_empty()) GANTRY_TRY(executor_->check(*operation));
  operation->event = std::make_shared<EventState>(device_);
  operation->timing.submitted = now();
  trace::look(operation->timing.submitted);
  DeviceEvent event(operation->event);
  Operations one;
  one.push_back(std::move(operation));
  const std::lock_guard lock(device_->mutex);
  if (device_->lost) return tl::unexpected(*device_->lost);
  one.front()->after.swap(after_);
  for (const auto& before : one.front()->after)
    if (!before->has_ended()) before->listen(this);
  pending_.splice(pending_.end(), one);
  ++unended_;
  // Otherwise the thread is woken at the end of what the operation follows or waits for.
  if (pending_.size() == 1 && is_ready(*pending_.front())) wake();
  return event;
}

Result<void> QueueCore::wait_for(std::shared_ptr<EventState> event) {
  GANTRY_TRY(device_->state());
  const std::lock_guard lock(device_->mutex);
  after_.push_back(std::move(event));
  return {};
}

Result<void> QueueCore::drain(Deadline deadline) {
  if (!device_->is_here()) return device_->state();
  Lock lock(device_->mutex);
  while (unended_ != 0 && !deadline.passed()) {
    if (deadline.is_never())
      idle_.wait(lock);
    else
      idle_.wait_for(lock, deadline.left());
  }
  if (unended_ != 0)
    return fail(
        Code::timed_out,
        fmt::format("{}: the deadline passed with {} operations pending", device_->name, unended_),
        "drain again, cancel the queue, or abandon the device");
  if (device_->lost) return tl::unexpected(*device_->lost);
  if (!failed_) return {};
  Error first = std::move(*failed_);
  failed_.reset();
  return tl::unexpected(std::move(first));
}

void QueueCore::cancel() noexcept {
  if (!device_->is_here()) return;
  Lock lock(device_->mutex);
  for (const Operations* list : {&running_, &pending_})
    for (const OperationPointer& operation : *list) {
      operation->cancelled = true;
      operation->stop.store(true, std::memory_order_relaxed);  // a hint, nothing follows it
    }
  Operations cancelled;
  cancelled.swap(pending_);
  for (const OperationPointer& operation : cancelled)
    operation->result =
        described(*device_, *operation, {Code::interrupted, "cancelled before it began", {}});
  settle(cancelled, lock);
}

// ---- the end of operations -----------------------------------------------------------------

void QueueCore::done(const OperationPointer& operation, std::optional<Error> error) noexcept {
  if (error) error = described(*device_, *operation, std::move(*error));
  const bool is_traced = trace::is_on() && !error;
  trace::ShortText kernel{};
  if (is_traced && operation->kernel != nullptr)
    operation->kernel->name.copy(kernel.data(), kernel.size());
  operation->release();
  if (error && error->code == Code::device_lost) device_->lose(error->message);
  const std::lock_guard lock(device_->mutex);
  if (is_traced) [[unlikely]]
    trace_end(*operation, {kernel.data(), std::ranges::find(kernel, '\0')});
  operation->result = std::move(error);
  operation->done = true;
  retire();
  wake();
}

// Adds operations that never begin, with their results set, behind those that run, so that I1
// holds.
void QueueCore::settle(Operations& never_begun, Lock& lock) noexcept {
  if (never_begun.empty()) return;
  for (const OperationPointer& operation : never_begun) stop_listening(*operation);
  const auto first = never_begun.begin();
  const auto last = std::prev(never_begun.end());
  running_.splice(running_.end(), never_begun);
  lock.unlock();
  // Nobody takes them away or reads them, since they are not done yet.
  for (auto at = first;; ++at) {
    (*at)->release();
    if (at == last) break;
  }
  lock.lock();
  for (auto at = first;; ++at) {
    (*at)->done = true;
    if (at == last) break;  // others may have come behind
  }
  retire();
  wake();
}

void QueueCore::stop_listening(const Operation& operation) noexcept {
  for (const auto& before : operation.after) before->forget(this);
}

void QueueCore::retire() noexcept {
  while (!running_.empty() && running_.front()->done) {
    end(*running_.front());
    running_.pop_front();
  }
  if (unended_ == 0) idle_.notify_all();
}

void QueueCore::end(Operation& operation) noexcept {
  if (operation.event->has_ended()) return;  // I2: the device was lost meanwhile
  // What the device skipped, and what needs no device, fails like the operation before.
  const bool is_follower =
      operation.result ? operation.result->code == Code::aborted : operation.is_empty();
  if (is_follower && failed_) operation.result = why_not(operation);
  if (operation.kind == Operation::Kind::record)
    operation.timing.began = operation.timing.ended = now();
  if (operation.result && !operation.cancelled && !failed_) failed_ = operation.result;
  operation.event->end(std::move(operation.result), operation.timing);
  GANTRY_DEBUG_ASSERT(unended_ > 0);
  --unended_;
}

void QueueCore::give_up(Operations& never_begun) noexcept {
  for (Operations* list : {&running_, &pending_})
    for (const OperationPointer& operation : *list) {
      stop_listening(*operation);
      operation->stop.store(true, std::memory_order_relaxed);  // a hint, nothing follows it
      // Only the executor writes the times of a running operation.
      const DeviceTiming timing{operation->timing.submitted, {}, {}};
      if (!operation->event->has_ended()) operation->event->end(device_->lost, timing);
    }
  never_begun.splice(never_begun.end(), pending_);
  unended_ = 0;
  idle_.notify_all();
  wake();
}

// ---- the thread ----------------------------------------------------------------------------

bool QueueCore::is_ready(const Operation& operation) const noexcept {
  if (failed_) return true;
  return std::ranges::all_of(operation.after,
                             [](const auto& before) { return before->has_ended(); });
}

std::optional<Error> QueueCore::why_not(const Operation& operation) const {
  if (failed_) return not_begun_after(*failed_, operation);
  for (const auto& before : operation.after)
    if (before->error()) return not_begun_after(*before->error(), operation);
  return std::nullopt;
}

// True: something was done. False: nothing can be done until somebody wakes us.
bool QueueCore::step(Lock& lock) noexcept {
  if (pending_.empty() || !is_ready(*pending_.front())) return false;
  const OperationPointer operation = pending_.front();
  Operations one;
  operation->result = why_not(*operation);
  if (operation->result || operation->is_empty()) {
    one.splice(one.end(), pending_, pending_.begin());
    operation->timing.began = operation->timing.ended = now();
    settle(one, lock);
    return true;
  }
  if (running_.size() >= executor_->depth()) return false;
  GANTRY_DEBUG_ASSERT(!failed_);  // I3
  const bool follows = !running_.empty();
  running_.splice(running_.end(), pending_, pending_.begin());
  lock.unlock();
  executor_->begin(operation, shared_from_this(), follows);
  lock.lock();
  return true;
}

void QueueCore::run() noexcept {
  Lock lock(device_->mutex);
  for (;;) {
    if (step(lock)) continue;
    if (quit_ && running_.empty()) break;
    work_.wait(lock);
  }
  GANTRY_DEBUG_ASSERT(running_.empty());  // I4
  lock.unlock();
  executor_.reset();  // I4
}

void QueueCore::open() {
  const std::lock_guard lock(device_->mutex);
  device_->queues.push_back(this);
}

bool QueueCore::close() noexcept {
  Lock lock(device_->mutex);
  idle_.wait(lock, [&] { return unended_ == 0; });
  std::erase(device_->queues, this);
  quit_ = true;
  wake();
  return running_.empty();
}

}  // namespace gantry
