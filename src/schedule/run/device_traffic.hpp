#pragma once  // schedule/run/device_traffic.hpp: what crosses between host and device for products.

#include <array>
#include <unordered_map>

#include "schedule/plan.hpp"

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

}  // namespace gantry
