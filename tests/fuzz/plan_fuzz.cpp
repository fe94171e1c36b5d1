// A plan read from a file: what is understood survives being written, and is checked or refused.
#include <gantry/plan.hpp>

#include "fuzz/input.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace gantry;
  const auto plan = parse_plan({reinterpret_cast<const char*>(data), size});
  if (!plan) return 0;
  const std::string text = to_text(*plan);
  const auto again = parse_plan(text);
  fuzz::require(again && to_text(*again) == text);
  fuzz::require(check_plan(*plan).has_value() == check_plan(*again).has_value());
  return 0;
}
