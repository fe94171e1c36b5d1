// The program as `gantry bench engine` starts it: its document, its complaints, what stays behind.

#include <gmock/gmock.h>

#include "../support/program/test_program.hpp"

namespace gantry::bench {
namespace {

using ::testing::AllOf;
using ::testing::Contains;

class BenchEngine : public BenchTest {
 protected:
  BenchEngine() : BenchTest("engine") {}

  json parts(const std::string& parts, const std::string& sizes = "4K") const {
    return document_of({"--sizes", sizes, "--seconds", "1", "--parts", parts});
  }
};

TEST_F(BenchEngine, EveryEngineCopiesBesideMemcpyOrHasAReason) {
  const json document = parts("copy,queued");
  expect_contract(document, name_);
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
  const json document = parts("copy");
  std::map<std::string, double> figures;
  for (const json& result : document.at("results"))
    if (result.at("case") == "copy/4 KiB" && result.at("subject") == "gantry/inline")
      figures[result.at("metric")] = result.at("value");
  EXPECT_GT(figures["caller_cpu_per_gb"], 0);
  EXPECT_DOUBLE_EQ(figures["cpu_per_gb"],
                   figures["caller_cpu_per_gb"] + figures["helper_cpu_per_gb"]);
}

TEST_F(BenchEngine, SizesThatAreNoPowerOfTwoHaveRoom) {
  const json document = parts("copy,queued,policy", "8,1000,1M");
  expect_contract(document, name_);
  const auto latency = subjects_by_case(document, "latency_p50");
  for (const char* name : {"copy/8 B", "copy/rotating/1000 B", "queued/16x1000 B", "copy/1 MiB"})
    EXPECT_TRUE(latency.contains(name)) << name;
}

TEST_F(BenchEngine, AnAsynchronousMoveIsChargedToCallerAndHelpers) {
  const json document = parts("async");
  expect_contract(document, name_);
  for (const char* metric : {"latency_p50", "caller_cpu", "helper_cpu", "total_cpu"}) {
    const auto subjects = subjects_by_case(document, metric)["async/4 KiB"];
    EXPECT_THAT(subjects, AllOf(Contains("memcpy"), Contains("gantry/inline"))) << metric;
    EXPECT_NE(subjects.contains("gantry/thread/computing"), is_skipped(document, "gantry/thread"));
    EXPECT_NE(subjects.contains("gantry/thread/sleeping"), is_skipped(document, "gantry/thread"));
  }
}

TEST_F(BenchEngine, WorkersBesideAndWaitingAreThereWithTheThreadEngine) {
  const json document = parts("fairness,waiting");
  expect_contract(document, name_);
  if (is_skipped(document, "gantry/thread")) GTEST_SKIP() << "no thread engine here";
  auto fairness = subjects_by_case(document, "latency_p99");
  EXPECT_THAT(fairness["fairness/2 KiB beside 4 KiB"],
              AllOf(Contains("gantry/thread/automatic"), Contains("gantry/thread/sleeping")));
  auto waiting = subjects_by_case(document, "waiting_cpu");
  for (const char* how : {"poll", "hybrid", "sleep", "automatic"})
    EXPECT_THAT(waiting["waiting/4 KiB"], Contains(std::string("gantry/thread/") + how));
}

TEST_F(BenchEngine, IdleCacheAndPolicyHaveTheirFigures) {
  const json document = parts("idle,cache,policy");
  expect_contract(document, name_);
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
  const json findings = parts("copy").at("findings");
  ASSERT_FALSE(findings.empty());
  for (const json& finding : findings) EXPECT_GT(finding.at("value"), 0) << finding;
  const auto copier = std::find_if(findings.begin(), findings.end(), [](const json& finding) {
    return finding.at("what") == "copy/4 KiB: gantry/copier / memcpy";
  });
  ASSERT_NE(copier, findings.end());
  EXPECT_EQ(copier->at("wanted"), "at least 0.97");
  EXPECT_EQ(copier->at("met").get<bool>(), copier->at("value").get<double>() >= 0.97);
}

TEST_F(BenchEngine, ConversionsAreBesideACopyAndAConversion) {
  const json document = parts("reshape");
  expect_contract(document, name_);
  const auto latency = subjects_by_case(document, "latency_p50");
  for (const char* name :
       {"reshape/f32 to bf16/4 KiB", "reshape/f32 to f16/4 KiB", "reshape/f32 to i8[32]/4 KiB",
        "reshape/pictures to f32/1x224x224x3", "reshape/pictures to f32/1x1x3840x3",
        "reshape/pictures to bf16/1x224x224x3", "reshape/pictures to bf16/1x1x3840x3"}) {
    ASSERT_TRUE(latency.contains(name)) << name;
    for (const char* subject :
         {"gantry/inline", "scalar", "limit/copy-source", "limit/read-source"})
      EXPECT_THAT(latency.at(name), Contains(subject)) << name;
    for (const char* subject : {"gantry/reshape", "copy-then-convert", "convert-then-copy"})
      EXPECT_NE(latency.at(name).contains(subject), is_skipped(document, "gantry/auto")) << name;
    const bool pictures = std::string(name).find("pictures") != std::string::npos;
    for (const char* peer : {"onednn/reorder", "opencv", "opencv/split"})
      EXPECT_EQ(latency.at(name).contains(peer),
                !is_skipped(document, peer) && pictures == (peer[1] == 'p'))
          << peer << " in " << name;
  }
  for (const char* metric : {"throughput", "cpu_per_gb", "convert_time", "read_time"})
    EXPECT_EQ(subjects_by_case(document, metric), latency) << metric;
  for (const json& finding : document.at("findings")) EXPECT_GT(finding.at("value"), 0) << finding;
}

// As on a machine without the packages.
TEST_F(BenchEngine, ConvertersThatWereNotBuiltAreSkippedWithTheReason) {
  const std::string folder = scratch_.path() + "/alone";
  std::filesystem::create_directory(folder);
  const std::string program = folder + "/gantry-bench-engine";
  std::filesystem::copy_file(program_of_bench(name_), program);
  const Ended ended = Program(program, scratch_.path(),
                              {"--rounds", "1", "--json", "--parts", "reshape", "--sizes", "4K"})
                          .wait();
  ASSERT_EQ(ended.status, 0) << ended.errors;
  const json document = json::parse(ended.output);
  for (const char* peer : {"onednn/reorder", "opencv", "opencv/split"})
    EXPECT_THAT(reason_of(document, peer), ::testing::HasSubstr("not built")) << peer;
  EXPECT_THAT(subjects_by_case(document, "latency_p50")["reshape/f32 to bf16/4 KiB"],
              Contains("scalar"));
}

TEST_F(BenchEngine, InstructionsAreCountedOrHaveAReason) {
  const json document = document_of({"--instructions", "--sizes", "64"});
  const auto subjects = subjects_by_case(document, "instructions")["instructions/64 B"];
  for (const char* subject : {"memcpy", "gantry/inline", "gantry/thread", "gantry/auto"})
    EXPECT_NE(subjects.contains(subject),
              is_skipped(document, std::string(subject) + " in instructions/64 B"))
        << subject;
  for (const json& result : document.at("results")) EXPECT_GT(result.at("value"), 0) << result;
}

TEST_F(BenchEngine, WhatDoesNotFitIsSkippedWithTheReason) {
  const json document = parts("copy", "4K,65536G");
  EXPECT_TRUE(is_skipped(document, "65536 GiB"));
  EXPECT_TRUE(subjects_by_case(document, "latency_p50").contains("copy/4 KiB"));
}

}  // namespace
}  // namespace gantry::bench
