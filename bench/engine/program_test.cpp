// The program as `gantry bench engine` starts it: its document, its complaints, what stays behind.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

using Words = std::vector<std::string>;

/// The program's temporary files go where only this test looks.
class BenchEngine : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directory(temporary_); }
  void TearDown() override { EXPECT_TRUE(std::filesystem::is_empty(temporary_)); }

  Ended run(Words arguments) {
    return Program(GANTRY_BENCH_ENGINE, scratch_.path(), std::move(arguments)).wait();
  }
  /// The document of a short run of `parts`.
  json document_of(const std::string& parts, const std::string& sizes = "4K") {
    const Ended ended =
        run({"--rounds", "1", "--sizes", sizes, "--seconds", "1", "--parts", parts, "--json"});
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

bool is_skipped(const json& document, const std::string& subject) {
  const json& skipped = document.at("skipped");
  return std::any_of(skipped.begin(), skipped.end(),
                     [&](const json& one) { return one.at("subject") == subject; });
}

void expect_contract(const json& document) {
  EXPECT_EQ(document.at("bench"), "engine");
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

TEST_F(BenchEngine, EveryEngineCopiesBesideMemcpyOrHasAReason) {
  const json document = document_of("copy,queued");
  expect_contract(document);
  const auto latency = subjects_by_case(document, "latency_p50");
  for (const char* name : {"copy/4 KiB", "copy/rotating/4 KiB", "queued/16x4 KiB"}) {
    ASSERT_TRUE(latency.contains(name)) << name;
    EXPECT_THAT(latency.at(name), AllOf(Contains("memcpy"), Contains("gantry/inline"))) << name;
    for (const char* engine : {"gantry/thread", "gantry/dsa", "gantry/auto"})
      EXPECT_NE(latency.at(name).contains(engine), is_skipped(document, engine)) << engine;
  }
  EXPECT_THAT(latency.at("copy/4 KiB"), Contains("gantry/copier"));
  for (const char* metric : {"throughput", "cpu_per_gb", "caller_cpu_per_gb", "helper_cpu_per_gb"})
    EXPECT_EQ(subjects_by_case(document, metric), latency) << metric;
}

TEST_F(BenchEngine, CpuTimeIsThatOfCallerAndHelpers) {
  const json document = document_of("copy");
  std::map<std::string, double> figures;
  for (const json& result : document.at("results"))
    if (result.at("case") == "copy/4 KiB" && result.at("subject") == "gantry/inline")
      figures[result.at("metric")] = result.at("value");
  EXPECT_GT(figures["caller_cpu_per_gb"], 0);
  EXPECT_DOUBLE_EQ(figures["cpu_per_gb"],
                   figures["caller_cpu_per_gb"] + figures["helper_cpu_per_gb"]);
}

TEST_F(BenchEngine, SizesThatAreNoPowerOfTwoHaveRoom) {
  const json document = document_of("copy,queued,policy", "8,1000,1M");
  expect_contract(document);
  const auto latency = subjects_by_case(document, "latency_p50");
  for (const char* name : {"copy/8 B", "copy/rotating/1000 B", "queued/16x1000 B", "copy/1 MiB"})
    EXPECT_TRUE(latency.contains(name)) << name;
}

TEST_F(BenchEngine, AnAsynchronousMoveIsChargedToCallerAndHelpers) {
  const json document = document_of("async");
  expect_contract(document);
  for (const char* metric : {"latency_p50", "caller_cpu", "helper_cpu", "total_cpu"}) {
    const auto subjects = subjects_by_case(document, metric)["async/4 KiB"];
    EXPECT_THAT(subjects, AllOf(Contains("memcpy"), Contains("gantry/inline"))) << metric;
    EXPECT_NE(subjects.contains("gantry/thread/computing"), is_skipped(document, "gantry/thread"));
    EXPECT_NE(subjects.contains("gantry/thread/sleeping"), is_skipped(document, "gantry/thread"));
  }
}

TEST_F(BenchEngine, WorkersBesideAndWaitingAreThereWithTheThreadEngine) {
  const json document = document_of("fairness,waiting");
  expect_contract(document);
  if (is_skipped(document, "gantry/thread")) GTEST_SKIP() << "no thread engine here";
  auto fairness = subjects_by_case(document, "latency_p99");
  EXPECT_THAT(fairness["fairness/2 KiB beside 4 KiB"],
              AllOf(Contains("gantry/thread/automatic"), Contains("gantry/thread/sleeping")));
  auto waiting = subjects_by_case(document, "waiting_cpu");
  for (const char* how : {"poll", "hybrid", "sleep", "automatic"})
    EXPECT_THAT(waiting["waiting/4 KiB"], Contains(std::string("gantry/thread/") + how));
}

TEST_F(BenchEngine, IdleCacheAndPolicyHaveTheirFigures) {
  const json document = document_of("idle,cache,policy");
  expect_contract(document);
  auto idle = subjects_by_case(document, "helper_cpu");
  EXPECT_TRUE(idle["idle/1 s"].contains("gantry/all-engines") ||
              is_skipped(document, "gantry/all-engines in idle/1 s"));  // a kernel without counts
  for (const char* metric : {"copy_time", "read_time", "latency_p50"})
    EXPECT_THAT(subjects_by_case(document, metric)["cache/4 KiB"],
                AllOf(Contains("memcpy"), Contains("gantry/inline/reader_soon"),
                      Contains("gantry/inline/streaming"), Contains("gantry/inline/automatic")));
  auto explained = subjects_by_case(document, "explained_as_counted");
  for (const char* name : {"policy/synchronous/4 KiB", "policy/queued/4 KiB"})
    EXPECT_NE(explained[name].contains("gantry/auto"), is_skipped(document, "gantry/auto"));
}

TEST_F(BenchEngine, FindingsSayWhatWasWantedAndWhetherItIsMet) {
  const json findings = document_of("copy").at("findings");
  ASSERT_FALSE(findings.empty());
  for (const json& finding : findings) EXPECT_GT(finding.at("value"), 0) << finding;
  const auto copier = std::find_if(findings.begin(), findings.end(), [](const json& finding) {
    return finding.at("what") == "copy/4 KiB: gantry/copier / memcpy";
  });
  ASSERT_NE(copier, findings.end());
  EXPECT_EQ(copier->at("wanted"), "at least 0.97");
  EXPECT_EQ(copier->at("met").get<bool>(), copier->at("value").get<double>() >= 0.97);
}

TEST_F(BenchEngine, TableEndsWithTheRatios) {
  const Ended ended = run({"--sizes", "4K", "--rounds", "1", "--parts", "copy"});
  ASSERT_EQ(ended.status, 0) << ended.errors;
  EXPECT_THAT(ended.output, AllOf(HasSubstr("copy/rotating/4 KiB"), HasSubstr("ratios of medians"),
                                  HasSubstr("copy/4 KiB: gantry/copier / memcpy")));
}

TEST_F(BenchEngine, InstructionsAreCountedOrHaveAReason) {
  const Ended ended = run({"--instructions", "--sizes", "64", "--json"});
  ASSERT_EQ(ended.status, 0) << ended.errors;
  const json document = json::parse(ended.output);
  const auto subjects = subjects_by_case(document, "instructions")["instructions/64 B"];
  for (const char* subject : {"memcpy", "gantry/inline", "gantry/thread", "gantry/auto"})
    EXPECT_NE(subjects.contains(subject),
              is_skipped(document, std::string(subject) + " in instructions/64 B"))
        << subject;
  for (const json& result : document.at("results")) EXPECT_GT(result.at("value"), 0) << result;
}

TEST_F(BenchEngine, WhatDoesNotFitIsSkippedWithTheReason) {
  const Ended ended = run({"--sizes", "4K,65536G", "--rounds", "1", "--parts", "copy", "--json"});
  ASSERT_EQ(ended.status, 0) << ended.errors;
  const json document = json::parse(ended.output);
  EXPECT_TRUE(is_skipped(document, "65536 GiB"));
  EXPECT_TRUE(subjects_by_case(document, "latency_p50").contains("copy/4 KiB"));
}

TEST_F(BenchEngine, NothingThatFitsIsRefusedAtOnce) {
  const Ended ended = run({"--sizes", "65536G"});
  EXPECT_EQ(ended.status, 1);
  EXPECT_THAT(ended.errors, AllOf(StartsWith("gantry: bench engine: 65536 GiB: needs "),
                                  HasSubstr("choose smaller --sizes")));
}

TEST_F(BenchEngine, HelpHasAnExample) {
  const Ended ended = run({"--help"});
  EXPECT_EQ(ended.status, 0);
  EXPECT_THAT(ended.output, HasSubstr("Example: gantry bench engine"));
}

struct Wrong {
  Words arguments;
  const char* complaint;
};

class BenchEngineWrongUsage : public BenchEngine, public ::testing::WithParamInterface<Wrong> {};

TEST_P(BenchEngineWrongUsage, IsOneLineAndStatus2) {
  const Ended ended = run(GetParam().arguments);
  EXPECT_EQ(ended.status, 2);
  EXPECT_THAT(ended.output, IsEmpty());
  EXPECT_THAT(ended.errors, StartsWith("gantry: bench engine: "));
  EXPECT_THAT(ended.errors, HasSubstr(GetParam().complaint));
  EXPECT_EQ(std::count(ended.errors.begin(), ended.errors.end(), '\n'), 1) << ended.errors;
}

INSTANTIATE_TEST_SUITE_P(All, BenchEngineWrongUsage,
                         ::testing::Values(Wrong{{"--sizes", "64x"}, "unknown unit"},
                                           Wrong{{"--parts", "copy,none"}, "there are: copy"},
                                           Wrong{{"--seconds", "0"}, "not a number of seconds"},
                                           Wrong{{"--seconds", "5s"}, "not a number of seconds"},
                                           Wrong{{"--rounds", "0"}, "--rounds"},
                                           Wrong{{"--bogus"}, "--bogus"},
                                           Wrong{{"extra"}, "extra"}));

TEST_F(BenchEngine, AnInterruptIsStatus130) {
  Program bench(GANTRY_BENCH_ENGINE, scratch_.path(),
                {"--sizes", "4K", "--rounds", "1000", "--parts", "copy"});
  ASSERT_TRUE(bench.wait_for("copy/4 KiB (1/"));
  bench.signal(SIGINT);
  const Ended ended = bench.wait();
  EXPECT_EQ(ended.status, 130) << ended.errors;
  EXPECT_THAT(ended.errors, HasSubstr("gantry: bench engine: interrupted\n"));
}

}  // namespace
}  // namespace gantry::bench
