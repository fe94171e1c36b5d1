// The program as `gantry bench memory` starts it: its document, its complaints, what stays behind.

#include <gmock/gmock.h>

#include "../support/program/test_program.hpp"

namespace gantry::bench {
namespace {

using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;

class BenchMemory : public RunningBenchTest {
 protected:
  BenchMemory() : RunningBenchTest("memory") {}

  /// The document of a short run of `part`.
  json part(const std::string& part, const Words& more = {}) const {
    Words arguments = {"--sizes", "8K", "--touch", "1M", "--parts", part};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return document_of(std::move(arguments));
  }
};

TEST_F(BenchMemory, EveryPatternHasEverySubjectWithEachRegistrarOrAReason) {
  const json document = part("blocks", {"--threads", "1", "--registrar", "page-lock,uring"});
  expect_contract(document, name_);
  auto subjects = subjects_by_case(document, "latency_p50");
  const json skipped = document.at("skipped");
  for (const std::string registrar : {"page-lock", "uring"}) {
    const bool is_out = std::any_of(skipped.begin(), skipped.end(), [&](const json& one) {
      return one.at("subject").get<std::string>().find(registrar) != std::string::npos;
    });
    if (is_out) continue;  // not on this machine, or too little may be locked here
    for (const std::string pattern : {"fixed/8 KiB", "lunasa-8k", "random"})
      EXPECT_THAT(
          subjects[registrar + "/" + pattern],
          UnorderedElementsAre("touch-and-register-each-time", "register-each-time", "malloc",
                               "malloc-64", "lru-cache", "gantry/pool-eager", "gantry/pool-lazy"))
          << registrar << "/" << pattern;
  }
}

TEST_F(BenchMemory, AQuickRunHasEveryRegistrarOrAReason) {
  const json document = part("blocks", {"--quick", "--threads", "1", "--patterns", "fixed"});
  expect_contract(document, name_);
  const auto subjects = subjects_by_case(document, "latency_p50");
  for (const std::string registrar : {"page-lock", "uring", "fabric-tcp", "fabric-shm", "cuda"}) {
    EXPECT_NE(is_skipped(document, registrar), subjects.contains(registrar + "/fixed/8 KiB"))
        << registrar;
  }
}

TEST_F(BenchMemory, ThreadsArePartOfTheCase) {
  const json document =
      part("blocks", {"--threads", "2", "--registrar", "page-lock", "--patterns", "fixed"});
  const auto subjects = subjects_by_case(document, "latency_p50");
  EXPECT_TRUE(subjects.contains("page-lock/fixed/8 KiB/2 threads"));
  EXPECT_FALSE(subjects.contains("page-lock/fixed/8 KiB"));
}

TEST_F(BenchMemory, ScalingGoesFromOneThreadToFour) {
  const json document = part("scaling", {"--registrar", "page-lock"});
  expect_contract(document, name_);
  const auto subjects = subjects_by_case(document, "throughput");
  for (const char* name : {"scaling/8 KiB", "scaling/8 KiB/2 threads", "scaling/8 KiB/3 threads",
                           "scaling/8 KiB/4 threads"}) {
    ASSERT_TRUE(subjects.contains(name)) << name;
    EXPECT_THAT(subjects.at(name), Contains("malloc")) << name;
  }
}

TEST_F(BenchMemory, ATouchedRegionIsUsedWithoutAFault) {
  const json document = part("touch", {"--registrar", "page-lock"});
  expect_contract(document, name_);
  EXPECT_THAT(subjects_by_case(document, "latency_p50")["touch/1 MiB"],
              UnorderedElementsAre("gantry/touch-one-thread", "gantry/touch-all-cores"));
  EXPECT_THAT(subjects_by_case(document, "minor_faults")["touch/1 MiB"],
              UnorderedElementsAre("gantry/second-use"));
}

TEST_F(BenchMemory, TransfersAreThereOrHaveAReason) {
  const json document = part("transfers", {"--registrar", "uring,fabric-tcp"});
  expect_contract(document, name_);
  EXPECT_FALSE(document.at("results").empty() && document.at("skipped").empty());
  for (const auto& [name, subjects] : subjects_by_case(document, "latency_p50")) {
    EXPECT_THAT(name, StartsWith("transfer/"));
    EXPECT_THAT(subjects, AnyOf(Contains("register-each-transfer"), Contains("gantry/own-block")))
        << name;
    if (subjects.contains("gantry/own-block")) {
      EXPECT_THAT(subjects, Contains("gantry/received-message")) << name;
    }
  }
}

TEST_F(BenchMemory, TransfersAreOfTheRegistrarsThatWereChosen) {
  const Ended ended = run({"--parts", "transfers", "--registrar", "page-lock"});
  EXPECT_NE(ended.status, 0);
  EXPECT_THAT(ended.errors, HasSubstr("none of the --parts is of these --registrar"));
}

TEST_F(BenchMemory, MoreThanTheMachineHoldsIsSkippedWithTheReason) {
  const json document =
      document_of({"--touch", "65536G", "--parts", "touch", "--registrar", "page-lock"});
  EXPECT_THAT(document.at("skipped").at(0).at("reason").get<std::string>(), HasSubstr("of memory"));
}

TEST_F(BenchMemory, AProcessThatIsKilledEndsTheRunWithItsName) {
  ASSERT_NO_FATAL_FAILURE(begin({"--sizes", "8K", "--rounds", "1000", "--registrar", "page-lock"},
                                "page-lock/fixed/8 KiB (1/", 7));
  ASSERT_EQ(::kill(children_.back(), SIGKILL), 0);
  const auto ended = bench_->wait();
  EXPECT_EQ(ended.status, 1);
  EXPECT_THAT(ended.errors, HasSubstr(" of page-lock/fixed/8 KiB died: signal 9 (Killed)"));
  expect_nobody_left();
}

}  // namespace
}  // namespace gantry::bench
