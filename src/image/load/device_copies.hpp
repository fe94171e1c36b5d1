#pragma once  // image/load/device_copies.hpp: memory of devices, and the queues that fill it.

#include <gantry/device/device.hpp>
#include <map>

#include "image/load/load_job.hpp"

namespace gantry {

/// A partition's memory on its device.
struct DevicePlace {
  std::shared_ptr<const DeviceBuffer> buffer = {};  // null: it is in the host's memory
  DeviceQueue* queue = nullptr;  // that copies to it; null: the host writes there itself
};

/// The devices of one loading. Not for several threads, except cancel() and what queues are for.
class DeviceCopies {
 public:
  /// Memory of `size` bytes and more, up to a border of chunks. Errors: the device's.
  [[nodiscard]] Result<DevicePlace> take(const std::shared_ptr<Device>& device, Bytes size);
  /// True if there is something to copy.
  [[nodiscard]] bool is_needed() const noexcept { return !queues_.empty(); }
  /// The same memory, registered for as long as it is kept, where that pays and can be.
  [[nodiscard]] LoadMemory registered(LoadMemory memory);
  /// How memory is that went through registered(), and why.
  [[nodiscard]] std::string copied_from() const;
  /// Copies that have not begun end as `interrupted`.
  void cancel() noexcept;

 private:
  [[nodiscard]] Result<DeviceQueue*> queue_to(const std::shared_ptr<Device>& device);

  std::map<const Device*, std::unique_ptr<DeviceQueue>> queues_;
  std::vector<std::shared_ptr<Registrar>> registrars_;
  std::string why_not_;  // registered, where that would pay
};

}  // namespace gantry
