// The program as `gantry bench memory` starts it: its document, its complaints, what stays behind.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "../support/program/test_program.hpp"

namespace gantry::bench {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;

using Words = std::vector<std::string>;

/// The program's temporary files go where only this test looks.
class BenchMemory : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directory(temporary_); }
  void TearDown() override { EXPECT_TRUE(std::filesystem::is_empty(temporary_)); }

  Ended run(Words arguments) {
    return Program(GANTRY_BENCH_MEMORY, scratch_.path(), std::move(arguments)).wait();
  }
  /// The document of a short run of `parts`.
  json document_of(const std::string& parts, Words more = {}) {
    Words arguments = {"--rounds", "1",       "--sizes", "8K",    "--touch",
                       "1M",       "--parts", parts,     "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Ended ended = run(arguments);
    EXPECT_EQ(ended.status, 0) << ended.errors;
    return json::parse(ended.output);  // throws at anything before or after it
  }

  ScratchDirectory scratch_ = ScratchDirectory::create().value();
  std::string temporary_ = scratch_.path() + "/" + Program::kTemporary;
};

/// Which subjects have that metric in that case.
std::map<std::string, std::set<std::string>> subjects_by_case(const json& document,
                                                              const std::string& metric) {
  std::map<std::string, std::set<std::string>> subjects;
  for (const json& result : document.at("results"))
    if (result.at("metric") == metric)
      subjects[result.at("case")].insert(result.at("subject").get<std::string>());
  return subjects;
}

void expect_contract(const json& document) {
  EXPECT_EQ(document.at("bench"), "memory");
  EXPECT_TRUE(document.at("machine").contains("cpu_model"));
  for (const json& result : document.at("results")) {
    EXPECT_GE(result.at("value").get<double>(), result.at("min").get<double>()) << result;
    EXPECT_LE(result.at("value").get<double>(), result.at("max").get<double>()) << result;
    EXPECT_EQ(result.at("rounds"), 1) << result;
    EXPECT_NE(result.at("unit"), "") << result;
    EXPECT_GT(result.at("bytes"), 0) << result;
  }
  for (const json& skipped : document.at("skipped")) EXPECT_NE(skipped.at("reason"), "") << skipped;
}

TEST_F(BenchMemory, EveryPatternHasEverySubjectWithEachRegistrarOrAReason) {
  const json document = document_of("blocks", {"--threads", "1", "--registrar", "page-lock,uring"});
  expect_contract(document);
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
  const json document = document_of("blocks", {"--quick", "--threads", "1", "--patterns", "fixed"});
  expect_contract(document);
  const auto subjects = subjects_by_case(document, "latency_p50");
  for (const std::string registrar : {"page-lock", "uring", "fabric-tcp", "fabric-shm", "cuda"}) {
    const json& skipped = document.at("skipped");
    const bool is_out = std::any_of(skipped.begin(), skipped.end(), [&](const json& one) {
      return one.at("subject") == registrar;
    });
    EXPECT_NE(is_out, subjects.contains(registrar + "/fixed/8 KiB")) << registrar;
  }
}

TEST_F(BenchMemory, ThreadsArePartOfTheCase) {
  const json document =
      document_of("blocks", {"--threads", "2", "--registrar", "page-lock", "--patterns", "fixed"});
  const auto subjects = subjects_by_case(document, "latency_p50");
  EXPECT_TRUE(subjects.contains("page-lock/fixed/8 KiB/2 threads"));
  EXPECT_FALSE(subjects.contains("page-lock/fixed/8 KiB"));
}

TEST_F(BenchMemory, ScalingGoesFromOneThreadToFour) {
  const json document = document_of("scaling", {"--registrar", "page-lock"});
  expect_contract(document);
  const auto subjects = subjects_by_case(document, "throughput");
  for (const char* name : {"scaling/8 KiB", "scaling/8 KiB/2 threads", "scaling/8 KiB/3 threads",
                           "scaling/8 KiB/4 threads"}) {
    ASSERT_TRUE(subjects.contains(name)) << name;
    EXPECT_THAT(subjects.at(name), Contains("malloc")) << name;
  }
}

TEST_F(BenchMemory, ATouchedRegionIsUsedWithoutAFault) {
  const json document = document_of("touch", {"--registrar", "page-lock"});
  expect_contract(document);
  EXPECT_THAT(subjects_by_case(document, "latency_p50")["touch/1 MiB"],
              UnorderedElementsAre("gantry/touch-one-thread", "gantry/touch-all-cores"));
  EXPECT_THAT(subjects_by_case(document, "minor_faults")["touch/1 MiB"],
              UnorderedElementsAre("gantry/second-use"));
}

TEST_F(BenchMemory, TransfersAreThereOrHaveAReason) {
  const json document = document_of("transfers", {"--registrar", "page-lock"});
  expect_contract(document);
  EXPECT_FALSE(document.at("results").empty() && document.at("skipped").empty());
  for (const auto& [name, subjects] : subjects_by_case(document, "latency_p50")) {
    EXPECT_THAT(name, StartsWith("transfer/"));
    EXPECT_THAT(subjects, Contains("register-each-transfer")) << name;
  }
}

TEST_F(BenchMemory, TableEndsWithTheRatios) {
  const Ended ended = run({"--sizes", "8K", "--rounds", "1", "--threads", "1", "--registrar",
                           "page-lock", "--parts", "blocks", "--patterns", "fixed"});
  ASSERT_EQ(ended.status, 0) << ended.errors;
  EXPECT_THAT(ended.output,
              AllOf(HasSubstr("page-lock/fixed/8 KiB"), HasSubstr("ratios of medians"),
                    HasSubstr("8 KiB: gantry/pool-eager / malloc-64")));
}

TEST_F(BenchMemory, MoreThanTheMachineHoldsIsSkippedWithTheReason) {
  const Ended ended =
      run({"--touch", "65536G", "--parts", "touch", "--registrar", "page-lock", "--json"});
  ASSERT_EQ(ended.status, 0) << ended.errors;
  EXPECT_THAT(json::parse(ended.output).at("skipped").at(0).at("reason").get<std::string>(),
              HasSubstr("of memory"));
}

TEST_F(BenchMemory, HelpHasAnExample) {
  const Ended ended = run({"--help"});
  EXPECT_EQ(ended.status, 0);
  EXPECT_THAT(ended.output, HasSubstr("Example: gantry bench memory"));
}

struct Wrong {
  Words arguments;
  const char* complaint;
};

class BenchMemoryWrongUsage : public BenchMemory, public ::testing::WithParamInterface<Wrong> {};

TEST_P(BenchMemoryWrongUsage, IsOneLineAndStatus2) {
  const Ended ended = run(GetParam().arguments);
  EXPECT_EQ(ended.status, 2);
  EXPECT_THAT(ended.output, IsEmpty());
  EXPECT_THAT(ended.errors, StartsWith("gantry: bench memory: "));
  EXPECT_THAT(ended.errors, HasSubstr(GetParam().complaint));
  EXPECT_EQ(std::count(ended.errors.begin(), ended.errors.end(), '\n'), 1) << ended.errors;
}

INSTANTIATE_TEST_SUITE_P(All, BenchMemoryWrongUsage,
                         ::testing::Values(Wrong{{"--sizes", "64x"}, "unknown unit"},
                                           Wrong{{"--threads", "0"}, "not a number of threads"},
                                           Wrong{{"--threads", "1,,2"}, "not a number of threads"},
                                           Wrong{{"--registrar", "scsi"}, "there are: page-lock"},
                                           Wrong{{"--parts", "all,none"}, "there are: blocks"},
                                           Wrong{{"--touch", "much"}, "--touch"},
                                           Wrong{{"--rounds", "0"}, "--rounds"},
                                           Wrong{{"--patterns", "zigzag"}, "there are: fixed"},
                                           Wrong{{"extra"}, "extra"}));

/// A run that goes on until it is stopped, with all its processes there.
class BenchMemoryRunning : public BenchMemory {
 protected:
  void SetUp() override {
    BenchMemory::SetUp();
    ASSERT_EQ(::prctl(PR_SET_CHILD_SUBREAPER, 1), 0);  // orphans come to us
    bench_.emplace(GANTRY_BENCH_MEMORY, scratch_.path(),
                   Words{"--sizes", "8K", "--rounds", "1000", "--registrar", "page-lock"});
    ASSERT_TRUE(bench_->wait_for("page-lock/fixed/8 KiB (1/"));
    while (children_.size() < 7) children_ = children_of(bench_->pid());
  }

  void expect_nobody_left() {
    for (const int child : children_) EXPECT_FALSE(runs(child)) << child;
  }

  std::optional<Program> bench_;
  std::vector<int> children_;
};

TEST_F(BenchMemoryRunning, AnInterruptIsStatus130AndLeavesNothing) {
  for (const int child : children_) ::kill(child, SIGINT);  // a terminal signals all of them
  bench_->signal(SIGINT);
  const auto ended = bench_->wait();
  EXPECT_EQ(ended.status, 130) << ended.errors;
  EXPECT_THAT(ended.errors, HasSubstr("gantry: bench memory: interrupted\n"));
  expect_nobody_left();
}

TEST_F(BenchMemoryRunning, AProcessThatIsKilledEndsTheRunWithItsName) {
  ASSERT_EQ(::kill(children_.back(), SIGKILL), 0);
  const auto ended = bench_->wait();
  EXPECT_EQ(ended.status, 1);
  EXPECT_THAT(ended.errors, HasSubstr(" of page-lock/fixed/8 KiB died: signal 9 (Killed)"));
  expect_nobody_left();
}

}  // namespace
}  // namespace gantry::bench
