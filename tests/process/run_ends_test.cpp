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

// ---- conversions -------------------------------------------------------------------------------

// Three numbers of f32, and `rest`, by a channel that converts.
std::string converting(const std::string& as, const std::string& rest = {}) {
  return R"([stages.source]
shell = '''printf '\000\000\200\077\000\000\000\100\000\000\100\300)" +
         rest + R"(' | gantry put values'''
[stages.sink]
shell = "gantry get values > {out}"
[channels.values]
from = 'source'
to = 'sink'
as = ')" +
         as + "'\n";
}

TEST_F(EndsOfStages, BytesAreConvertedAsTheFileSays) {
  using namespace std::string_literals;
  const Ended run = scratch_.run(converting("f32 -> bf16"));
  EXPECT_EQ(run.status, 0) << run.errors;
  EXPECT_EQ(scratch_.read_results(), "\x80\x3f\x00\x40\x40\xc0"s);  // 1, 2, -3
  const Ended bytes = scratch_.run(converting("f32 -> i8"));
  EXPECT_EQ(bytes.status, 0) << bytes.errors;
  EXPECT_EQ(scratch_.read_results(), "\x01\x02\xfd"s);
  const Ended untyped = scratch_.run(converting("bf16"));
  EXPECT_EQ(untyped.status, 1);
  EXPECT_THAT(untyped.errors, HasSubstr("12 bytes without a tensor cannot become bf16; send a "
                                        "tensor, or say what they are: \"f32 -> bf16\""));
  const Ended wrong = scratch_.run(converting("f32 -> i9"));
  EXPECT_EQ(wrong.status, 1);
  EXPECT_THAT(wrong.errors,
              HasSubstr("channels.values.as: 'i9' is no type of elements; there are"));
}

TEST_F(EndsOfStages, OtherTransportsDoNotConvert) {
  for (const auto* option : {"--transport", "--compare"}) {
    const Ended run = scratch_.run(converting("f32 -> bf16"), {option, "pipe"});
    EXPECT_EQ(run.status, 1);
    EXPECT_THAT(last_line(run.errors),
                HasSubstr("channels.values.as: over pipe messages arrive as they were sent"));
  }
}

TEST_F(EndsOfStages, WhatIsLeftOverIsNamedByTheStage) {
  const Ended run = scratch_.run(converting("f32 -> bf16", "xyz"));
  EXPECT_EQ(run.status, 1);
  EXPECT_THAT(run.errors, HasSubstr("its last 3 B are too few to be converted, 'f32 -> bf16'"));
  EXPECT_EQ(scratch_.read_results().size(), 6u);  // all before them arrived
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
