// A collective read from a file: it is refused, or it becomes plans, each of which survives being
// written, and is checked or refused.
#include <gantry/collectives.hpp>

#include "fuzz/input.hpp"

namespace {

constexpr std::size_t kMostChecked = 2000;  // steps; more of them are the plans' matter

void try_shape(const gantry::CollectiveProgram& program, const gantry::CollectiveShape& shape) {
  using namespace gantry;
  const auto plan = expand(program, shape);
  if (!plan) {
    fuzz::require(plan.error().message.find('\n') == std::string::npos);
    return;
  }
  if (plan->steps.size() > kMostChecked) return;
  const std::string text = to_text(*plan);
  const auto again = parse_plan(text);
  fuzz::require(again && to_text(*again) == text);
  fuzz::require(check_plan(*plan).has_value() == check_plan(*again).has_value());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace gantry;
  const auto program = parse_collective({reinterpret_cast<const char*>(data), size});
  if (!program) {
    fuzz::require(program.error().message.find('\n') == std::string::npos);
    return 0;
  }
  try_shape(*program, {.ranks = 3, .size = 7, .chunks = 2, .root = 1});
  try_shape(*program, {.ranks = 2, .size = 9, .counts = {1, 2, 3, 4}});
  return 0;
}
