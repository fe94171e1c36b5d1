#pragma once  // fake_device.hpp: a device whose failures a test sets.

#include <gantry/device.hpp>
#include <map>
#include <mutex>

#include "core/base/result.hpp"
#include "device/cpu/cpu_device.hpp"

namespace gantry {

/// What goes wrong with which operation of a device, counted over its queues.
class FaultScript {
 public:
  /// The `number`-th operation from now on (1: the next) fails so.
  void fail_at(std::uint64_t number, Code code) {
    const std::lock_guard lock(mutex_);
    failures_[executed_ + number] = code;
  }
  [[nodiscard]] std::uint64_t executed() const {
    const std::lock_guard lock(mutex_);
    return executed_;
  }
  Result<void> next(std::string_view operation) {
    const std::lock_guard lock(mutex_);
    const auto found = failures_.find(++executed_);
    if (found == failures_.end()) return {};
    return fail(found->second, fmt::format("{} number {}: as scripted", operation, executed_));
  }

 private:
  mutable std::mutex mutex_;
  std::uint64_t executed_ = 0;
  std::map<std::uint64_t, Code> failures_;
};

/// Its memory is its own: nobody sees it but by copies, as with a device behind a bus.
inline Result<std::shared_ptr<Device>> make_fake_device(std::shared_ptr<FaultScript> script,
                                                        Bytes memory_bytes = 0) {
  return make_cpu_device(
      {.name = "fake",
       .threads = 2,
       .memory_bytes = memory_bytes,
       .before = [script = std::move(script)](
                     std::string_view operation) { return script->next(operation); },
       .host_visible = false});
}

}  // namespace gantry
