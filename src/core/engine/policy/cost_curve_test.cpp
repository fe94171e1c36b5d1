#include "core/engine/policy/policy.hpp"

#include <gtest/gtest.h>

namespace gantry {
namespace {

TEST(CostCurves, GoThroughTheirPoints) {
  CostCurve curve;
  curve.add(64, 40);
  curve.add(4096, 400);
  curve.add(65536, 4000);
  EXPECT_NEAR(curve.at(64), 40, 1e-6);
  EXPECT_NEAR(curve.at(4096), 400, 1e-6);
  EXPECT_NEAR(curve.at(65536), 4000, 1e-6);
}

TEST(CostCurves, AreStraightWhereBothAxesAreLogarithmic) {
  CostCurve curve;
  curve.add(1024, 100);
  curve.add(16384, 1600);
  EXPECT_NEAR(curve.at(4096), 400, 1e-6);  // as a pure rate would have it
}

TEST(CostCurves, KeepTheFirstCostBelowAndTheLastRateAbove) {
  CostCurve curve;
  curve.add(1024, 100);
  curve.add(2048, 128);
  EXPECT_NEAR(curve.at(1), 100, 1e-6);
  EXPECT_NEAR(curve.at(1 << 20), 65536, 1e-6);
  EXPECT_NEAR(curve.bytes_per_ns(), 16, 1e-6);
}

TEST(CostCurves, AreNothingWithoutPoints) {
  const CostCurve curve;
  EXPECT_TRUE(curve.empty());
  EXPECT_EQ(curve.at(4096), 0);
}

}  // namespace
}  // namespace gantry
