#include "device/cuda/completer.hpp"

#include "base/result.hpp"
#include "base/worker_thread.hpp"

namespace gantry::cuda {

Result<std::unique_ptr<Completer>> Completer::open(const ContextPointer& context,
                                                   StreamHandle stream) {
  GANTRY_ASSIGN(Clock clock, Clock::measure(context, stream));
  auto made = std::make_unique<Completer>(context, std::move(clock));
  for (Slot& slot : made->slots_) {
    GANTRY_ASSIGN(slot.began, make_event(context));
    GANTRY_ASSIGN(slot.ended, make_event(context));
  }
  GANTRY_ASSIGN(made->thread_,
                start_thread(fmt::format("a queue's thread of {}", context->core->name),
                             [completer = made.get()] { completer->run(); }));
  return made;
}

Completer::~Completer() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    quit_ = true;
  }
  work_.notify_one();
  thread_.join();
}

void Completer::follow(const std::shared_ptr<Operation>& operation,
                       const std::shared_ptr<QueueCore>& queue) noexcept {
  {
    const std::lock_guard lock(mutex_);
    Slot& slot = slots_[given_ % kDepth];
    slot.operation = operation;
    slot.queue = queue;
    ++given_;
  }
  work_.notify_one();
}

void Completer::run() noexcept {
  context_->enter();
  for (std::size_t heard = 0;; ++heard) {
    std::unique_lock lock(mutex_);
    work_.wait(lock, [&] { return given_ != heard || quit_; });
    if (given_ == heard) return;
    lock.unlock();
    complete(slots_[heard % kDepth]);
  }
}

// Once done() is called the slot may be another operation's.
void Completer::complete(Slot& slot) noexcept {
  const std::shared_ptr<Operation> operation = std::move(slot.operation);
  const std::shared_ptr<QueueCore> queue = std::move(slot.queue);
  const bool is_launch = operation->kind == Operation::Kind::launch;
  const Status status = context_->driver.event_synchronize(slot.ended.get());
  const auto now = Deadline::Clock::now();
  if (status == kSuccess) {
    clock_.read(context_->driver, slot.began.get(), slot.ended, now, operation->timing);
    queue->done(operation, std::nullopt);
  } else {
    operation->timing.ended = now;
    end_badly(*context_, operation, queue, status, true);
  }
  if (is_launch) context_->launch_ended();
}

void end_badly(const Context& context, const std::shared_ptr<Operation>& operation,
               const std::shared_ptr<QueueCore>& queue, Status status, bool is_its_own) noexcept {
  const bool is_guilty =
      is_its_own && is_fault(status) && operation->kind == Operation::Kind::launch;
  if (is_fault(status) && !is_guilty) context.await_launches();
  std::string text;
  auto error = guarded([&]() -> Result<Error> {
    text = name_of(context.driver, status);
    const Code code = is_guilty ? Code::kernel_fault : code_of(status);
    return Error{code, text, is_fault(status) ? "CUDA works again in a new process" : ""};
  });
  queue->done(operation, error ? std::move(*error) : std::move(error).error());
  if (is_guilty) context.core->lose("a kernel's fault ended its context: " + text);
}

}  // namespace gantry::cuda
