// The program as `gantry bench link` starts it. Over loopback, so that no right is needed; where
// there are rights for namespaces, that bytes cross the wire between them.

#include <gmock/gmock.h>

#include "../support/program/test_program.hpp"
#include "network.hpp"

namespace gantry::bench {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

class BenchLink : public RunningBenchTest {
 protected:
  BenchLink() : RunningBenchTest("link") {}

  [[nodiscard]] json over_loopback(Words arguments) const {
    arguments.insert(arguments.begin(), {"--loopback", "--rates", "unlimited"});
    return document_of(std::move(arguments));
  }
};

/// What the report says of the network.
std::string network_of(const json& document) {
  for (const json& one : document.at("chosen"))
    if (one.at("subject") == "network") return one.at("text");
  return {};
}

/// Each of the other systems is measured, or was not built, and the report says so.
void expect_all_peers(const json& document) {
  const auto metrics = grouped(document, "subject", "metric");
  for (const char* peer : {"zeromq-tcp", "nng-tcp", "openmpi-tcp", "ucx-tcp", "libfabric-tcp",
                           "redis/get", "redis/set"}) {
    if (metrics.contains(peer) && !is_skipped(document, peer)) continue;
    EXPECT_THAT(reason_of(document, peer), HasSubstr("tools/setup peers")) << peer;
  }
}

/// Of Gantry and the limits, those that take every size.
Names own_subjects(const json& document) {
  Names all = {"gantry/stream", "gantry/stream-block", "gantry/stream-polled", "gantry/link-put",
               "limit/recv-into-place"};
  for (const char* optional : {"gantry/fabric-tcp", "gantry/stream-tls"})
    if (!is_skipped(document, optional)) all.insert(optional);
  return all;
}

TEST_F(BenchLink, QuickJsonIsOneDocumentOfTheContract) {
  const json document = over_loopback({"--quick", "--sizes", "64,1M"});
  expect_contract(document, name_);
  const std::map<std::string, const char*> optional = {{"gantry/fabric-tcp", "libfabric"},
                                                       {"gantry/stream-tls", "OpenSSL"}};
  for (const json& skipped : document.at("skipped")) {
    const auto subject = skipped.at("subject").get<std::string>();
    ASSERT_TRUE(optional.contains(subject)) << skipped;
    EXPECT_THAT(reason_of(document, subject.c_str()), HasSubstr(optional.at(subject)));
  }
  EXPECT_THAT(network_of(document), HasSubstr("loopback"));
  auto subjects = grouped(document, "case", "subject");
  EXPECT_EQ(subjects.size(), 3u);
  Names expected = own_subjects(document);
  for (const char* name : {"unlimited/round-trip/1 MiB", "unlimited/throughput/1 MiB"})
    EXPECT_EQ(subjects[name], expected) << name;
  expected.insert("limit/tcp-ping-pong");
  EXPECT_EQ(subjects["unlimited/round-trip/64 B"], expected);
}

TEST_F(BenchLink, EveryMetricIsThereInItsUnit) {
  const json document = over_loopback({"--sizes", "1M", "--subjects", "gantry/stream"});
  std::map<std::string, Names> metrics;
  for (const json& result : document.at("results"))
    metrics[result.at("case")].insert(result.at("metric").get<std::string>() + " " +
                                      result.at("unit").get<std::string>());
  EXPECT_THAT(
      metrics["unlimited/round-trip/1 MiB"],
      UnorderedElementsAre("latency_p50 ns", "latency_p99 ns", "latency_p999 ns", "one_way_p50 ns",
                           "throughput GB/s", "cpu_per_gb s/GB", "wire_bytes 1"));
  EXPECT_THAT(metrics["unlimited/throughput/1 MiB"],
              UnorderedElementsAre("message_time ns", "throughput GB/s", "cpu_per_gb s/GB",
                                   "wire_bytes 1"));
}

TEST_F(BenchLink, EveryByteOfPayloadCrossesTheWire) {
  const json document = over_loopback({"--sizes", "1M"});
  std::size_t counted = 0;
  for (const json& result : document.at("results")) {
    if (result.at("metric") != "wire_bytes") continue;
    EXPECT_GE(result.at("value").get<double>(), 1) << result;
    ++counted;
  }
  EXPECT_EQ(counted, 2 * own_subjects(document).size());
}

TEST_F(BenchLink, ACaseThatIsNamedTakesAllSizes) {
  const json document =
      over_loopback({"--sizes", "64,4M", "--subjects", "limit", "--cases", "round-trip"});
  EXPECT_TRUE(subjects_by_case(document, "latency_p50").contains("unlimited/round-trip/4 MiB"));
}

TEST_F(BenchLink, RatesNeedNamespaces) {
  const json document = document_of({"--loopback", "--rates", "10G,1G", "--sizes", "64"});
  EXPECT_THAT(document.at("results"), IsEmpty());
  for (const char* rate : {"10G", "1G"})
    EXPECT_EQ(reason_of(document, rate), "loopback has no rate") << rate;
}

TEST_F(BenchLink, PeersAreMeasuredOrSkippedWithTheReason) {
  const json document = over_loopback({"--peers", "--sizes", "4K"});
  expect_all_peers(document);
}

/// Whether this process may make namespaces and has what fills them.
bool can_make_namespaces() {
  return Network::make_namespaces().has_value();
}

TEST_F(BenchLink, WithoutRightsItSaysSoInALineAndRunsOverLoopback) {
  if (can_make_namespaces()) GTEST_SKIP() << "there are rights";
  const Ended ended = run({"--json", "--rounds", "1", "--sizes", "64", "--rates", "unlimited"});
  ASSERT_EQ(ended.status, 0) << ended.errors;
  EXPECT_THAT(ended.errors, HasSubstr("; all runs over loopback, without rates\n"));
  EXPECT_THAT(network_of(json::parse(ended.output)), HasSubstr("loopback"));
}

TEST_F(BenchLink, WithRightsItRunsBetweenNamespaces) {
  if (!can_make_namespaces()) GTEST_SKIP() << "no right to make namespaces, or no iproute2";
  const json document = document_of({"--sizes", "64K", "--rates", "unlimited"});
  EXPECT_THAT(network_of(document), HasSubstr("two network namespaces"));
  EXPECT_EQ(subjects_by_case(document, "wire_bytes")["unlimited/round-trip/64 KiB"],
            own_subjects(document));
}

TEST_F(BenchLink, PeersCrossTheWireWithSeveralInFlight) {
  if (!can_make_namespaces()) GTEST_SKIP() << "no right to make namespaces, or no iproute2";
  const json document =
      document_of({"--peers", "--sizes", "1M", "--rates", "unlimited", "--cases", "throughput"});
  expect_all_peers(document);
  for (const json& result : document.at("results")) {
    if (result.at("metric") != "wire_bytes") continue;
    EXPECT_GE(result.at("value").get<double>(), 1) << result;
  }
}

/// What a peer brings with it, mpirun with its daemons or a server, ends with the run.
class BenchLinkPeer : public BenchLink, public ::testing::WithParamInterface<const char*> {
 protected:
  void run_until(int signal) {
    const std::string family = GetParam();
    const auto program_name = "gantry-peer-" + family;
    if (!std::filesystem::exists(std::filesystem::path(GANTRY_BENCH_PROGRAMS) / program_name))
      GTEST_SKIP() << program_name << " was not built";
    ASSERT_EQ(::prctl(PR_SET_CHILD_SUBREAPER, 1), 0);  // orphans come to us
    const std::string subject = family == "openmpi" ? "openmpi-tcp" : family;
    auto program = start(
        {"--rates", "unlimited", "--subjects", subject, "--sizes", "64K", "--rounds", "1000"});
    ASSERT_TRUE(program.wait_for("(1/1000)"));
    program.signal(signal);
    program.wait();
    while (::waitpid(-1, nullptr, 0) > 0) {
    }
  }
};

TEST_P(BenchLinkPeer, InterruptedLeavesNoProcess) {
  run_until(SIGINT);
}

TEST_P(BenchLinkPeer, KilledLeavesNoProcess) {
  run_until(SIGKILL);
  clear_temporary();
}

INSTANTIATE_TEST_SUITE_P(All, BenchLinkPeer, ::testing::Values("openmpi", "redis"),
                         [](const auto& family) { return std::string(family.param); });

/// A run with all its processes there.
class BenchLinkRunning : public BenchLink {
 protected:
  void SetUp() override {
    BenchLink::SetUp();
    ASSERT_NO_FATAL_FAILURE(begin({"--loopback", "--rates", "unlimited", "--subjects",
                                   "gantry/stream", "--sizes", "64K", "--rounds", "1000"},
                                  "(1/1000)", 3));
  }
};

TEST_F(BenchLinkRunning, ABridgeThatDiesEndsTheRun) {
  ASSERT_EQ(::kill(children_.front(), SIGKILL), 0);
  const auto ended = bench_->wait();
  EXPECT_EQ(ended.status, 1);
  EXPECT_THAT(ended.errors, HasSubstr("gantry: bench link: unlimited/round-trip/64 KiB: the "));
  expect_nobody_left();
}

TEST_F(BenchLinkRunning, ProcessesDieWithTheProgram) {
  bench_->signal(SIGKILL);
  bench_->wait();
  for (const int child : children_) EXPECT_EQ(::waitpid(child, nullptr, 0), child);
  clear_temporary();
}

}  // namespace
}  // namespace gantry::bench
