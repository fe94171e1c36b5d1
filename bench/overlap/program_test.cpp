// The program as `gantry bench overlap` starts it, on small products. It needs the right to make
// network namespaces, and ip and tc.

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "../support/program/test_program.hpp"
#include "rank_network.hpp"

namespace gantry::bench {
namespace {

using ::testing::HasSubstr;

class BenchOverlap : public RunningBenchTest {
 protected:
  BenchOverlap() : RunningBenchTest("overlap") {}
  void SetUp() override {
    RunningBenchTest::SetUp();
    if (const auto network = RankNetwork::make(2, Topology::mesh); !network)
      GTEST_SKIP() << to_string(network.error());
  }
  [[nodiscard]] json small(Words arguments) const {
    arguments.insert(arguments.end(), {"--ranks", "2", "--sides", "96x64x80", "--ratios", "1"});
    return document_of(std::move(arguments));
  }
};

TEST_F(BenchOverlap, JsonIsOneDocumentWithAllSubjects) {
  for (const char* const topology : {"mesh", "switch"}) {
    const json document = small({"--topologies", topology});
    EXPECT_EQ(document.at("bench"), "overlap");
    auto subjects = grouped(document, "case", "subject")[fmt::format("{}-2 1", topology)];
    for (const char* const name : {"serial", "ring", "chosen", "chosen-by-costs",
                                   "limit/product-alone", "limit/transfer-alone", "limit/ideal"})
      EXPECT_EQ(subjects.count(name), 1u) << name;
    EXPECT_GT(subjects.size(), 10u);
  }
}

TEST_F(BenchOverlap, EveryOperatorComesOutRight) {
  for (const char* const kind : {"gemm-reduce-scatter", "all-to-all-gemm"}) {
    const json document = small({"--topologies", "mesh", "--operator", kind});
    const auto metrics = grouped(document, "subject", "metric");
    EXPECT_TRUE(metrics.at("serial").contains("latency_p50")) << kind;
    EXPECT_TRUE(metrics.at("serial").contains("predicted_time")) << kind;
    EXPECT_TRUE(metrics.at("serial").contains("share_of_ideal")) << kind;
    EXPECT_TRUE(metrics.at("serial").contains("wire_bytes")) << kind;
  }
}

// In the same namespaces, and its results are compared like ours.
TEST_F(BenchOverlap, OpenMpiTakesPartOrIsSkippedWithTheReason) {
  for (const char* const kind : {"all-gather-gemm", "gemm-reduce-scatter", "all-to-all-gemm"}) {
    const json document = small({"--topologies", "mesh", "--peers", "--operator", kind});
    auto subjects = grouped(document, "case", "subject")["mesh-2 1"];
    const bool is_built = subjects.contains("openmpi");
    for (const char* const name : {"openmpi in 4 chunks", "openmpi in 16 chunks"})
      EXPECT_EQ(subjects.contains(name), is_built) << name;
    EXPECT_EQ(reason_of(document, "openmpi at mesh-2").empty(), is_built);
    if (!is_built) continue;
    for (const json& result : document.at("results")) {
      if (result.at("subject") != "openmpi" || result.at("metric") != "wire_bytes") continue;
      EXPECT_GT(result.at("value"), 96 * 64 * 4 / 2) << "through the rated links";
    }
  }
}

TEST_F(BenchOverlap, SimulatedFiguresStandBesideAValidationOrNotAtAll) {
  const json document = document_of(
      {"--cases", "simulated", "--topologies", "mesh", "--sides", "96x64x80", "--ratios", "1"});
  auto cases = grouped(document, "case", "subject");
  for (const char* const name :
       {"validation mesh-2 1", "validation mesh-3 1", "validation mesh-4 1"})
    EXPECT_TRUE(cases[name].contains("serial")) << name;
  bool holds = true;
  for (const json& finding : document.at("findings"))
    if (finding.contains("met")) holds = holds && finding.at("met").get<bool>();
  const std::string simulated = "simulated/published/mi300x-8 all-gather-gemm 131072x16384x16384";
  EXPECT_EQ(cases.count(simulated), holds ? 1u : 0u);
  const std::string skipped = document.at("skipped").dump();
  EXPECT_EQ(skipped.find("withheld: predictions for ") == std::string::npos, holds) << skipped;
}

TEST_F(BenchOverlap, WordsThatAreNoneAreRefused) {
  const std::map<std::string, std::string> wrong = {{"--ranks", "1"},
                                                    {"--ratios", "0"},
                                                    {"--topologies", "torus"},
                                                    {"--sides", "10x10"},
                                                    {"--operator", "product"}};
  for (const auto& [option, value] : wrong) {
    const Ended ended = run({option, value});
    EXPECT_EQ(ended.status, 2) << option;
    EXPECT_THAT(ended.errors, HasSubstr(value)) << option;
    EXPECT_EQ(std::count(ended.errors.begin(), ended.errors.end(), '\n'), 1) << ended.errors;
  }
}

}  // namespace
}  // namespace gantry::bench
