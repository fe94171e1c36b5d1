#pragma once  // schedule/run/device_steps.hpp: products on a device's queues, and what crosses
              // between host and device for them.

#include <array>
#include <gantry/gemm.hpp>
#include <gantry/memory.hpp>
#include <unordered_map>

#include "ranks/schedule/plan.hpp"
#include "ranks/schedule/run/host_steps.hpp"
#include "ranks/schedule/run/places.hpp"

namespace gantry {

/// The copies that come with one product, whose operands lie in the host's memory and are mirrored
/// on a device.
struct ProductTraffic {
  struct Operand {
    bool is_brought = false;  ///< The device has not got it, or the host has written it since.
    bool is_behind = false;   ///< Only once earlier products and copies to the host have ended.
  };
  std::array<Operand, 3> operands;  ///< a, b, and c if the product adds to it.
  bool is_taken = false;            ///< The host gets the result.
  bool is_behind_takes = false;     ///< Where it writes, an earlier result may be on its way yet.
};

/// By the number of the step. Each step sees what it would see if all products were the host's,
/// provided that steps which are no products wait for the end of those before them, and that a
/// queue of the device computes in the order of the plan. `is_mirrored`: by tensor; of others
/// nothing is copied.
[[nodiscard]] std::unordered_map<std::uint32_t, ProductTraffic> device_traffic(
    const Plan& plan, unsigned rank, const std::vector<bool>& is_mirrored);

/// Queues a rank's products as soon as they are pushed, however many are before them, with the
/// copies that they need; a thread sees them end. Tensors of the host are mirrored on the device.
/// One thread calls.
class DeviceSteps {
 public:
  /// `library`: null: open_gemm(device). `plan`, `places` and `ended` must outlive it. Errors:
  /// those of opening the library and queues; `device_full`; `unsupported` for a type.
  [[nodiscard]] static Result<std::unique_ptr<DeviceSteps>> start(
      const Plan& plan, unsigned rank, const PlanPlaces& places,
      const std::shared_ptr<Device>& device, std::shared_ptr<DeviceGemmLibrary> library,
      EndedSteps& ended);
  ~DeviceSteps();
  DeviceSteps(const DeviceSteps&) = delete;
  DeviceSteps& operator=(const DeviceSteps&) = delete;

  void push(std::uint32_t item, std::uint32_t step);
  /// Ends what is queued, and waits for what the device is at.
  void cancel() noexcept;
  [[nodiscard]] StepThread& thread() noexcept { return *thread_; }

 private:
  DeviceSteps(const Plan& plan, const PlanPlaces& places, std::shared_ptr<Device> device)
      : plan_(plan), places_(places), device_(std::move(device)) {}
  [[nodiscard]] Result<void> make_mirrors(unsigned rank);
  [[nodiscard]] Result<void> check_buffers(unsigned rank);
  void register_memory();
  [[nodiscard]] Result<DeviceEvent> submit(std::uint32_t step);
  [[nodiscard]] Result<void> bring(const PlanPlace& place, const ProductTraffic::Operand& operand);
  [[nodiscard]] Result<DeviceEvent> take(const PlanPlace& place);
  [[nodiscard]] DeviceMatrix matrix(const PlanPlace& place) const;

  const Plan& plan_;
  const PlanPlaces& places_;
  const std::shared_ptr<Device> device_;
  std::shared_ptr<DeviceGemmLibrary> library_;
  std::vector<DeviceBuffer> mirrors_;  // by tensor; of those that lie on the device none
  std::vector<Registration> registrations_;
  std::unordered_map<std::uint32_t, ProductTraffic> traffic_;
  std::unique_ptr<DeviceQueue> in_;
  std::unique_ptr<DeviceQueue> products_;
  std::unique_ptr<DeviceQueue> out_;
  DeviceEvent last_product_;
  DeviceEvent last_taken_;
  std::unique_ptr<StepThread> thread_;
};

}  // namespace gantry
