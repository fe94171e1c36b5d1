// Other systems: each that was built carries a message; each that was not is named with the reason;
// none of them leaves anything behind, whatever ends the run.

#include <gmock/gmock.h>

#include "../support/program/test_program.hpp"

namespace gantry::bench {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

struct Named {
  const char* subject;
  const char* program;
};

constexpr Named kPeers[] = {
    {"openmpi", "gantry-peer-openmpi"},   {"openmpi/cma", "gantry-peer-openmpi"},
    {"ucx", "gantry-peer-ucx"},           {"ucx/cma", "gantry-peer-ucx"},
    {"iceoryx", "gantry-peer-iceoryx"},   {"iceoryx/loan", "gantry-peer-iceoryx"},
    {"tachyon", "gantry-peer-tachyon"},   {"zeromq", "gantry-peer-zeromq"},
    {"nng", "gantry-peer-nng"},           {"boost/queue", "gantry-peer-boost"},
    {"boost/memory", "gantry-peer-boost"}};

bool is_built(const Named& peer) {
  return fs::exists(fs::path(GANTRY_BENCH_PROGRAMS) / peer.program);
}
/// And its library is there.
bool starts(const Named& peer) {
  const std::string program = (fs::path(GANTRY_BENCH_PROGRAMS) / peer.program).string();
  return is_built(peer) && std::system((program + " --version >/dev/null 2>&1").c_str()) == 0;
}

/// Names in memory that is shared by name, and those that iceoryx leaves in its folder.
Names shared_names() {
  Names names;
  for (const auto& entry : fs::directory_iterator("/dev/shm")) names.insert(entry.path());
  for (const char* path : {"/tmp/roudi", "/tmp/roudi.lock", "/tmp/iox-unique-roudi.lock"})
    if (fs::exists(path)) names.insert(path);
  return names;
}

class Peers : public BenchTest {
 protected:
  Peers() : BenchTest("ipc") {}
  void SetUp() override {
    BenchTest::SetUp();
    ASSERT_EQ(::prctl(PR_SET_CHILD_SUBREAPER, 1), 0);  // orphans come to us
  }
};

TEST_F(Peers, EachIsMeasuredOrSkippedWithTheReason) {
  const json document = document_of({"--peers", "--cases", "latency", "--sizes", "4K"});
  const auto metrics = grouped(document, "subject", "metric");
  const auto version_of = [&](const std::string& subject) -> std::string {
    for (const json& peer : document.value("peers", json::array()))
      if (peer.at("subject") == subject) return peer.at("version");
    return {};
  };
  for (const Named& peer : kPeers) {
    EXPECT_EQ(version_of(peer.subject).empty(), !starts(peer)) << peer.subject;
    if (metrics.contains(peer.subject)) continue;
    ASSERT_TRUE(is_skipped(document, peer.subject)) << peer.subject;
    if (!is_built(peer)) {
      EXPECT_THAT(reason_of(document, peer.subject), HasSubstr("tools/setup peers"));
    }
  }
}

// Here it cannot be loaded, and the reason says which file that was.
TEST_F(Peers, LibrariesOfThePathComeFirst) {
  const std::string library = scratch_.path() + "/lib/libtachyon.so";
  fs::create_directory(scratch_.path() + "/lib");
  std::ofstream(library) << "no library";
  const json document = document_of({"--subjects", "tachyon,limit/two-lines", "--cases", "latency",
                                     "--sizes", "64", "--peers-path", scratch_.path()});
  EXPECT_THAT(reason_of(document, "tachyon"), HasSubstr(library));
  EXPECT_THAT(reason_of(document, "tachyon"), Not(HasSubstr("\n")));
}

/// One peer alone, where it was built.
class Peer : public Peers, public ::testing::WithParamInterface<Named> {
 protected:
  void SetUp() override {
    Peers::SetUp();
    if (!starts(GetParam())) GTEST_SKIP() << "not built, or its library is missing";
    if (::access("/tmp/iox-unique-roudi.lock", F_OK) == 0) GTEST_SKIP() << "a RouDi runs";
    before_ = shared_names();
  }

  /// Whoever was left to us has ended, and nothing has a name.
  void expect_nothing_left() {
    while (::waitpid(-1, nullptr, 0) > 0) {
    }
    for (const std::string& name : shared_names())
      EXPECT_TRUE(before_.contains(name) ||
                  !fs::path(name).filename().string().starts_with("gantry-bench"))
          << name;
  }

  Names before_;
};

TEST_P(Peer, CarriesMessagesAndLeavesNothing) {
  const json document = document_of(
      {"--subjects", GetParam().subject, "--cases", "latency,in-flight,fan-out", "--sizes", "4K"});
  EXPECT_EQ(document.at("skipped"), json::array());
  EXPECT_FALSE(document.at("results").empty());
  expect_nothing_left();
}

TEST_P(Peer, InterruptedLeavesNothing) {
  auto program = start({"--subjects", GetParam().subject, "--cases", "latency", "--sizes", "64K",
                        "--rounds", "1000"});
  ASSERT_TRUE(program.wait_for("(1/1000)"));
  program.signal(SIGINT);
  EXPECT_EQ(program.wait().status, 130);
  expect_nothing_left();
}

TEST_P(Peer, KilledLeavesNoProcessAndNoName) {
  auto program = start({"--subjects", GetParam().subject, "--cases", "latency", "--sizes", "64K",
                        "--rounds", "1000"});
  ASSERT_TRUE(program.wait_for("(1/1000)"));
  program.signal(SIGKILL);
  program.wait();
  expect_nothing_left();
  clear_temporary();
}

std::string name_of(const ::testing::TestParamInfo<Named>& info) {
  std::string name = info.param.subject;
  std::replace(name.begin(), name.end(), '/', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, Peer, ::testing::ValuesIn(kPeers), name_of);

}  // namespace
}  // namespace gantry::bench
