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

TEST(Plot, NothingIsNoPicture) {
  EXPECT_EQ(plot_svg(report_of({})), "");
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

TEST(Plot, OneSizeIsDots) {
  const auto svg = plot_svg(
      report_of({throughput("64 B", "gantry/sync", 64, 1), throughput("64 B", "b", 64, 10)}));
  EXPECT_THAT(svg, HasSubstr(">gantry/sync<"));
  EXPECT_THAT(svg, HasSubstr(">b<"));
  EXPECT_THAT(svg, HasSubstr(">10 GB/s<"));
  EXPECT_THAT(svg, Not(HasSubstr("polyline")));
}

// The axis goes from 1 ns at 330 to 100 ns at 770: each power of ten is as far.
TEST(Plot, DotsLieBetweenTheLeastAndTheMostOfTheRounds) {
  const Row row{"touch", "a", 0, kLatencyP50, "ns", {10, 1, 100, 3}};
  const auto svg = plot_svg(report_of({row}));
  EXPECT_THAT(svg, HasSubstr("x1=\"330.0\" y1=\"95.0\" x2=\"770.0\""));
  EXPECT_THAT(svg, HasSubstr("cx=\"550.0\""));
}

TEST(Plot, SubjectsOfACaseLieTogether) {
  const auto svg =
      plot_svg(report_of({throughput("one", "a", 0, 1), throughput("two", "b", 0, 1),
                          throughput("one", "c", 0, 1), throughput("one", "d", 0, 1)}));
  EXPECT_LT(svg.find(">a<"), svg.find(">c<"));
  EXPECT_LT(svg.find(">c<"), svg.find(">d<"));
  EXPECT_LT(svg.find(">d<"), svg.find(">b<"));
}

TEST(Plot, NamesAreNoMarkup) {
  const auto svg = plot_svg(report_of({throughput("a<b&c", "<script>", 0, 1)}));
  EXPECT_THAT(svg, HasSubstr(">a&lt;b&amp;c<"));
  EXPECT_THAT(svg, Not(HasSubstr("<script>")));
}

}  // namespace
}  // namespace gantry::bench
