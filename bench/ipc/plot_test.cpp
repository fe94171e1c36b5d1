#include "plot.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gantry::bench {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Row throughput(const char* name, const char* subject, Bytes bytes, double gb_per_s) {
  return {name, subject, bytes, kThroughput, "GB/s", {gb_per_s, gb_per_s, gb_per_s, 1}};
}

Report report_of(std::vector<Row> rows) {
  Report report;
  report.rows = std::move(rows);
  return report;
}

TEST(Plot, OneSizeIsNoLine) {
  EXPECT_EQ(plot_svg(report_of({throughput("64 B", "a", 64, 1)})), "");
}

TEST(Plot, TwiceTheSizeIsAlwaysTheSameStepToTheRight) {
  const auto svg =
      plot_svg(report_of({throughput("64 B", "a", 64, 1), throughput("128 B", "a", 128, 10),
                          throughput("256 B", "a", 256, 1)}));
  EXPECT_THAT(svg, HasSubstr("points=\"80.0,500.0 410.0,50.0 740.0,500.0 \""));
}

TEST(Plot, CasesThatAreNoSizesAreLeftOut) {
  const auto svg =
      plot_svg(report_of({throughput("64 B", "a", 64, 1), throughput("1 KiB", "a", 1024, 1),
                          throughput("in-flight-4/64 B", "b", 64, 1)}));
  EXPECT_THAT(svg, HasSubstr(">a<"));
  EXPECT_THAT(svg, Not(HasSubstr(">b<")));
}

}  // namespace
}  // namespace gantry::bench
