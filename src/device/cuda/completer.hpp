#pragma once  // device/cuda/completer.hpp: hears of the end of what a stream was given.

#include <thread>

#include "device/cuda/clock.hpp"
#include "device/ordered_queue.hpp"

namespace gantry::cuda {

/// A thread that waits for one event after another. (A callback of the driver's would hold up its
/// stream, might call nothing of the driver, and would not come at all when the context fails.)
/// Destroyed when all it was given has ended.
class Completer {
 public:
  static constexpr std::size_t kDepth = 4;

  /// Errors: the driver's; `system` when no thread can be had.
  [[nodiscard]] static Result<std::unique_ptr<Completer>> open(const ContextPointer& context,
                                                               StreamHandle stream);
  Completer(ContextPointer context, Clock clock) noexcept
      : context_(std::move(context)), clock_(std::move(clock)) {}
  Completer(const Completer&) = delete;
  Completer& operator=(const Completer&) = delete;
  ~Completer();

  // By one thread, with no more than kDepth operations that have not ended.
  /// The events around the next operation.
  [[nodiscard]] EventHandle next_begin() const noexcept { return next().began.get(); }
  [[nodiscard]] EventHandle next_end() const noexcept { return next().ended.get(); }
  /// It was handed over, its events recorded.
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
  std::size_t given_ = 0;  // written by the one thread, under mutex_
  std::mutex mutex_;
  std::condition_variable work_;
  bool quit_ = false;
  std::thread thread_;
};

/// Ends an operation that was refused, or that ended badly. `is_its_own`: heard from the device
/// about it, not from a call.
void end_badly(const Context& context, const std::shared_ptr<Operation>& operation,
               const std::shared_ptr<QueueCore>& queue, Status status, bool is_its_own) noexcept;

}  // namespace gantry::cuda
