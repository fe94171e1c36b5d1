// The text in which a launcher tells a stage its ends: what is understood survives being written.
#include <gantry/runtime.hpp>

#include "fuzz/input.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace gantry;
  const auto ends = decode_stage_ends({reinterpret_cast<const char*>(data), size});
  if (!ends) return 0;
  const std::string text = encode_stage_ends(*ends);
  const auto again = decode_stage_ends(text);
  fuzz::require(again && encode_stage_ends(*again) == text);
  return 0;
}
