// The program as `gantry bench pipeline` starts it: its document, its trace, its complaints.

#include <gmock/gmock.h>

#include "../support/program/test_program.hpp"

namespace gantry::bench {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::UnorderedElementsAre;

const Names kCases = {"vector-add",     "saxpy",       "black-scholes", "dot-product", "mandelbrot",
                      "monte-carlo-pi", "convolution", "matrix-vector", "dft",         "histogram"};
const Names kModes = {"sequential",        "sequential-pinned", "overlapped-pageable",
                      "overlapped-pinned", "unbatched",         "automatic"};

class BenchPipeline : public BenchTest {
 protected:
  BenchPipeline() : BenchTest("pipeline") {}

  /// The document of a short run.
  json jobs(const Words& more, const std::string& sizes = "1M") const {
    Words arguments = {"--sizes", sizes};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return document_of(std::move(arguments));
  }
};

/// Which subjects have that metric in that case.
Names subjects_of(const json& document, const std::string& case_name, const std::string& metric) {
  return subjects_by_case(document, metric)[case_name];
}

double figure_of(const json& document, const std::string& subject, const std::string& metric) {
  for (const json& result : document.at("results"))
    if (result.at("metric") == metric && result.at("subject") == subject) return result.at("value");
  ADD_FAILURE() << subject << " has no " << metric;
  return 0;
}

void expect_jobs(const json& document) {
  expect_contract(document, "pipeline");
  EXPECT_FALSE(document.at("machine").contains("pinned_cpus"));
  ASSERT_FALSE(document.at("results").empty());
}

// ---- what is measured ----------------------------------------------------------------------

TEST_F(BenchPipeline, EveryCaseIsRightInEveryMode) {
  const json document = jobs({"--devices", "cpu"});
  expect_jobs(document);
  Names subjects;
  for (const std::string& mode : kModes) subjects.insert("cpu/" + mode);
  for (const std::string& name : kCases)
    for (const char* metric :
         {"latency_p50", "throughput", "cpu_per_gb", "overlap_efficiency", "copy_share", "setup",
          "acquisition", "latency_with_acquisition", "copy_in_time", "compute_time",
          "copy_out_time", "chunks", "chunk_bytes", "depth", "device_bytes", "ring_bytes"})
      EXPECT_THAT(subjects_of(document, name + "/1 MiB", metric), IsSupersetOf(subjects))
          << name << " " << metric;
  EXPECT_THAT(subjects_of(document, "dft/1 MiB", "throughput"), Contains("limit/single-copy"));
}

TEST_F(BenchPipeline, FilesAreRightByEveryWayThatIsThere) {
  const json document = jobs({"--devices", "cpu", "--cases",
                              "file-histogram,file-histogram-cold,file-scale,file-scale-cold"},
                             "1M,1000001");
  expect_jobs(document);
  const bool has_rings = reason_of(document, "cpu/io_uring").empty();
  for (const char* name : {"file-histogram/1 MiB", "file-histogram-cold/1 MiB", "file-scale/1 MiB",
                           "file-scale-cold/1 MiB", "file-scale/1000001 B"}) {
    Names ways = {"cpu/blocking", "cpu/pread", "limit/single-copy"};
    if (has_rings) ways.insert("cpu/io_uring");
    EXPECT_EQ(subjects_of(document, name, "throughput"), ways) << name;
  }
  Names said;
  for (const json& finding : document.at("findings")) said.insert(finding.at("what"));
  EXPECT_THAT(said, Contains("file-scale/1 MiB: cpu/pread / cpu/blocking"));
}

TEST_F(BenchPipeline, EveryCaseIsRightOnOpenClOrItHasAReason) {
  const json document =
      jobs({"--devices", "cpu,opencl", "--subjects", "sequential,overlapped-pageable,automatic"});
  expect_jobs(document);
  if (!reason_of(document, "opencl").empty()) GTEST_SKIP() << reason_of(document, "opencl");
  for (const std::string& name : kCases)
    EXPECT_THAT(subjects_of(document, name + "/1 MiB", "latency_p50"),
                AllOf(Contains("opencl/sequential"), Contains("opencl/overlapped-pageable"),
                      Contains("opencl/automatic"), Contains("cpu/automatic")))
        << name;
}

TEST_F(BenchPipeline, SizesThatFillNoChunkAndNoStepAreRightToo) {
  const json document = jobs({"--devices", "cpu"}, "8,1000,1000001");
  expect_jobs(document);
  for (const std::string& name : kCases)
    for (const char* size : {"/8 B", "/1000 B", "/1000001 B"})
      EXPECT_THAT(subjects_of(document, name + size, "latency_p50"), Contains("cpu/automatic"))
          << name << size;
}

TEST_F(BenchPipeline, PinnedSubjectsShowWhatPageLockingTakes) {
  const json document = jobs({"--devices", "cpu", "--cases", "vector-add"});
  for (const char* subject : {"cpu/sequential-pinned", "cpu/overlapped-pinned"}) {
    EXPECT_GT(figure_of(document, subject, "acquisition"), 0);
    EXPECT_DOUBLE_EQ(
        figure_of(document, subject, "latency_with_acquisition"),
        figure_of(document, subject, "latency_p50") + figure_of(document, subject, "acquisition"));
  }
  EXPECT_EQ(figure_of(document, "cpu/sequential", "acquisition"), 0);
}

TEST_F(BenchPipeline, ModesAreWhatTheirNamesSay) {
  const json document = jobs({"--devices", "cpu", "--cases", "vector-add"}, "4M");
  EXPECT_EQ(figure_of(document, "cpu/sequential", "depth"), 1);
  EXPECT_GT(figure_of(document, "cpu/sequential", "chunks"), 1);
  EXPECT_GT(figure_of(document, "cpu/overlapped-pageable", "depth"), 1);
  EXPECT_EQ(figure_of(document, "cpu/unbatched", "chunks"), 1);
  EXPECT_GT(figure_of(document, "cpu/sequential", "copy_in_time"), 0);
  EXPECT_GT(figure_of(document, "cpu/sequential", "copy_share"), 0);
}

TEST_F(BenchPipeline, ASweepSetsChunksAndDepthsByHand) {
  const json document = jobs(
      {"--devices", "cpu", "--cases", "vector-add", "--subjects", "automatic", "--sweep"}, "4M");
  EXPECT_THAT(subjects_of(document, "vector-add/4 MiB", "latency_p50"),
              UnorderedElementsAre("cpu/automatic", "cpu/automatic/1 MiB x 2",
                                   "cpu/automatic/1 MiB x 3", "cpu/automatic/1 MiB x 4",
                                   "cpu/automatic/1 MiB x 6", "limit/single-copy"));
  EXPECT_EQ(figure_of(document, "cpu/automatic/1 MiB x 3", "depth"), 3);
  EXPECT_EQ(document.at("findings").size(), 1);
  EXPECT_EQ(document.at("findings")[0].at("wanted"), "at least 0.95");
}

TEST_F(BenchPipeline, AutomaticCopiesWhenItIsToldTo) {
  for (const bool is_told : {false, true}) {
    Words words{"--devices", "cpu", "--cases", "vector-add", "--subjects", "automatic"};
    if (is_told) words.emplace_back("--copied");
    EXPECT_EQ(figure_of(jobs(words, "4M"), "cpu/automatic", "copy_in_time") > 0, is_told);
  }
}

TEST_F(BenchPipeline, ChunksStayWithinTheDeviceMemoryThatIsGiven) {
  const json document = jobs({"--devices", "cpu", "--cases", "vector-add", "--subjects",
                              "automatic,overlapped-pageable", "--device-memory", "256K"},
                             "4M");
  for (const char* subject : {"cpu/automatic", "cpu/overlapped-pageable"})
    EXPECT_LE(figure_of(document, subject, "device_bytes"), 256 << 10) << subject;
  EXPECT_GT(figure_of(document, "cpu/overlapped-pageable", "device_bytes"), 0);
}

// ---- what is said of it --------------------------------------------------------------------

TEST_F(BenchPipeline, FindingsSayWhatWasWantedAndWhetherItIsMet) {
  const json findings = jobs({"--devices", "cpu", "--cases", "saxpy"}).at("findings");
  Names said;
  for (const json& finding : findings) {
    said.insert(finding.at("what"));
    EXPECT_GT(finding.at("value"), 0) << finding;
    if (finding.at("wanted") != "at least 0.97") continue;
    EXPECT_EQ(finding.at("met").get<bool>(), finding.at("value").get<double>() >= 0.97);
  }
  for (const char* mode : {"overlapped-pageable", "overlapped-pinned", "automatic"})
    EXPECT_THAT(said, Contains(std::string("saxpy/1 MiB: cpu/") + mode + " / cpu/sequential"));
  EXPECT_THAT(said, Contains("saxpy/1 MiB: cpu/overlapped-pinned / cpu/sequential, page-locking "
                             "included"));
}

TEST_F(BenchPipeline, DevicesAndChoicesAreExplained) {
  const json document = jobs({"--devices", "cpu", "--cases", "saxpy"});
  std::map<std::string, std::string> texts;
  for (const json& one : document.at("chosen"))
    texts[one.at("case").get<std::string>() + ":" + one.at("subject").get<std::string>()] =
        one.at("text");
  EXPECT_THAT(texts[":cpu"], HasSubstr("threads of the CPU"));
  EXPECT_THAT(texts["saxpy/1 MiB:cpu/sequential"],
              AllOf(HasSubstr("1 under way; direct"), HasSubstr("argument 0: direct")));
  EXPECT_THAT(texts["saxpy/1 MiB:cpu/overlapped-pinned"],
              AllOf(HasSubstr("argument 0: registered"), HasSubstr("argument 1: registered")));
}

TEST_F(BenchPipeline, ADeviceThatIsNotThereIsSkippedWithTheReason) {
  const json document = jobs({"--devices", "cpu,cuda", "--cases", "saxpy"});
  const bool is_missing =
      !subjects_of(document, "saxpy/1 MiB", "latency_p50").contains("cuda/automatic");
  EXPECT_EQ(is_missing, !reason_of(document, "cuda").empty());
}

TEST_F(BenchPipeline, WhatDoesNotFitIsSkippedWithTheReason) {
  const json document = jobs({"--devices", "cpu", "--cases", "saxpy"}, "1M,65536G");
  EXPECT_THAT(reason_of(document, "65536 GiB"), HasSubstr("GiB of memory"));
  EXPECT_THAT(subjects_of(document, "saxpy/1 MiB", "latency_p50"), Contains("cpu/automatic"));
}

// Not when all has been measured.
TEST_F(BenchPipeline, ATraceThatCannotBeWrittenIsRefusedAtOnce) {
  const std::string path = scratch_.path() + "/none/trace.json";
  const Ended ended = run({"--sizes", "1M", "--trace", path});
  EXPECT_EQ(ended.status, 1);
  EXPECT_EQ(ended.errors, "gantry: bench pipeline: --trace " + path +
                              ": No such file or directory; name a file that can be written\n");
}

}  // namespace
}  // namespace gantry::bench
