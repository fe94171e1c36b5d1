#pragma once  // engine/policy/cost_curve.hpp: costs between measured sizes.

#include <gantry/types.hpp>
#include <vector>

namespace gantry {

/// Straight between measured points where both axes are logarithmic. Below the first point it has
/// that point's value, above the last point its rate.
class CostCurve {
 public:
  /// Sizes and costs are positive; sizes rise.
  void add(Bytes bytes, double ns);
  /// 0 if there is no point.
  [[nodiscard]] double at(Bytes bytes) const noexcept;
  [[nodiscard]] bool empty() const noexcept { return points_.empty(); }
  /// The rate at the largest size.
  [[nodiscard]] double bytes_per_ns() const noexcept;

 private:
  struct Point {
    Bytes bytes;
    double ns;
    double log_bytes;
    double log_ns;
  };
  std::vector<Point> points_;
};

}  // namespace gantry
