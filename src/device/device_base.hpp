#pragma once  // device_base.hpp: the half of a device that is alike for every kind.

#include "core/base/result.hpp"
#include "device/device_memory.hpp"
#include "device/operation.hpp"

namespace gantry {

/// Checks requests, counts memory and keeps the device's state. A backend adds the `make`
/// functions, which are called while the device is there and may throw std::bad_alloc. Their
/// `device_lost` loses the device.
class DeviceBase : public Device {
 public:
  DeviceBase(DeviceFacts facts, std::shared_ptr<DeviceCore> core)
      : facts_(std::move(facts)),
        core_(std::move(core)),
        budget_(MemoryBudget::make(facts_.memory_bytes)) {}

  const DeviceFacts& facts() const noexcept final { return facts_; }
  Result<DeviceMemory> memory() const final;
  Result<DeviceBuffer> allocate(Bytes size) final;
  Result<DeviceBuffer> over(ByteSpan memory, KeepAlive keep) final;
  Result<std::unique_ptr<DeviceQueue>> open_queue(QueueRole role) final;
  Result<Program> build(const ProgramSource& source) final;
  Result<std::shared_ptr<Registrar>> registrar() override { return make_page_lock_registrar(); }
  Result<void> state() const final { return core_->state(); }
  void abandon(std::string reason) noexcept final { core_->lose(std::move(reason)); }

 protected:
  /// `share`: the buffer's bytes of the budget; the buffer keeps it.
  [[nodiscard]] virtual Result<DeviceBuffer> make_buffer(Bytes size, MemoryBudget::Share share) = 0;
  /// For devices that have DeviceFacts::in_place_alignment.
  [[nodiscard]] virtual Result<DeviceBuffer> make_view(ByteSpan memory, KeepAlive keep);
  [[nodiscard]] virtual Result<std::unique_ptr<Executor>> make_executor() = 0;
  [[nodiscard]] virtual Result<Program> make_program(const ProgramSource& source) = 0;
  [[nodiscard]] virtual Result<Bytes> free_bytes() const { return budget_->left(); }

  /// Does `work` if the device is there. The first that hears of its loss tells all.
  template <class Work>
  auto if_here(Work work) const -> decltype(work()) {
    return guarded([&]() -> decltype(work()) {
      GANTRY_TRY(core_->state());
      auto done = work();
      if (!done && done.error().code == Code::device_lost) core_->lose(done.error().message);
      return done;
    });
  }
  [[nodiscard]] tl::unexpected<Error> full(Bytes size) const;
  [[nodiscard]] const std::shared_ptr<DeviceCore>& core() const noexcept { return core_; }

 private:
  const DeviceFacts facts_;
  const std::shared_ptr<DeviceCore> core_;
  const std::shared_ptr<MemoryBudget> budget_;
};

}  // namespace gantry
