// gantry bench plot: draws what was measured before, and the README's picture is what it draws.
#include <gmock/gmock.h>

#include <sstream>

#include "../support/program/test_program.hpp"

namespace gantry::bench {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

const std::string kRoot = GANTRY_ROOT;

class BenchPlot : public BenchTest {
 protected:
  BenchPlot() : BenchTest("plot") {}
  [[nodiscard]] std::string file(const std::string& name, std::string_view text) const {
    std::ofstream(scratch_.path() + "/" + name) << text;
    return scratch_.path() + "/" + name;
  }
  /// One line, and no picture.
  void expect_refused(const Words& arguments, const std::string& what) const {
    const Ended ended = run(arguments);
    EXPECT_EQ(ended.status, 1);
    EXPECT_THAT(ended.errors, StartsWith("gantry: bench plot: "));
    EXPECT_THAT(ended.errors, HasSubstr(what));
    EXPECT_EQ(std::count(ended.errors.begin(), ended.errors.end(), '\n'), 1) << ended.errors;
    EXPECT_FALSE(std::filesystem::exists(picture_));
  }

  std::string report_ = file("report.json", R"({"bench": "x", "results": [
    {"case": "64 B", "subject": "a", "bytes": 64, "metric": "throughput", "unit": "GB/s",
     "value": 1, "min": 1, "max": 1, "rounds": 1},
    {"case": "64 B", "subject": "b", "bytes": 64, "metric": "throughput", "unit": "GB/s",
     "value": 2, "min": 1, "max": 3, "rounds": 1}]})");
  std::string picture_ = scratch_.path() + "/picture.svg";
};

// The command stands below the picture, for whoever wants to draw it anew.
TEST_F(BenchPlot, TheReadmesPictureIsOfTheCommittedFigures) {
  const std::string readme = text_of(kRoot + "/README.md");
  const std::string begin = "`gantry bench plot ";
  const auto at = readme.find(begin);
  ASSERT_NE(at, std::string::npos);
  std::istringstream command(readme.substr(at + begin.size(), readme.find('`', at + 1) - at));
  std::string report, picture, option, subjects;
  command >> report >> picture >> option >> subjects;
  subjects.resize(subjects.find('`'));
  EXPECT_THAT(readme, HasSubstr("](" + picture + ")"));
  const Ended ended = run({kRoot + "/" + report, picture_, option, subjects});
  ASSERT_EQ(ended.status, 0) << ended.errors;
  EXPECT_EQ(text_of(picture_), text_of(kRoot + "/" + picture)) << "draw it again";
}

TEST_F(BenchPlot, DrawsTheSubjectsThatAreWanted) {
  ASSERT_EQ(run({report_, picture_, "--subjects", "b"}).status, 0);
  EXPECT_THAT(text_of(picture_), HasSubstr(">b<"));
  EXPECT_THAT(text_of(picture_), Not(HasSubstr(">a<")));
  std::filesystem::remove(picture_);
  expect_refused({report_, picture_, "--subjects", "c"}, "--subjects: 'c': the report has no such");
}

TEST_F(BenchPlot, RefusesWhatIsNoReport) {
  for (const char* text : {"", "{}", "[1]", R"({"bench": "x", "results": [{"case": 1}]})",
                           R"({"bench": "x", "results": 7})"})
    expect_refused({file("none.json", text), picture_}, "this is no report of a benchmark");
  expect_refused({file("empty.json", R"({"bench": "x", "results": []})"), picture_},
                 "no figure to draw is in it");
  expect_refused({"/no/such/file", picture_}, "REPORT /no/such/file: No such file or directory");
}

TEST_F(BenchPlot, RefusesAPictureThatCannotBeWritten) {
  expect_refused({report_, "/no/such/folder.svg"}, "No such file or directory");
  expect_refused({report_, scratch_.path() + "/picture.png"}, "'.png' is no ending of an SVG file");
  expect_refused({report_, scratch_.path()}, "Is a directory");
}

TEST_F(BenchPlot, OnlyChecksWhenAsked) {
  const Ended ended = run({report_, picture_, "--check"});
  EXPECT_EQ(ended.status, 0) << ended.errors;
  EXPECT_THAT(ended.output, IsEmpty());
  EXPECT_FALSE(std::filesystem::exists(picture_));
}

}  // namespace
}  // namespace gantry::bench
