// Stages on other hosts: each "host" is a runtime folder and an address of its own on this machine.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "core/base/os/fd.hpp"
#include "run_support.hpp"

namespace gantry::test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

constexpr int kHostsInterrupted = 130;

/// `gantry run` here, and the hosts b and c.
class RunHosts : public testing::Test {
 protected:
  static std::string host(const std::string& name, const std::string& address,
                          const std::string& launch) {
    return "[hosts." + name + "]\naddress = '" + address + "'\nlaunch = [" + launch + "]\n";
  }
  [[nodiscard]] std::string folder(const std::string& name) const {
    return scratch_.channels() + "/" + name;
  }
  [[nodiscard]] std::string env(const std::string& name) const {
    return "'env', 'GANTRY_DIR=" + folder(name) + "'";
  }
  [[nodiscard]] std::string both() const {
    return host("b", "127.0.0.2", env("b")) + host("c", "127.0.0.3", env("c"));
  }
  /// source -> two relays -> sink; an empty name is here.
  static std::string on(const std::string& source, const std::string& relay,
                        const std::string& sink, std::uint64_t count) {
    std::string text = RunScratch::three_stages(count, RunScratch::kBytes);
    for (const auto& [stage, name] :
         {std::pair("source", source), std::pair("relay", relay), std::pair("sink", sink)}) {
      const std::string head = std::string("[stages.") + stage + "]\n";
      if (!name.empty()) text.insert(text.find(head) + head.size(), "host = '" + name + "'\n");
    }
    return text;
  }
  /// What is left of the processes and run folders of all hosts.
  [[nodiscard]] std::vector<std::string> left() const {
    std::vector<std::string> result;
    for (const std::string& one : scratch_.left_behind())
      if (one != folder("b") && one != folder("c")) result.push_back(one);
    for (const char* name : {"b", "c"}) {
      std::error_code error;
      for (const auto& entry : std::filesystem::directory_iterator(folder(name), error))
        result.push_back(entry.path().string());
    }
    return result;
  }
  /// The process that says in its command line that it is an agent, with that folder.
  [[nodiscard]] int agent_pid(const std::string& name) const {
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
      const std::string process = entry.path().filename().string();
      if (process.find_first_not_of("0123456789") != std::string::npos) continue;
      const std::string words = text_of(entry.path() / "cmdline");
      const std::string agent("gantry\0agent\0", 13);
      if (words == agent && text_of(entry.path() / "environ").find(folder(name)) != words.npos &&
          text_of(entry.path() / "comm") != "gantry-guard\n")
        return std::stoi(process);
    }
    return 0;
  }
  static std::string text_of(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }
  void expect_failure(const std::string& text, const std::string& why) {
    const Ended run = scratch_.run(text);
    EXPECT_EQ(run.status, 1);
    EXPECT_THAT(last_line(run.errors), HasSubstr(why));
    EXPECT_THAT(run.output, IsEmpty());
    EXPECT_THAT(left(), IsEmpty());
  }

  RunScratch scratch_;
};

// Every way that a channel can take: from here and back, between two others, within one.
TEST_F(RunHosts, EveryByteArrivesWhereverTheStagesRun) {
  constexpr std::uint64_t kCount = 200;
  const std::vector<std::array<std::string, 3>> places{
      {"", "b", ""}, {"b", "c", ""}, {"", "b", "c"}, {"b", "b", "c"}, {"b", "", "b"}};
  for (const auto& [source, relay, sink] : places) {
    const Ended run = scratch_.run(both() + on(source, relay, sink, kCount), {"--json"});
    ASSERT_EQ(run.status, 0) << run.errors;
    EXPECT_EQ(scratch_.read_results(), "200 20100");
    const auto report = nlohmann::json::parse(run.output);
    EXPECT_TRUE(report["accounted"]);
    EXPECT_EQ(report["channels"][1]["bytes"], kCount * RunScratch::kBytes);
    EXPECT_EQ(report["stages"][1]["host"],
              relay.empty() ? nlohmann::json() : nlohmann::json(relay));
    EXPECT_THAT(left(), IsEmpty());
    std::filesystem::remove(scratch_.results());
  }
}

/// Listens to whatever goes over the loopback interface.
class Wire {
 public:
  Wire() : socket_(::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, ::htons(ETH_P_IP))) {
    sockaddr_ll loopback{};
    loopback.sll_family = AF_PACKET;
    loopback.sll_protocol = ::htons(ETH_P_IP);
    loopback.sll_ifindex = static_cast<int>(::if_nametoindex("lo"));
    can_listen_ = socket_ && ::bind(socket_.get(), reinterpret_cast<sockaddr*>(&loopback),
                                    sizeof loopback) == 0;
    const int room = 256 << 20;
    if (can_listen_) ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room);
  }
  [[nodiscard]] bool can_listen() const { return can_listen_; }
  /// How many packets have each of the texts, of those that passed while `work` was done.
  template <class Work>
  std::vector<std::size_t> count(const std::vector<std::string>& texts, const Work& work) {
    std::vector<std::size_t> counts(texts.size());
    std::atomic<bool> is_over{false};
    std::thread listener([&] {
      const timeval brief{0, 50'000};
      ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &brief, sizeof brief);
      std::string packet(1 << 17, '\0');
      for (;;) {
        const ssize_t got = ::recv(socket_.get(), packet.data(), packet.size(), 0);
        if (got < 0 && is_over) return;
        const std::string_view seen(packet.data(), got < 0 ? 0 : static_cast<std::size_t>(got));
        for (std::size_t i = 0; i < texts.size(); ++i)
          if (seen.find(texts[i]) != seen.npos) ++counts[i];
      }
    });
    work();
    is_over = true;
    listener.join();
    return counts;
  }

 private:
  Fd socket_;
  bool can_listen_ = false;
};

// Payload, names of channels and names of programs. In a run that does not encrypt they show.
TEST_F(RunHosts, NothingShowsOnTheWireOfARunThatEncrypts) {
  Wire wire;
  if (!wire.can_listen()) GTEST_SKIP() << "only root may listen to the loopback interface";
  std::string payload(255, '\0');  // part of each message, whatever its number
  for (std::size_t i = 0; i < payload.size(); ++i) payload[i] = static_cast<char>(i);
  const std::vector<std::string> secrets{payload, "numbers", "run_stage"};
  for (const bool encrypts : {false, true}) {
    const std::string scheme = encrypts ? "tls:" : "";
    const std::string hosts =
        host("b", scheme + "127.0.0.2", env("b")) + host("c", scheme + "127.0.0.3", env("c"));
    Ended run;
    const auto counts =
        wire.count(secrets, [&] { run = scratch_.run(hosts + on("b", "c", "", 20)); });
    ASSERT_EQ(run.status, 0) << run.errors;
    EXPECT_EQ(scratch_.read_results(), "20 210");
    EXPECT_EQ(counts[0] == 0, encrypts) << counts[0];
    EXPECT_EQ(counts[1] == 0, encrypts) << counts[1];
    EXPECT_EQ(counts[2] == 0, encrypts) << counts[2];  // readers tell the bridge what they are
    std::filesystem::remove(scratch_.results());
  }
}

TEST_F(RunHosts, AnInterruptEndsAllOnAllHosts) {
  Subprocess run(scratch_.command(both() + on("", "b", "c", RunScratch::kForEver) +
                                  "[stages.stubborn]\ncommand = ['{stage}', 'stubborn']\n"
                                  "host = 'b'\n"));
  ASSERT_TRUE(run.wait_errors("[sink@c] flowing"));
  ASSERT_TRUE(run.wait_errors("[stubborn@b] holding"));
  run.signal(SIGINT);
  const auto ended = run.wait();
  ASSERT_TRUE(ended) << "still running";
  EXPECT_EQ(ended->status, kHostsInterrupted) << ended->errors;
  EXPECT_THAT(left(), IsEmpty());
}

TEST_F(RunHosts, AKilledRunTakesTheStagesOfAllHostsAlong) {
  Subprocess run(scratch_.command(both() + on("", "b", "c", RunScratch::kForEver)));
  ASSERT_TRUE(run.wait_errors("[sink@c] flowing"));
  run.signal(SIGKILL);
  EXPECT_TRUE(eventually([&] { return left().empty(); })) << testing::PrintToString(left());
}

// As behind ssh: nothing but the end of its standard input tells the agent.
TEST_F(RunHosts, AKilledRunTakesStagesThatNobodyCanKillAlong) {
  const std::string launch = "'setsid', '--wait', " + env("b");
  Subprocess run(scratch_.command(host("b", "127.0.0.2", launch) +
                                  "[stages.stubborn]\ncommand = ['{stage}', 'stubborn']\n"
                                  "host = 'b'\n"));
  ASSERT_TRUE(run.wait_errors("[stubborn@b] holding"));
  run.signal(SIGKILL);
  EXPECT_TRUE(eventually([&] { return left().empty(); })) << testing::PrintToString(left());
}

TEST_F(RunHosts, AKilledAgentEndsTheRun) {
  Subprocess run(scratch_.command(both() + on("", "b", "c", RunScratch::kForEver)));
  ASSERT_TRUE(run.wait_errors("[sink@c] flowing"));
  const int agent = agent_pid("b");
  ASSERT_GT(agent, 0);
  ASSERT_EQ(::kill(agent, SIGKILL), 0);
  const auto ended = run.wait();
  ASSERT_TRUE(ended) << "still running";
  EXPECT_EQ(ended->status, 1);
  EXPECT_THAT(last_line(ended->errors),
              HasSubstr("host b: its launcher 'env' was ended by signal 9"));
  EXPECT_TRUE(eventually([&] { return left().empty(); })) << testing::PrintToString(left());
}

// The launcher is another process than the agent, as ssh is.
TEST_F(RunHosts, AKilledLauncherEndsTheRun) {
  const std::string pid_file = scratch_.results() + ".pid";
  const std::string launch = "'sh', '-c', 'echo $$ >" + pid_file + "; GANTRY_DIR=" + folder("b") +
                             " \"$@\"; exit $?', 'x'";
  Subprocess run(
      scratch_.command(host("b", "127.0.0.2", launch) + on("", "b", "", RunScratch::kForEver)));
  ASSERT_TRUE(run.wait_errors("[sink] flowing"));
  int launcher = 0;
  std::ifstream(pid_file) >> launcher;
  ASSERT_GT(launcher, 0);
  ASSERT_EQ(::kill(launcher, SIGKILL), 0);
  const auto ended = run.wait();
  ASSERT_TRUE(ended) << "still running";
  EXPECT_EQ(ended->status, 1);
  EXPECT_THAT(last_line(ended->errors), HasSubstr("host b: its launcher 'sh' was ended by"));
  EXPECT_TRUE(eventually([&] { return left().empty(); })) << testing::PrintToString(left());
}

TEST_F(RunHosts, AFailingStageIsNamedWithItsHost) {
  expect_failure(both() +
                     "[stages.a]\ncommand = ['sh', '-c', 'echo why >&2; exit 3']\nhost = 'b'\n"
                     "[stages.d]\ncommand = ['{stage}', 'hold']\nhost = 'c'\n",
                 "stage a@b: exited with status 3; its last words stand above");
}

TEST_F(RunHosts, WhatCannotStartIsOneLine) {
  const std::string stage = "[stages.a]\ncommand = ['true']\nhost = 'b'\n";
  expect_failure(host("b", "127.0.0.2", "'sh', '-c', 'echo no such host >&2; exit 255'") + stage,
                 "host b: its launcher 'sh' ended with status 255 before an agent answered");
  expect_failure(host("b", "127.0.0.2", "'no-such-launcher'") + stage,
                 "hosts.b.launch: there is no program 'no-such-launcher' in PATH");
  expect_failure(host("b", "127.0.0.2", env("b")) + "gantry = 'no-gantry'\n" + stage,
                 "before an agent answered; its last words stand above");
  expect_failure(host("b", "127.0.0.2", env("b")) + "directory = '/nowhere'\n" + stage,
                 "host b: directory /nowhere: No such file or directory");
  expect_failure(host("b", "203.0.113.1", env("b")) + stage, "this host has no such address");
  expect_failure(both() + "[stages.a]\ncommand = ['no-such-program']\nhost = 'b'\n",
                 "stages.a.command: there is no program 'no-such-program' in PATH");
}

TEST_F(RunHosts, AnAgentOfAnotherVersionOrWithoutSenseIsRefused) {
  const std::string stage = "[stages.a]\ncommand = ['true']\nhost = 'b'\n";
  const auto says = [&](const std::string& line) {
    return host("b", "127.0.0.2", "'sh', '-c', '''" + line + "; cat >/dev/null'''") + stage;
  };
  expect_failure(says(R"(echo "[\"hello\",\"0.0.1\"]")"), "host b: gantry there is 0.0.1, here ");
  const std::string hello = R"(echo "[\"hello\",\"$(gantry --version | cut -c8-)\"]"; )";
  expect_failure(says(hello + R"(echo "[\"ended\",7,0]")"),
                 "host b: its agent said what is no record: '[\"ended\",7,0]'");
  expect_failure(says("yes"), "host b: its launcher starts no agent");
}

TEST_F(RunHosts, OtherTransportsStayOnThisHost) {
  const Ended run = scratch_.run(both() + on("", "b", "", 1), {"--compare", "pipe"});
  EXPECT_EQ(run.status, 1);
  EXPECT_THAT(run.errors, HasSubstr("stages on other hosts, which pipe does not reach"));
}

}  // namespace
}  // namespace gantry::test
