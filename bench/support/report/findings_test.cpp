#include "findings.hpp"

#include <gmock/gmock.h>

namespace gantry::bench {
namespace {

using ::testing::HasSubstr;

class Findings : public ::testing::Test {
 protected:
  Findings() {
    for (auto [subject, value] : {std::pair("ours", 10.0), {"theirs", 20.0}})
      report_.rows.push_back({"64 B", subject, 64, kLatencyP50, "ns", summarize({&value, 1})});
  }
  [[nodiscard]] std::string missed() const {
    const auto error = missed_bars(report_);
    return error ? error->message : "";
  }

  Report report_{};
  Ratios ratios_{report_};
};

TEST_F(Findings, ThatMeetTheirBarsAreNoMisses) {
  ratios_.in_case("64 B", "theirs", "ours", Bar::at_least(2));
  ratios_.in_case("64 B", "ours", "theirs", Bar::none());
  EXPECT_EQ(missed(), "");
}

TEST_F(Findings, AMissIsNamedWithItsFigureAndBar) {
  ratios_.in_case("64 B", "theirs", "ours", Bar::at_least(2));
  ratios_.in_case("64 B", "theirs", "ours", Bar::at_most(1.5));
  EXPECT_EQ(missed(),
            "--judge: 1 of 2 bars are missed, the first: 64 B: theirs / ours is 2.000, wanted at "
            "most 1.5");
}

TEST_F(Findings, ARowThatIsMissingDoesNotDropItsBar) {
  ratios_.in_case("64 B", "theirs", "ours", Bar::at_least(2));
  ratios_.in_case("64 B", "others", "ours", Bar::at_least(1));  // not asked for, so far
  report_.skipped.push_back({"others", "it says nothing"});
  ratios_.in_case("64 B", "others", "ours", Bar::at_least(1));
  ratios_.in_case("64 B", "ours", "others", Bar::none());
  EXPECT_EQ(missed(),
            "--judge: 1 of 2 bars are missed, the first: 64 B: others / ours is not measured, "
            "wanted at least 1");
  EXPECT_THAT(findings_text(report_), HasSubstr("not measured"));
}

TEST_F(Findings, CasesThatNobodyAskedForHaveNoBar) {
  ratios_.in_case("1 MiB", "theirs", "ours", Bar::at_least(100));
  EXPECT_TRUE(report_.findings.empty());
}

}  // namespace
}  // namespace gantry::bench
