#include "engine/policy/cost_curve.hpp"

#include <algorithm>
#include <cmath>

namespace gantry {

void CostCurve::add(Bytes bytes, double ns) {
  points_.push_back({bytes, ns, std::log2(static_cast<double>(bytes)), std::log2(ns)});
}

double CostCurve::at(Bytes bytes) const noexcept {
  if (points_.empty()) return 0;
  const auto above = std::ranges::lower_bound(points_, bytes, {}, &Point::bytes);
  if (above == points_.begin()) return points_.front().ns;
  if (above == points_.end()) return static_cast<double>(bytes) / bytes_per_ns();
  const Point& low = *(above - 1);
  const double part =
      (std::log2(static_cast<double>(bytes)) - low.log_bytes) / (above->log_bytes - low.log_bytes);
  return std::exp2(low.log_ns + part * (above->log_ns - low.log_ns));
}

double CostCurve::bytes_per_ns() const noexcept {
  return points_.empty() ? 1 : static_cast<double>(points_.back().bytes) / points_.back().ns;
}

}  // namespace gantry
