#pragma once  // device/cuda/executor.hpp: gives operations to a stream.

#include "device/cuda/completer.hpp"
#include "device/cuda/cublas.hpp"
#include "device/memory_budget.hpp"

namespace gantry::cuda {

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
