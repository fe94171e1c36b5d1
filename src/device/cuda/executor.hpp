#pragma once  // device/cuda/executor.hpp: gives operations to a stream, and hears of their ends.

#include <thread>

#include "device/cuda/context.hpp"
#include "device/cuda/cublas.hpp"
#include "device/device_memory.hpp"
#include "device/ordered_queue.hpp"

namespace gantry::cuda {

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
  [[nodiscard]] static Result<Clock> measure(const ContextPointer& context, StreamHandle stream);

  /// Sets `began` and `ended` of `timing`, of which the host heard at `now`. May take `ended` and
  /// leave another event in its place.
  void read(const Driver& driver, EventHandle began, OwnedEvent& ended, DeviceTiming::Time now,
            DeviceTiming& timing) noexcept;

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
                                                               StreamHandle stream);
  Completer(ContextPointer context, Clock clock) noexcept
      : context_(std::move(context)), clock_(std::move(clock)) {}
  Completer(const Completer&) = delete;
  Completer& operator=(const Completer&) = delete;
  ~Completer();

  // Called by one thread, with no more than kDepth operations that have not ended.
  /// The events around the next operation.
  [[nodiscard]] EventHandle next_begin() const noexcept { return next().began.get(); }
  [[nodiscard]] EventHandle next_end() const noexcept { return next().ended.get(); }
  /// The operation was handed over and its events recorded.
  void follow(const std::shared_ptr<Operation>& operation,
              const std::shared_ptr<QueueCore>& queue) noexcept;

 private:
  struct Slot {
    OwnedEvent began;
    OwnedEvent ended;
    std::shared_ptr<Operation> operation;
    std::shared_ptr<QueueCore> queue;
  };
  [[nodiscard]] const Slot& next() const noexcept { return slots_[given_ % kDepth]; }
  void run() noexcept;
  void complete(Slot& slot) noexcept;

  const ContextPointer context_;
  Clock clock_;
  std::array<Slot, kDepth> slots_;
  std::size_t given_ = 0;  // written by that thread, under mutex_
  std::mutex mutex_;
  std::condition_variable work_;
  bool quit_ = false;
  std::thread thread_;
};

/// Ends an operation that was refused, or that ended badly. `is_its_own`: the device reported the
/// status for it, not a call.
void end_badly(const Context& context, const std::shared_ptr<Operation>& operation,
               const std::shared_ptr<QueueCore>& queue, Status status, bool is_its_own) noexcept;

struct Buffer final : BufferState {
  Buffer(DeviceToken owner, Bytes bytes, OwnedMemory taken, MemoryBudget::Share part) noexcept
      : BufferState(owner, bytes), share(std::move(part)), object(std::move(taken)) {}
  const MemoryBudget::Share share;
  const OwnedMemory object;
};

class StreamExecutor final : public Executor {
 public:
  /// Errors: the driver's; `system` when no thread can be started.
  [[nodiscard]] static Result<std::unique_ptr<Executor>> open(const ContextPointer& context);
  StreamExecutor(ContextPointer context, OwnedStream stream,
                 std::unique_ptr<Completer> completer) noexcept
      : context_(std::move(context)),
        stream_(std::move(stream)),
        completer_(std::move(completer)),
        products_(context_) {}

  // Enough that the device never waits for the host between two; few, since an operation that it
  // was given cannot be cancelled.
  [[nodiscard]] std::size_t depth() const noexcept override { return Completer::kDepth; }
  [[nodiscard]] Result<void> check(const Operation& operation) override;
  void begin(const std::shared_ptr<Operation>& operation, const std::shared_ptr<QueueCore>& queue,
             bool follows) noexcept override;

 private:
  [[nodiscard]] Status enqueue(const Operation& operation) noexcept;
  [[nodiscard]] Status enqueue_rows(const Operation& operation) const noexcept;
  [[nodiscard]] Status enqueue_row(const Operation& operation, Bytes row) const noexcept;

  const ContextPointer context_;
  const OwnedStream stream_;
  const std::unique_ptr<Completer> completer_;
  Products products_;
  bool is_inside_ = false;    // the queue's thread has the context current
  bool was_refused_ = false;  // the operation before was, while some have not ended
};

}  // namespace gantry::cuda
