#pragma once  // device/cuda/completer.hpp: waits for the end of a stream's operations.

#include <thread>

#include "device/cuda/clock.hpp"
#include "device/ordered_queue.hpp"

namespace gantry::cuda {

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

}  // namespace gantry::cuda
