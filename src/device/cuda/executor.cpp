#include "device/cuda/executor.hpp"

#include <algorithm>
#include <thread>

#include "core/base/assert.hpp"
#include "core/base/os/worker_thread.hpp"
#include "core/base/result.hpp"
#include "device/cuda/cublas.hpp"
#include "device/cuda/program.hpp"

namespace gantry::cuda {
namespace {

using std::chrono::nanoseconds;

constexpr nanoseconds kAnchored = std::chrono::seconds(1);

nanoseconds from_ms(float ms) noexcept {
  return nanoseconds(static_cast<std::int64_t>(static_cast<double>(ms) * 1e6));
}

Address address_of(const std::shared_ptr<BufferState>& buffer, Bytes offset) {
  return static_cast<const Buffer&>(*buffer).object.get() + offset;
}

RowsSide device_side(const std::shared_ptr<BufferState>& buffer, Bytes offset, Bytes stride) {
  return {.type = MemoryType::device, .device = address_of(buffer, offset), .pitch_bytes = stride};
}

RowsSide host_side(const std::byte* memory, Bytes stride) {
  return {.type = MemoryType::host, .host = memory, .pitch_bytes = stride};
}

/// Ends an operation that was refused, or that ended badly. `is_its_own`: the device reported the
/// status for it, not a call.
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

// The driver tells only how long after one event another came, as a float of milliseconds, which is
// exact to nanoseconds for a second and only to microseconds for a minute. So times are counted
// from an anchor whose host time is known, and the anchor is moved on. The operations show how the
// two clocks drift apart. None can have ended after the host heard of it, so an anchor that is too
// late is mended at once; and the operation since the last anchor of which the host heard soonest
// tells how much too early this anchor is.

/// The clock of one queue. After measure() one thread uses it, with the context current.
class Clock {
 public:
  /// Errors: the driver's.
  [[nodiscard]] static Result<Clock> measure(const ContextPointer& context, StreamHandle stream) {
    constexpr int kTries = 8;
    const Driver& driver = context->driver;
    GANTRY_ASSIGN(OwnedEvent anchor, make_event(context));
    GANTRY_ASSIGN(const OwnedEvent probe, make_event(context));
    Time at = Time::max();
    const auto probe_once = [&](EventHandle event) {
      Status status = driver.event_record(event, stream);
      if (status == kSuccess) status = driver.event_synchronize(event);
      const Time now = Deadline::Clock::now();
      float ms = 0;
      if (status == kSuccess && event != anchor.get())
        status = driver.event_elapsed(&ms, anchor.get(), event);
      at = std::min(at, now - from_ms(ms));
      return status;
    };
    const Status status = context->with([&] {
      Status probed = probe_once(anchor.get());
      for (int i = 1; i < kTries && probed == kSuccess; ++i) probed = probe_once(probe.get());
      return probed;
    });
    if (status == kSuccess) return Clock(std::move(anchor), at);
    return refused(driver, context->core->name, "its clock", status);
  }

  /// Sets `began` and `ended` of `timing`, of which the host heard at `now`. May take `ended` and
  /// leave another event in its place.
  void read(const Driver& driver, EventHandle began, OwnedEvent& ended, DeviceTiming::Time now,
            DeviceTiming& timing) noexcept {
    float began_ms = 0;
    float ended_ms = 0;
    if (driver.event_elapsed(&began_ms, anchor_.get(), began) != kSuccess ||
        driver.event_elapsed(&ended_ms, anchor_.get(), ended.get()) != kSuccess) {
      timing.ended = now;
      return;
    }
    const nanoseconds late = at_ + from_ms(ended_ms) - now;
    if (late > nanoseconds::zero()) {  // impossible: the anchor is too late
      at_ -= late;
      if (soonest_ != nanoseconds::max()) soonest_ += late;
    }
    const Time ended_at = at_ + from_ms(ended_ms);
    const Time earliest = std::max(timing.submitted, last_);
    timing.ended = std::max(ended_at, earliest);
    timing.began = std::clamp(at_ + from_ms(began_ms), earliest, timing.ended);
    last_ = timing.ended;
    soonest_ = std::min(soonest_, nanoseconds(now - ended_at));
    if (from_ms(ended_ms) < kAnchored) return;
    std::swap(anchor_, ended);
    at_ = ended_at + soonest_;
    soonest_ = nanoseconds::max();
  }

 private:
  using Time = DeviceTiming::Time;
  Clock(OwnedEvent anchor, Time at) noexcept : anchor_(std::move(anchor)), at_(at) {}

  OwnedEvent anchor_;
  Time at_;
  std::chrono::nanoseconds soonest_ = std::chrono::nanoseconds::max();
  Time last_{};  // end of the operation before
};

/// A thread that waits for one event after another. (A callback of the driver's would hold up its
/// stream, may call nothing of the driver, and does not come when the context fails.) Destroy it
/// when all its operations have ended.
class Completer {
 public:
  static constexpr std::size_t kDepth = 4;

  /// Errors: the driver's; `system` when no thread can be started.
  [[nodiscard]] static Result<std::unique_ptr<Completer>> open(const ContextPointer& context,
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

  Completer(ContextPointer context, Clock clock) noexcept
      : context_(std::move(context)), clock_(std::move(clock)) {}
  Completer(const Completer&) = delete;
  Completer& operator=(const Completer&) = delete;
  ~Completer() {
    if (!thread_.joinable()) return;
    {
      const std::lock_guard lock(mutex_);
      quit_ = true;
    }
    work_.notify_one();
    thread_.join();
  }

  // Called by one thread, with no more than kDepth operations that have not ended.
  /// The events around the next operation.
  [[nodiscard]] EventHandle next_begin() const noexcept { return next().began.get(); }
  [[nodiscard]] EventHandle next_end() const noexcept { return next().ended.get(); }
  /// The operation was handed over and its events recorded.
  void follow(const std::shared_ptr<Operation>& operation,
              const std::shared_ptr<QueueCore>& queue) noexcept {
    {
      const std::lock_guard lock(mutex_);
      Slot& slot = slots_[given_ % kDepth];
      GANTRY_DEBUG_ASSERT(slot.operation == nullptr);
      slot.operation = operation;
      slot.queue = queue;
      ++given_;
    }
    work_.notify_one();
  }

 private:
  struct Slot {
    OwnedEvent began;
    OwnedEvent ended;
    std::shared_ptr<Operation> operation;
    std::shared_ptr<QueueCore> queue;
  };
  [[nodiscard]] const Slot& next() const noexcept { return slots_[given_ % kDepth]; }
  void run() noexcept {
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
  void complete(Slot& slot) noexcept {
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

  const ContextPointer context_;
  Clock clock_;
  std::array<Slot, kDepth> slots_;
  std::size_t given_ = 0;  // written by that thread, under mutex_
  std::mutex mutex_;
  std::condition_variable work_;
  bool quit_ = false;
  std::thread thread_;
};

class StreamExecutor final : public Executor {
 public:
  StreamExecutor(ContextPointer context, OwnedStream stream,
                 std::unique_ptr<Completer> completer) noexcept
      : context_(std::move(context)),
        stream_(std::move(stream)),
        completer_(std::move(completer)),
        products_(context_) {}

  // Enough that the device never waits for the host between two; few, since an operation that it
  // was given cannot be cancelled.
  [[nodiscard]] std::size_t depth() const noexcept override { return Completer::kDepth; }
  [[nodiscard]] Result<void> check(const Operation& operation) override {
    if (operation.kind != Operation::Kind::launch) return {};
    if (as_product(*operation.kernel) != nullptr) return check_product(*context_, operation);
    return check_launch(*context_, operation);
  }
  void begin(const std::shared_ptr<Operation>& operation, const std::shared_ptr<QueueCore>& queue,
             bool follows) noexcept override {
    operation->timing.began = operation->timing.ended = Deadline::Clock::now();
    // The driver goes on behind a call that it refused.
    if (follows && was_refused_) return queue->done(operation, Error{Code::aborted, {}, {}});
    was_refused_ = false;
    if (!is_inside_) is_inside_ = context_->enter() == kSuccess;
    const Driver& driver = context_->driver;
    const bool is_launch = operation->kind == Operation::Kind::launch;
    if (is_launch) context_->launch_began();
    Status status = driver.event_record(completer_->next_begin(), stream_.get());
    if (status == kSuccess) status = enqueue(*operation);
    const bool is_given = status == kSuccess;
    if (is_given) status = driver.event_record(completer_->next_end(), stream_.get());
    if (status == kSuccess) return completer_->follow(operation, queue);
    was_refused_ = true;
    // It runs, or it ran and failed before its event was recorded.
    if (is_given)
      if (const Status ended = driver.stream_synchronize(stream_.get()); ended != kSuccess)
        status = ended;
    if (is_launch && !is_given) context_->launch_ended();
    end_badly(*context_, operation, queue, status, is_given);
    if (is_launch && is_given) context_->launch_ended();
  }

 private:
  [[nodiscard]] Status enqueue(const Operation& operation) noexcept {
    if (operation.kind == Operation::Kind::record) return kSuccess;
    if (operation.kind == Operation::Kind::launch)
      return as_product(*operation.kernel) != nullptr ? products_.multiply(operation, stream_.get())
                                                      : launch(*context_, operation, stream_.get());
    return operation.rows == 1 ? enqueue_row(operation, 0) : enqueue_rows(operation);
  }

  // Drivers may refuse strides, within a device those that are not of their own making; then it is
  // a copy for each row. What was given of them must have ended when the others are refused.
  [[nodiscard]] Status enqueue_rows(const Operation& operation) const noexcept {
    const Driver& driver = context_->driver;
    const RowsCopy copy{
        operation.from != nullptr
            ? device_side(operation.from, operation.from_offset, operation.from_stride)
            : host_side(operation.host_from, operation.from_stride),
        operation.to != nullptr
            ? device_side(operation.to, operation.to_offset, operation.to_stride)
            : host_side(operation.host_to, operation.to_stride),
        operation.size, operation.rows};
    Status status = driver.copy_rows(&copy, stream_.get());
    if (status != kInvalidValue) return status;
    status = kSuccess;
    for (Bytes row = 0; row < operation.rows && status == kSuccess; ++row)
      status = enqueue_row(operation, row);
    if (status != kSuccess) driver.stream_synchronize(stream_.get());
    return status;
  }

  [[nodiscard]] Status enqueue_row(const Operation& operation, Bytes row) const noexcept {
    const Driver& driver = context_->driver;
    StreamHandle stream = stream_.get();
    const Bytes to_row = row * operation.to_stride;
    const Bytes from_row = row * operation.from_stride;
    const auto to = [&] { return address_of(operation.to, operation.to_offset + to_row); };
    const auto from = [&] { return address_of(operation.from, operation.from_offset + from_row); };
    switch (operation.kind) {
      case Operation::Kind::copy_in:
        return driver.copy_in(to(), operation.host_from + from_row, operation.size, stream);
      case Operation::Kind::copy_out:
        return driver.copy_out(operation.host_to + to_row, from(), operation.size, stream);
      case Operation::Kind::copy:
        return driver.copy(to(), from(), operation.size, stream);
      default:
        return driver.fill(to(), static_cast<unsigned char>(operation.value), operation.size,
                           stream);
    }
  }

  const ContextPointer context_;
  const OwnedStream stream_;
  const std::unique_ptr<Completer> completer_;
  Products products_;
  bool is_inside_ = false;    // the queue's thread has the context current
  bool was_refused_ = false;  // the operation before was, while some have not ended
};

}  // namespace

Result<std::unique_ptr<Executor>> open_executor(const ContextPointer& context) {
  GANTRY_ASSIGN(OwnedStream stream, make_stream(context));
  GANTRY_ASSIGN(auto completer, Completer::open(context, stream.get()));
  return std::make_unique<StreamExecutor>(context, std::move(stream), std::move(completer));
}

}  // namespace gantry::cuda
