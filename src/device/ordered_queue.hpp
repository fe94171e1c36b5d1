#pragma once  // device/ordered_queue.hpp: keeps the order of a queue for devices that need the host
              // to.

#include <fmt/format.h>

#include <list>
#include <thread>

#include "device/operation.hpp"
#include "trace/end_trace.hpp"

namespace gantry {

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
  [[nodiscard]] Result<void> wait_for(std::shared_ptr<QueuedEvent> event);
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
  std::vector<std::shared_ptr<QueuedEvent>> after_;  // what the next operation waits for
  std::size_t unended_ = 0;                          // events
  std::optional<Error> failed_;
  bool quit_ = false;
  trace::RoamingTrace trace_;
};

/// The queue of devices whose executors keep the contract of device/operation.hpp.
class OrderedQueue final : public DeviceQueue {
 public:
  /// Errors: `device_lost`, `system` when no thread can be started.
  [[nodiscard]] static Result<std::unique_ptr<DeviceQueue>> open(
      const std::shared_ptr<DeviceCore>& device, QueueRole role,
      std::unique_ptr<Executor> executor);
  OrderedQueue(std::shared_ptr<QueueCore> core, QueueRole role) noexcept
      : core_(std::move(core)), role_(role) {}
  ~OrderedQueue() override;

  [[nodiscard]] QueueRole role() const noexcept override { return role_; }
  [[nodiscard]] Result<DeviceEvent> copy_in(const DeviceBuffer& to, Bytes offset,
                                            ConstByteSpan from, KeepAlive keep) override;
  [[nodiscard]] Result<DeviceEvent> copy_out(const DeviceBuffer& from, Bytes offset, ByteSpan to,
                                             KeepAlive keep) override;
  [[nodiscard]] Result<DeviceEvent> copy(const DeviceBuffer& to, Bytes to_offset,
                                         const DeviceBuffer& from, Bytes from_offset,
                                         Bytes size) override;
  [[nodiscard]] Result<DeviceEvent> copy_in_rows(const DeviceBuffer& to, Bytes offset,
                                                 ConstByteSpan from, const CopyRows& rows,
                                                 KeepAlive keep) override;
  [[nodiscard]] Result<DeviceEvent> copy_out_rows(const DeviceBuffer& from, Bytes offset,
                                                  ByteSpan to, const CopyRows& rows,
                                                  KeepAlive keep) override;
  [[nodiscard]] Result<DeviceEvent> copy_rows(const DeviceBuffer& to, Bytes to_offset,
                                              const DeviceBuffer& from, Bytes from_offset,
                                              const CopyRows& rows) override;
  [[nodiscard]] Result<DeviceEvent> fill(const DeviceBuffer& to, Bytes offset, Bytes size,
                                         std::byte value) override;
  [[nodiscard]] Result<DeviceEvent> launch(const Kernel& kernel,
                                           std::span<const KernelArgument> arguments,
                                           const LaunchRange& range) override;
  using DeviceQueue::launch;
  [[nodiscard]] Result<DeviceEvent> record() override;
  [[nodiscard]] Result<void> wait_for(const DeviceEvent& event) override;
  [[nodiscard]] Result<void> drain(Deadline deadline) override;
  void cancel() noexcept override;

 private:
  [[nodiscard]] Result<void> check_buffer(std::string_view what, const DeviceBuffer& buffer,
                                          Bytes offset, Bytes size) const;
  [[nodiscard]] Result<void> check_host(std::string_view what, const std::byte* at,
                                        Bytes size) const;
  [[nodiscard]] Result<void> check_launch(const Kernel& kernel,
                                          std::span<const KernelArgument> arguments) const;

  const std::shared_ptr<QueueCore> core_;
  const QueueRole role_;
  std::thread thread_;
};

}  // namespace gantry
