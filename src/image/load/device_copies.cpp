#include "image/load/device_copies.hpp"

#include "base/result.hpp"
#include "image/format.hpp"

namespace gantry {

Result<DevicePlace> DeviceCopies::take(const std::shared_ptr<Device>& device, Bytes size) {
  const Bytes room = image::up_to(std::max<Bytes>(size, 1), kImageBorder);
  GANTRY_ASSIGN(DeviceBuffer made, device->allocate(room));
  DevicePlace place{std::make_shared<const DeviceBuffer>(std::move(made))};
  const ByteSpan seen = place.buffer->host();
  if (seen.empty() || reinterpret_cast<std::uintptr_t>(seen.data()) % kImageBorder != 0) {
    GANTRY_ASSIGN(place.queue, queue_to(device));
  }
  return place;
}

Result<DeviceQueue*> DeviceCopies::queue_to(const std::shared_ptr<Device>& device) {
  std::unique_ptr<DeviceQueue>& queue = queues_[device.get()];
  if (queue != nullptr) return queue.get();
  GANTRY_ASSIGN(queue, device->open_queue(QueueRole::copy_in));
  if (!device->facts().registering_pays) return queue.get();
  if (auto registrar = device->registrar())
    registrars_.push_back(*std::move(registrar));
  else
    why_not_ = to_string(registrar.error());
  return queue.get();
}

LoadMemory DeviceCopies::registered(LoadMemory memory) {
  struct Registered {
    LoadMemory memory;
    std::vector<Registration> registrations;  // they end before the memory does
  };
  if (registrars_.empty()) return memory;
  const auto both = std::make_shared<Registered>(Registered{std::move(memory), {}});
  for (const std::shared_ptr<Registrar>& registrar : registrars_) {
    auto made = registrar->register_memory(both->memory.bytes);
    if (made)
      both->registrations.push_back(*std::move(made));
    else if (made.error().code != Code::already_exists)  // by the pool, or for another device
      why_not_ = to_string(made.error());
  }
  return {both->memory.bytes, both};
}

std::string DeviceCopies::copied_from() const {
  if (!why_not_.empty()) return fmt::format("memory that is not registered ({})", why_not_);
  return registrars_.empty() ? "memory as it is" : "registered memory";
}

void DeviceCopies::cancel() noexcept {
  for (const auto& [device, queue] : queues_)
    if (queue != nullptr) queue->cancel();
}

}  // namespace gantry
