#include "environment.hpp"

#include <fmt/format.h>

#include "../support/program/sizes.hpp"
#include "../support/run/calibration.hpp"

namespace gantry::bench {
namespace {

constexpr double kCopies = 2;  // the arrays, and what a device that is the host takes of them
constexpr double kGiB = 1 << 30;

// A device that is none says so itself.
std::string name_of(std::string_view kind, const DeviceFacts& facts) {
  const bool is_simulated = facts.about.find("simulated") != std::string::npos;
  return fmt::format("{}{}", is_simulated ? "simulated-" : "", kind);
}

}  // namespace

Result<Environment> Environment::open(const Settings& settings, Report& report) {
  Environment environment;
  auto fitting = sizes_that_fit(settings.common.sizes, report,
                                [](Bytes bytes) { return kCopies * static_cast<double>(bytes); });
  if (!fitting) return Unexpected(fitting.error());
  environment.sizes_ = *std::move(fitting);
  if (auto opened = environment.open_devices(settings, report); !opened)
    return Unexpected(opened.error());
  return environment;
}

Result<void> Environment::open_devices(const Settings& settings, Report& report) {
  if (auto calibrated = calibrate_if_needed(); !calibrated) return calibrated;
  auto runtime = Runtime::create();
  if (!runtime) return Unexpected(runtime.error());
  runtime_.emplace(std::move(*runtime));
  for (const std::string& kind : settings.devices) {
    auto device = runtime_->open_device(kind);
    if (!device) {
      report.skipped.push_back({kind, to_string(device.error())});
      continue;
    }
    const DeviceFacts& facts = (*device)->facts();
    tools_.push_back({name_of(kind, facts), *device, cut_for(facts)});
    report.chosen.push_back(
        {"", tools_.back().name,
         fmt::format("{}: {}; {} compute units, {:.1f} GiB{}", facts.name, facts.about,
                     facts.compute_units, static_cast<double>(facts.memory_bytes) / kGiB,
                     facts.unified_memory ? " of the host's memory" : "")});
  }
  if (!tools_.empty()) return {};
  return Unexpected(
      {Code::unsupported,
       fmt::format("{}: {}", report.skipped.back().subject, report.skipped.back().reason),
       "choose other --devices"});
}

}  // namespace gantry::bench
