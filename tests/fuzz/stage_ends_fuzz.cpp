// The text in which a launcher tells a stage its ends: what is understood survives being written.
#include <gantry/stage.hpp>

#include "fuzz/input.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace gantry;
  const auto ends = decode_stage_endpoints({reinterpret_cast<const char*>(data), size});
  if (!ends) return 0;
  const std::string text = encode_stage_endpoints(*ends);
  const auto again = decode_stage_endpoints(text);
  fuzz::require(again && encode_stage_endpoints(*again) == text);
  return 0;
}
