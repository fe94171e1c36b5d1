#pragma once  // engine/policy/cost_curve.hpp: a cost between the sizes at which it was measured.

#include <gantry/types.hpp>
#include <vector>

namespace gantry {

/// Straight between measured points where both axes are logarithmic; below the first point its
/// value, above the last point its rate.
class CostCurve {
 public:
  /// Sizes and costs are positive, sizes rise.
  void add(Bytes bytes, double ns);
  /// 0 without any point.
  [[nodiscard]] double at(Bytes bytes) const noexcept;
  [[nodiscard]] bool empty() const noexcept { return points_.empty(); }
  /// Of the largest size.
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
