#pragma once  // device/operation.hpp: the operations of a device's queues, and their ends.

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <vector>

#include "base/fork.hpp"
#include "device/device_states.hpp"

namespace gantry {

class QueueCore;

/// What the queues of one device share. Its lock is held for bookkeeping, never while a device or
/// the caller's code runs, nor while what an operation held is freed.
struct DeviceCore {
  explicit DeviceCore(std::string called) : name(std::move(called)) {}

  [[nodiscard]] bool is_here() const noexcept {
    return fork_guard.is_this();
  }  ///< Not a fork's copy.
  /// An error if nothing works on the device any more.
  [[nodiscard]] Result<void> state() const;
  /// Ends everything pending as `device_lost` with this reason. Only the first call counts.
  void lose(std::string why) noexcept;

  const std::string name;
  const ForkGuard fork_guard;
  mutable std::mutex mutex;  // guards all that follows, every queue's state and every event's
  std::optional<Error> lost;
  std::vector<QueueCore*> queues;
};

/// The end of an operation of an OrderedQueue.
class QueuedEvent final : public EventState {
 public:
  explicit QueuedEvent(std::shared_ptr<DeviceCore> core) : core_(std::move(core)) {}

  [[nodiscard]] DeviceToken device() const noexcept override { return core_.get(); }
  [[nodiscard]] Outcome outcome() const noexcept override;
  [[nodiscard]] Result<void> wait(Deadline deadline) override;
  [[nodiscard]] Result<DeviceTiming> timing() const override;

  // Called under the device's lock.
  [[nodiscard]] bool has_ended() const noexcept { return ended_; }
  [[nodiscard]] const std::optional<Error>& error() const noexcept { return error_; }
  void listen(QueueCore* queue) { listeners_.push_back(queue); }
  void forget(const QueueCore* queue) noexcept { std::erase(listeners_, queue); }
  void end(std::optional<Error> error, const DeviceTiming& timing) noexcept;

 private:
  [[nodiscard]] Result<void> ended_how() const;

  const std::shared_ptr<DeviceCore> core_;
  std::condition_variable over_;
  unsigned waiters_ = 0;
  bool ended_ = false;
  std::optional<Error> error_;
  DeviceTiming timing_;
  std::vector<QueueCore*> listeners_;  // queues whose next operation waits for this one
};

struct Operation {
  enum class Kind : std::uint8_t { copy_in, copy_out, copy, fill, launch, record };

  Kind kind = Kind::record;
  std::shared_ptr<BufferState> to;
  std::shared_ptr<BufferState> from;
  Bytes to_offset = 0;
  Bytes from_offset = 0;
  Bytes size = 0;  ///< Of each row.
  Bytes rows = 1;
  Bytes to_stride = 0;  ///< Of copies of more than one row.
  Bytes from_stride = 0;
  const std::byte* host_from = nullptr;
  std::byte* host_to = nullptr;
  std::byte value{};
  std::shared_ptr<const KernelState> kernel;
  std::vector<KernelArgument> arguments;
  LaunchRange range;
  KeepAlive keep;

  std::shared_ptr<QueuedEvent> event;
  std::vector<std::shared_ptr<QueuedEvent>> after;
  DeviceTiming timing;
  std::atomic<bool> stop{false};  ///< Asks the executor to end early.

  // Under the device's lock.
  bool done = false;            ///< Nobody executes it any more, or ever will.
  bool cancelled = false;       ///< By cancel(); no failure of the queue.
  std::optional<Error> result;  ///< Once done: the error, if any.

  [[nodiscard]] bool is_empty() const noexcept {
    return kind == Kind::record ||
           (kind == Kind::launch ? range.count() == 0 : size == 0 || rows == 0);
  }
  /// Frees what it holds, except its event.
  void release() noexcept {
    to.reset();
    from.reset();
    kernel.reset();
    arguments.clear();
    keep.reset();
  }
};
[[nodiscard]] std::string_view to_string(Operation::Kind kind) noexcept;

/// A backend's work for one queue. The queue's thread destroys it when nothing runs any more.
class Executor {
 public:
  Executor() = default;
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;
  virtual ~Executor() = default;

  /// Operations that it accepts before the first of them has ended.
  [[nodiscard]] virtual std::size_t depth() const noexcept = 0;
  /// Finds errors that can be known now, in the submitter's thread. Ranges and owners were checked.
  [[nodiscard]] virtual Result<void> check(const Operation& operation) = 0;
  /// Begins the operation; called in the queue's thread, in order. It calls `done(operation,
  /// error)` once, now or later, from any thread, after it set timing.began and timing.ended. The
  /// error is `aborted` if the device skipped the operation because the one before failed.
  /// `follows`: some that were begun before have not ended; if they fail this one must not begin.
  virtual void begin(const std::shared_ptr<Operation>& operation,
                     const std::shared_ptr<QueueCore>& queue, bool follows) noexcept = 0;
};

}  // namespace gantry
