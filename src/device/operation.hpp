#pragma once  // operation.hpp: the operations of a device's queues, their order and their ends.

#include <fmt/format.h>

#include <atomic>
#include <condition_variable>
#include <list>
#include <mutex>
#include <optional>
#include <vector>

#include "core/base/os/fork.hpp"
#include "core/trace/end_trace.hpp"
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
class EventState {
 public:
  explicit EventState(std::shared_ptr<DeviceCore> core) : core_(std::move(core)) {}

  [[nodiscard]] DeviceToken device() const noexcept { return core_.get(); }
  [[nodiscard]] Outcome outcome() const noexcept;
  [[nodiscard]] Result<void> wait(Deadline deadline);
  [[nodiscard]] Result<DeviceTiming> timing() const;

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

  std::shared_ptr<EventState> event;
  std::vector<std::shared_ptr<EventState>> after;
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

// A thread takes the operations one by one. It waits for what they wait for, gives them to the
// executor, which may run several ahead, and ends their events in order. So an operation that waits
// for another queue has not reached the device yet, and can be cancelled; and the slowest queue
// always has its next operation waiting in the device.
//   I1  Events end in the order of submission: an operation moves from pending_ to running_, and
//       leaves that only from its front.
//   I2  Each event ends once; what it held is freed before, except for an abandoned device.
//   I3  After a failure (failed_) nothing begins until drain().
//   I4  The thread ends when it is told to and nothing runs; only then the executor goes.
class QueueCore : public std::enable_shared_from_this<QueueCore> {
 public:
  using OperationPointer = std::shared_ptr<Operation>;
  using Operations = std::list<OperationPointer>;

  QueueCore(std::shared_ptr<DeviceCore> device, QueueRole role, std::unique_ptr<Executor> executor)
      : device_(std::move(device)),
        executor_(std::move(executor)),
        trace_(trace::EndKind::queue, fmt::format("{} ({})", device_->name, to_string(role))) {}

  [[nodiscard]] const DeviceCore& device() const noexcept { return *device_; }
  [[nodiscard]] Result<DeviceEvent> submit(OperationPointer operation);
  [[nodiscard]] Result<void> wait_for(std::shared_ptr<EventState> event);
  [[nodiscard]] Result<void> drain(Deadline deadline);
  void cancel() noexcept;

  /// For executors: the operation ended, badly if `error` is set; its message gives only the
  /// reason.
  void done(const OperationPointer& operation, std::optional<Error> error) noexcept;

  /// The thread's work until close(). Keeps this alive.
  void run() noexcept;
  void open();
  /// Waits until nothing is pending. False: an abandoned device holds the thread up.
  [[nodiscard]] bool close() noexcept;

  // Called under the device's lock.
  void wake() noexcept { work_.notify_one(); }
  /// The device is lost: ends every event. Hands over what never began, to be freed.
  void give_up(Operations& never_begun) noexcept;

 private:
  using Lock = std::unique_lock<std::mutex>;

  [[nodiscard]] bool step(Lock& lock) noexcept;
  [[nodiscard]] bool is_ready(const Operation& operation) const noexcept;
  [[nodiscard]] std::optional<Error> why_not(const Operation& operation) const;
  void settle(Operations& never_begun, Lock& lock) noexcept;
  void retire() noexcept;
  void end(Operation& operation) noexcept;
  void stop_listening(const Operation& operation) noexcept;
  void trace_end(const Operation& operation, std::string_view kernel) noexcept;

  const std::shared_ptr<DeviceCore> device_;
  std::unique_ptr<Executor> executor_;

  // Guarded by the device's lock.
  std::condition_variable work_;  // for the thread
  std::condition_variable idle_;  // for drain() and close()
  Operations pending_;
  Operations running_;
  std::vector<std::shared_ptr<EventState>> after_;  // what the next operation waits for
  std::size_t unended_ = 0;                         // events
  std::optional<Error> failed_;
  bool quit_ = false;
  trace::RoamingTrace trace_;
};

/// The queue of devices whose executors keep this contract; a thread of its own keeps its order.
/// Errors: `device_lost`, `system` when no thread can be started.
[[nodiscard]] Result<std::unique_ptr<DeviceQueue>> open_ordered_queue(
    const std::shared_ptr<DeviceCore>& device, QueueRole role, std::unique_ptr<Executor> executor);

}  // namespace gantry
