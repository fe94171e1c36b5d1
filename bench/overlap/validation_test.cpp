// When figures of the simulator are shown.
#include "validation.hpp"

#include <gtest/gtest.h>

#include "contest.hpp"

namespace gantry::bench {
namespace {

PredictionErrors errors(double most, double others) {
  return {others, others, others, others, others, others, others, others, others, most};
}

TEST(OverlapValidation, FiguresAreWithheldUnlessEachGroupWasPredicted) {
  std::map<unsigned, PredictionErrors> all;
  for (const unsigned ranks : {2u, 3u, 4u}) {
    EXPECT_EQ(why_withheld(all),
              "no group of " + std::to_string(ranks) + " ranks was measured in this call");
    all[ranks] = errors(0.2, 0.1);
  }
  EXPECT_EQ(why_withheld(all), std::nullopt);
  for (const unsigned ranks : {2u, 3u, 4u}) {
    auto wrong = all;
    wrong[ranks] = errors(0.12, 0.11);
    EXPECT_EQ(why_withheld(wrong),
              "predictions for " + std::to_string(ranks) +
                  " ranks were off by 0.11 on the median and 0.12 at the 90th percentile, of 0.10 "
                  "and 0.20 that are allowed");
    wrong[ranks] = errors(0.21, 0.01);
    EXPECT_NE(why_withheld(wrong), std::nullopt);
    wrong[ranks] = {};
    EXPECT_NE(why_withheld(wrong), std::nullopt);
  }
}

TEST(OverlapValidation, ErrorsAreThoseOfWhatWasMeasured) {
  Report report;
  const auto add = [&](const char* subject, std::string_view metric, double value) {
    report.rows.push_back({"c", subject, 0, metric, "ns", summarize({&value, 1})});
  };
  add("serial", kLatencyP50, 100);
  add("serial", kPredicted, 110);
  add("ring", kLatencyP50, 200);
  add("ring", kPredicted, 150);
  add("limit/ideal", kLatencyP50, 50);
  add("chosen", kLatencyP50, 200);  // the same as another one
  add("chosen", kPredicted, 900);
  const PredictionErrors found = errors_of(report, "c");
  ASSERT_EQ(found.size(), 2u);
  EXPECT_NEAR(found[0], 0.1, 1e-9);
  EXPECT_NEAR(found[1], 0.25, 1e-9);
  EXPECT_TRUE(errors_of(report, "d").empty());
  EXPECT_EQ(median_error({3, 1, 2}), 2);
  EXPECT_EQ(error_90({1, 2, 3, 4, 5, 6, 7, 8, 9, 10}), 10);
}

}  // namespace
}  // namespace gantry::bench
