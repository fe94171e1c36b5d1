#pragma once  // bench/pipeline/environment.hpp: the devices of a run.

#include <gantry/runtime.hpp>
#include <optional>

#include "../support/report/report.hpp"
#include "kernel_text.hpp"
#include "settings.hpp"

namespace gantry::bench {

/// A device that is usable here.
struct Tool {
  std::string name;  ///< As subjects begin: "cuda", "simulated-cuda".
  std::shared_ptr<Device> device;
  Cut cut;

  [[nodiscard]] const DeviceFacts& facts() const noexcept { return device->facts(); }
  [[nodiscard]] bool is_cuda() const noexcept { return facts().kind == DeviceKind::cuda; }
};

class Environment {
 public:
  /// Devices that are not there, and sizes that the memory is too short for, go to the report as
  /// skipped. Errors: nothing is left.
  [[nodiscard]] static Result<Environment> open(const Settings& settings, Report& report);

  [[nodiscard]] const std::vector<Tool>& tools() const noexcept { return tools_; }
  [[nodiscard]] const std::vector<Bytes>& sizes() const noexcept { return sizes_; }

 private:
  Environment() = default;
  Result<void> open_devices(const Settings& settings, Report& report);

  std::optional<Runtime> runtime_;
  std::vector<Tool> tools_;
  std::vector<Bytes> sizes_;
};

}  // namespace gantry::bench
