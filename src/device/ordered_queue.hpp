#pragma once  // device/ordered_queue.hpp: keeps the order of a queue for devices that need the host
              // to.

#include <thread>

#include "device/operation.hpp"

namespace gantry {

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
  [[nodiscard]] Result<void> check_launch(const Kernel& kernel,
                                          std::span<const KernelArgument> arguments) const;

  const std::shared_ptr<QueueCore> core_;
  const QueueRole role_;
  std::thread thread_;
};

}  // namespace gantry
