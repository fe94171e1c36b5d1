#include "calibration.hpp"

#include <cstdlib>
#include <gantry/runtime.hpp>

#include "../system/posix.hpp"

namespace gantry::bench {

Result<void> calibrate_if_needed() {
  const char* wish = std::getenv("GANTRY_CALIBRATE");
  if (wish != nullptr && std::string_view(wish) == "off") return {};
  auto runtime = Runtime::create();
  if (!runtime) return Unexpected(runtime.error());
  if (runtime->calibration().kept) return {};
  const auto calibrated = runtime->calibrate({.quick = true});
  if (!calibrated && calibrated.error().code != Code::busy) return Unexpected(calibrated.error());
  return {};
}

}  // namespace gantry::bench
