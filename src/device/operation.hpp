#pragma once  // device/operation.hpp: what is asked of a device, and what says that it ended.

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <vector>

#include "base/fork.hpp"
#include "device/device_states.hpp"

namespace gantry {

class QueueCore;

/// What the queues of one device share. One lock, held for bookkeeping, never while a device or
/// the caller's code runs, nor while what an operation held is freed.
struct DeviceCore {
  explicit DeviceCore(std::string called) : name(std::move(called)) {}

  [[nodiscard]] bool is_here() const noexcept {
    return fork_guard.is_this();
  }  ///< Not a fork's copy.
  /// Nothing, or why nothing works on it any more.
  [[nodiscard]] Result<void> state() const;
  /// Everything pending ends as `device_lost` with this reason. Only the first call counts.
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

  // The following under the device's lock.
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
  Bytes size = 0;
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
  std::atomic<bool> stop{false};  ///< Told to end early: read by whoever executes it.

  // Under the device's lock.
  bool done = false;            ///< Nobody executes it any more, or ever will.
  bool cancelled = false;       ///< By cancel(): no failure of the queue.
  std::optional<Error> result;  ///< Once done: what went wrong.

  [[nodiscard]] bool is_empty() const noexcept {
    return kind == Kind::record || (kind == Kind::launch ? range.count() == 0 : size == 0);
  }
  /// Frees what it holds; its event stays.
  void release() noexcept {
    to.reset();
    from.reset();
    kernel.reset();
    arguments.clear();
    keep.reset();
  }
};
[[nodiscard]] std::string_view to_string(Operation::Kind kind) noexcept;

/// What a backend does for one queue. Destroyed by the queue's thread when nothing runs any more.
class Executor {
 public:
  Executor() = default;
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;
  virtual ~Executor() = default;

  /// How many operations it may be given before the first of them has ended.
  [[nodiscard]] virtual std::size_t depth() const noexcept = 0;
  /// In the submitter's thread: what can be known to fail now. Ranges and owners were checked.
  [[nodiscard]] virtual Result<void> check(const Operation& operation) = 0;
  /// In the queue's thread, in order. `done(operation, error)` is called once, now or later, from
  /// any thread, by when timing.began and timing.ended are set; as `aborted` what the device passed
  /// over because the one before failed.
  /// `follows`: some that were begun before have not ended; if they fail this one must not begin.
  virtual void begin(const std::shared_ptr<Operation>& operation,
                     const std::shared_ptr<QueueCore>& queue, bool follows) noexcept = 0;
};

}  // namespace gantry
