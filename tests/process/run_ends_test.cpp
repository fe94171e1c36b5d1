// `gantry put` and `gantry get` as ends of stages: with replicas, and under names that are none.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <sstream>
#include <vector>

#include "run_support.hpp"

namespace gantry::test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class EndsOfStages : public testing::Test {
 protected:
  /// A copier of two replicas between two stages of shell.
  static std::string of_put(const std::string& source, const std::string& copier) {
    return "[stages.source]\nshell = \"seq 1 1000 | gantry put in " + source +
           "\"\n[stages.copier]\nshell = \"gantry get in | gantry put out " + copier +
           "\"\nreplicas = 2\n[stages.sink]\nshell = \"gantry get out > {out}\"\n"
           "[channels.in]\nfrom = 'source'\nto = 'copier'\n"
           "[channels.out]\nfrom = 'copier'\nto = 'sink'\n";
  }
  RunScratch scratch_;
};

TEST_F(EndsOfStages, AStreamOfBytesIsNotDealtOutToThem) {
  const Ended run = scratch_.run(of_put("", "--lines"));
  EXPECT_EQ(run.status, 1) << run.errors;
  EXPECT_THAT(last_line(run.errors), HasSubstr("stage source"));
  EXPECT_THAT(run.errors, HasSubstr("[source] gantry: stage output 'in': its messages would be "
                                    "pieces of a stream, and they go to 2 replicas in turn; "));
}

TEST_F(EndsOfStages, TheirStreamsOfBytesAreNotMixed) {
  const Ended run = scratch_.run(of_put("--lines", ""));
  EXPECT_EQ(run.status, 1) << run.errors;
  EXPECT_THAT(run.errors, HasSubstr("gantry: stage output 'out': its messages would be pieces of "
                                    "a stream, and they come from 2 replicas at once; "));
}

TEST_F(EndsOfStages, MessagesThatStandAloneAllArrive) {
  for (const char* alone : {"--lines", "--records --message-size 1M"}) {
    const Ended run = scratch_.run(of_put(alone, "--lines"));
    ASSERT_EQ(run.status, 0) << run.errors;
    std::istringstream words(scratch_.read_results());
    std::vector<int> numbers{std::istream_iterator<int>(words), {}};
    std::ranges::sort(numbers);
    ASSERT_EQ(numbers.size(), 1000u);
    for (int i = 0; i < 1000; ++i) ASSERT_EQ(numbers[static_cast<std::size_t>(i)], i + 1);
  }
}

// ---- names -------------------------------------------------------------------------------------

TEST_F(EndsOfStages, ANameThatNoChannelHasIsAnErrorAtOnce) {
  const Ended run = scratch_.run(
      "[stages.source]\nshell = \"seq 1 5 | gantry put bytes\"\n"
      "[stages.sink]\nshell = \"gantry get byte > {out}\"\n"
      "[channels.bytes]\nfrom = 'source'\nto = 'sink'\n");
  EXPECT_EQ(run.status, 1) << run.errors;
  EXPECT_THAT(last_line(run.errors), StartsWith("gantry: stage sink: exited with status 1; "));
  EXPECT_THAT(run.errors, HasSubstr("[sink] gantry: stage input 'byte': not in the pipeline file; "
                                    "this stage's inputs: 'bytes'\n"));
  const Ended turned = scratch_.run(
      "[stages.source]\nshell = \"gantry get bytes\"\n"
      "[stages.sink]\nshell = \"gantry get bytes > {out}\"\n"
      "[channels.bytes]\nfrom = 'source'\nto = 'sink'\n");
  EXPECT_EQ(turned.status, 1) << turned.errors;
  EXPECT_THAT(turned.errors, HasSubstr("stage input 'bytes': this stage has it the other way "));
}

}  // namespace
}  // namespace gantry::test
