#include "core/calibration/calibration.hpp"

#include <gtest/gtest.h>

#include "core/engine/inline/inline_engine.hpp"
#include "core/engine/policy/test_engine.hpp"
#include "core/runtime/components.hpp"

namespace gantry {
namespace {

TEST(Calibrations, MeasureEveryEngineAtRisingSizes) {
  const std::vector<std::shared_ptr<Engine>> engines{*make_inline_engine()};
  double last = -1;
  const auto measured = measure_calibration(
      engines, {.quick = true,
                .on_step =
                    [&](std::string_view step, double done) {
                      EXPECT_FALSE(step.empty());
                      EXPECT_GE(done, last);
                      EXPECT_LE(done, 1);
                      last = done;
                      return true;
                    },
                .sample_reshape =
                    find_in_components([](const Component& one) { return one.sample_reshape; })});
  ASSERT_TRUE(measured) << measured.error().message;
  EXPECT_EQ(measured->source, Calibration::Source::quick);
  ASSERT_EQ(measured->engines.size(), 1u);
  const auto& points = measured->engines[0].points;
  ASSERT_GE(points.size(), 1u);
  for (std::size_t i = 0; i < points.size(); ++i) {
    EXPECT_GT(points[i].synchronous_ns, 0);
    EXPECT_GT(points[i].queued_ns, 0);
    EXPECT_GT(points[i].caller_ns, 0);
    EXPECT_GT(points[i].bytes, i > 0 ? points[i - 1].bytes : 0);
  }
  for (const auto& curve : measured->engines[0].reshapes) {
    ASSERT_GE(curve.size(), 1u);
    for (std::size_t i = 0; i < curve.size(); ++i) {
      EXPECT_GT(curve[i].synchronous_ns, 0);
      EXPECT_GT(curve[i].queued_ns, 0);
      EXPECT_GT(curve[i].caller_ns, 0);
      EXPECT_GT(curve[i].bytes, i > 0 ? curve[i - 1].bytes : 0);
    }
  }
  EXPECT_GT(measured->cache_share, 0u);
}

TEST(Calibrations, TakeAReshapeOfEachClass) {
  for (std::size_t i = 0; i < kReshapeClasses; ++i) {
    const auto kind = static_cast<ReshapeClass>(i);
    const auto plan =
        find_in_components([](const Component& one) { return one.sample_reshape; })(kind, 16384);
    ASSERT_TRUE(plan) << plan.error().message;
    EXPECT_EQ(plan->kind(), kind) << plan->text();
    EXPECT_LE(plan->destination_bytes(), 16384u);
    EXPECT_GT(plan->destination_bytes(), 16384u - 12);
  }
}

TEST(Calibrations, StopWhenTold) {
  const std::vector<std::shared_ptr<Engine>> engines{*make_inline_engine()};
  const auto measured = measure_calibration(
      engines, {.quick = true, .on_step = [](std::string_view, double) { return false; }});
  ASSERT_FALSE(measured);
  EXPECT_EQ(measured.error().code, Code::interrupted);
}

TEST(Calibrations, FailWithAnEngineThatFails) {
  const auto engine = std::make_shared<GatedEngine>("thread", CopyEngine::thread);
  engine->refuse();
  const std::vector<std::shared_ptr<Engine>> engines{engine};
  const auto measured = measure_calibration(engines, {.quick = true, .on_step = {}});
  ASSERT_FALSE(measured);
  EXPECT_EQ(measured.error().code, Code::closed);
}

}  // namespace
}  // namespace gantry
