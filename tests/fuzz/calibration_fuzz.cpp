// A calibration read from a file: what is understood survives being written.
#include "core/calibration/calibration_text.hpp"
#include "fuzz/input.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace gantry;
  const auto calibration = read_calibration({reinterpret_cast<const char*>(data), size});
  if (!calibration) return 0;
  const std::string text = write_calibration(*calibration);
  const auto again = read_calibration(text);
  fuzz::require(again && write_calibration(*again) == text);
  return 0;
}
