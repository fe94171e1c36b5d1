// `gantry serve` as a browser, a scraper and a stranger meet it.
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <gantry/channel.hpp>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "serve_support.hpp"

namespace gantry::test {
namespace {

/// Of a `gantry get c`.
std::string labels_of(int pid) {
  return "{channel=\"c\",consumer=\"" + std::to_string(pid) + "\",command=\"gantry get\",host=\"" +
         own_end_name().host + "\"}";
}

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

// ---- what it says ------------------------------------------------------------------------------

TEST_F(Serve, SaysWhatWasSentAndTaken) {
  const Subprocess server = serving();
  Command command = put({"c", "--lines"}, "four\nletters\n");
  command.keep_input = true;
  Subprocess putting(command);
  Subprocess getting(gantry({"get", "c"}));
  ASSERT_TRUE(getting.wait_output("letters\n"));
  ASSERT_TRUE(eventually([&] {
    const json channels = status()["channels"];
    return channels.size() == 1 && channels[0]["received_messages"] == 2;
  }));
  const json channel = status()["channels"][0];
  EXPECT_EQ(channel["name"], "c");
  EXPECT_EQ(channel["bytes"], 13);
  EXPECT_EQ(channel["producer_pid"], putting.pid());
  EXPECT_EQ(channel["consumers"][0]["pid"], getting.pid());
  EXPECT_TRUE(eventually([&] { return !json::parse(body("/history.json?channel=c")).empty(); }));
  EXPECT_EQ(json::parse(body("/history.json?channel=c"))[0].size(), 4u);
  EXPECT_EQ(json::parse(body("/history.json?channel=nobody")), json::array());
  if (!has_metrics()) GTEST_SKIP() << ask("/metrics");
  EXPECT_EQ(metric("gantry_channel_messages_total{channel=\"c\"}"), 2);
  EXPECT_EQ(metric("gantry_channel_payload_bytes_total{channel=\"c\"}"), 13);
  EXPECT_EQ(metric("gantry_consumer_messages_total" + labels_of(getting.pid())), 2);
}

// Every series that two scrapes share, while messages move and a reader leaves.
TEST_F(Serve, CountersNeverFall) {
  const Subprocess server = serving();
  if (!has_metrics()) GTEST_SKIP() << ask("/metrics");
  Command command = put({"c", "--lines", "--consumers", "2"}, "x\n");
  command.keep_input = true;
  Subprocess putting(command);
  Subprocess first(gantry({"get", "c"}));
  ASSERT_TRUE(first.wait_output("x\n"));
  std::map<std::string, double> before;
  for (int round = 0; round < 2; ++round) {
    const double looks = metric("gantry_serve_looks_total");
    putting.write_input("x\n");
    Subprocess second(gantry({"get", "c", "--count", "1"}));
    EXPECT_TRUE(eventually([&] {
      putting.write_input("x\n");
      return second.wait(std::chrono::milliseconds(20)).has_value();
    }));
    ASSERT_TRUE(eventually([&] { return metric("gantry_serve_looks_total") > looks + 1; }));
    std::istringstream lines(body("/metrics"));
    for (std::string line; std::getline(lines, line);) {
      const std::string series = line.substr(0, line.rfind(' '));
      if (line.starts_with('#') || series.find("_total") == std::string::npos) continue;
      const double now = std::stod(line.substr(series.size()));
      EXPECT_GE(now, before[series]) << line;
      before[series] = now;
    }
  }
  EXPECT_GE(before["gantry_channel_messages_total{channel=\"c\"}"], 3);
}

TEST_F(Serve, PromtoolHasNothingToSay) {
  if (run({{"sh", "-c", "command -v promtool"}, {}, {}, {}, false, {}}).status != 0)
    GTEST_SKIP() << "promtool is not installed (prometheus)";
  const Subprocess server = serving();
  if (!has_metrics()) GTEST_SKIP() << ask("/metrics");
  Command command = put({"c", "--lines"}, "x\n");
  command.keep_input = true;
  const Subprocess putting(command);
  const Subprocess getting(gantry({"get", "c"}));
  const std::string labels = labels_of(getting.pid());
  ASSERT_TRUE(
      eventually([&] { return metric("gantry_consumer_handoff_seconds_count" + labels) >= 1; }));
  const auto checked = run({{"promtool", "check", "metrics"}, {}, {}, body("/metrics"), false, {}});
  EXPECT_EQ(checked.status, 0);
  EXPECT_THAT(checked.output + checked.errors, IsEmpty());
  const auto configured =
      run({{"promtool", "check", "config", GANTRY_ROOT "/examples/metrics/prometheus.yml"},
           {},
           {},
           {},
           false,
           {}});
  EXPECT_EQ(configured.status, 0) << configured.errors;
  const std::string open =
      ask("/metrics", "Accept: application/openmetrics-text;version=1.0.0\r\n");
  EXPECT_THAT(open, AllOf(HasSubstr("Content-Type: application/openmetrics-text"),
                          HasSubstr("\n# TYPE gantry_channel_messages counter\n"),
                          ::testing::EndsWith("\n# EOF\n")));
}

// Each query of the dashboard asks for names that there are.
TEST_F(Serve, TheDashboardAsksForWhatThereIs) {
  const Subprocess server = serving();
  if (!has_metrics()) GTEST_SKIP() << ask("/metrics");
  Command command = put({"c", "--lines"}, "x\n");
  command.keep_input = true;
  const Subprocess putting(command);
  Subprocess getting(gantry({"get", "c"}));
  ASSERT_TRUE(getting.wait_output("x\n"));
  ASSERT_TRUE(eventually([&] { return metric("gantry_channel_consumers{channel=\"c\"}") == 1; }));
  const std::string text = body("/metrics");
  int queries = 0;
  const json dashboard = json::parse(contents(GANTRY_ROOT "/examples/metrics/grafana.json"));
  for (const json& panel : dashboard["panels"])
    for (const json& target : panel["targets"]) {
      const std::string query = target["expr"];
      for (std::size_t at = 0; (at = query.find("gantry_", at)) != std::string::npos;) {
        const auto end = query.find_first_not_of("abcdefghijklmnopqrstuvwxyz_", at);
        EXPECT_THAT(text, HasSubstr("\n" + query.substr(at, end - at) + "{")) << query;
        at = end;
        ++queries;
      }
    }
  EXPECT_GE(queries, 6);
}

TEST_F(Serve, AStoppedReaderIsStuckAndADeadOneIsGone) {
  const Subprocess server = serving();
  Command command = put({"c", "--lines"}, "x\n");
  command.keep_input = true;
  const Subprocess putting(command);
  Subprocess getting(gantry({"get", "c"}));
  ASSERT_TRUE(getting.wait_output("x\n"));
  getting.signal(SIGSTOP);
  ASSERT_TRUE(eventually([&] {
    const json channels = status()["channels"];
    return channels.size() == 1 && channels[0]["consumers"].size() == 1 &&
           channels[0]["consumers"][0]["stuck"] == true;
  }));
  EXPECT_EQ(status()["channels"][0]["consumers"][0]["pid"], getting.pid());
  const int pid = getting.pid();
  getting.signal(SIGKILL);
  ASSERT_TRUE(eventually([&] { return !status()["gone"].empty(); }));
  const json gone = status()["gone"][0];
  EXPECT_EQ(gone["pid"], pid);
  EXPECT_EQ(gone["role"], "consumer");
  EXPECT_EQ(gone["where"], "c");
  EXPECT_EQ(gone["last"], "at the last look it had received 1 message");
}

TEST_F(Serve, ThePageIsInTheProgramAndRunsNothingOfOthers) {
  const Subprocess server = serving();
  const std::string page = ask("/");
  EXPECT_THAT(page, HasSubstr("Content-Security-Policy: default-src 'none'; script-src 'self'"));
  EXPECT_THAT(page, HasSubstr("<script src=\"page.js\" defer></script>"));
  for (const std::string name : {"page.js", "graph.js", "parts.js", "page.css"}) {
    EXPECT_EQ(body("/" + name), contents(GANTRY_ROOT "/tools/gantry/page/" + name));
    EXPECT_THAT(body("/" + name), Not(HasSubstr("innerHTML")));
  }
  EXPECT_THAT(ask("/nothing"), StartsWith("HTTP/1.1 404 "));
}

// ---- faults ------------------------------------------------------------------------------------

/// A socket in the folder under `name`. It says nothing; or, to whoever connects, random bytes.
class HostileEnd {
 public:
  HostileEnd(const ScratchDirectory& folder, const std::string& name, bool babbles)
      : path_(folder.file(name + ".sock")) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path_.copy(static_cast<char*>(address.sun_path), sizeof address.sun_path - 1);
    EXPECT_EQ(::bind(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(::listen(socket_, 64), 0);
    if (babbles) babbling_ = std::thread([this] { babble(); });
  }
  HostileEnd(const HostileEnd&) = delete;
  HostileEnd& operator=(const HostileEnd&) = delete;
  ~HostileEnd() {
    ::shutdown(socket_, SHUT_RDWR);
    if (babbling_.joinable()) babbling_.join();
    ::close(socket_);
    ::unlink(path_.c_str());
  }

 private:
  void babble() const {
    for (int one = -1; (one = ::accept(socket_, nullptr, nullptr)) >= 0; ::close(one))
      for (std::size_t size = 1; size < 16384; size *= 2) {
        const std::string bytes = random_bytes(size);
        if (::send(one, bytes.data(), size, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) break;
      }
  }
  std::string path_;
  int socket_ = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  std::thread babbling_;
};

// One is mute, and its name is markup; one answers with garbage; one channel is honest.
TEST_F(Serve, AHostileEndDisturbsNobodyElse) {
  const std::string name = "<img src=x onerror=alert(1)>";
  const HostileEnd mute(scratch_, name, false);
  const HostileEnd babbler(scratch_, "babbler", true);
  const Subprocess server = serving();
  const Subprocess putting(put({"honest"}, "x"));
  json channels;
  ASSERT_TRUE(eventually([&] {
    channels = status()["channels"];
    return channels.size() == 3 && channels[2]["messages"] == 1;
  }));
  EXPECT_EQ(channels[0]["name"], name);
  EXPECT_EQ(channels[1]["name"], "babbler");
  EXPECT_EQ(channels[2]["name"], "honest");
  for (const int hostile : {0, 1}) {
    EXPECT_EQ(channels[hostile]["answered"], false);
    EXPECT_NE(channels[hostile]["silence"], "");
  }
  EXPECT_EQ(channels[2]["answered"], true);
  if (!has_metrics()) return;
  EXPECT_EQ(metric("gantry_channel_up{channel=\"" + name + "\"}"), 0);
  EXPECT_EQ(metric("gantry_channel_up{channel=\"babbler\"}"), 0);
  EXPECT_EQ(metric("gantry_channel_messages_total{channel=\"honest\"}"), 1);
}

// Silent, talking nonsense, or gone in the middle of an answer: others are answered.
TEST_F(Serve, ACallerThatMisbehavesHoldsUpNobody) {
  const Subprocess server = serving();
  const Caller silent(port_);
  const Caller half(port_);
  half.say("GET / HT");
  for (int i = 0; i < 100; ++i) {
    const Caller leaver(port_);
    leaver.say("GET /page.js HTTP/1.1\r\nHost: localhost\r\n\r\n");
  }
  const Caller babbler(port_);
  babbler.say(std::string(9000, 'x'));
  EXPECT_THAT(babbler.hear_all(), StartsWith("HTTP/1.1 431 "));
  const Caller binary(port_);
  binary.say(std::string("\0\1\2\r\n\r\n", 7));
  EXPECT_THAT(binary.hear_all(), StartsWith("HTTP/1.1 400 "));
  const Caller poster(port_);
  poster.say("POST /status.json HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(poster.hear_all(), StartsWith("HTTP/1.1 405 "));
  const Caller twice(port_);
  twice.say(
      "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
      "GET /page.css HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(twice.hear_all(), AllOf(HasSubstr("<!doctype html>"), HasSubstr("color-scheme")));
  EXPECT_TRUE(status()["channels"].empty());
}

// What looks like a second request within a refused one is not answered, and the answer arrives
// though more lies unread behind it.
TEST_F(Serve, ARefusedRequestGetsOneAnswer) {
  const Subprocess server = serving();
  const std::string head = "GET / HTTP/1.1\r\nHost: localhost\r\n";
  const std::string hidden = head + "Connection: close\r\n\r\n";
  for (const std::string field :
       {"Content-Length : 55", "Content-Length: 0\r\nContent-Length: 55", "X: a\r\n b",
        "Transfer-Encoding : chunked", "X: a\nContent-Length: 55", "Host: localhost"}) {
    const Caller caller(port_);
    caller.say(head + field + "\r\n\r\n" + hidden + std::string(1 << 20, 'x'));
    const std::string answer = caller.hear_all();
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 400 ")) << field;
    EXPECT_THAT(answer.substr(1), Not(HasSubstr("HTTP/1.1"))) << field;
  }
}

TEST_F(Serve, ProbesOfOldAndProxiesAreAnswered) {
  const Subprocess server = serving();
  const auto answer = [&](const std::string& request) {
    const Caller caller(port_);
    caller.say(request);
    return caller.hear_all();
  };
  EXPECT_THAT(answer("GET /status.json HTTP/1.0\r\n\r\n"), StartsWith("HTTP/1.1 200 "));
  const std::string rest = "/ HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
  EXPECT_THAT(answer("GET http://127.0.0.1" + rest), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(answer("GET http://evil.example" + rest), StartsWith("HTTP/1.1 421 "));
}

TEST_F(Serve, APageElsewhereCannotReadByRebinding) {
  const Subprocess server = serving();
  EXPECT_THAT(ask("/status.json", {}, "evil.example"), StartsWith("HTTP/1.1 421 "));
  EXPECT_THAT(ask("/metrics", {}, "localhost.evil.example:9464"), StartsWith("HTTP/1.1 421 "));
  EXPECT_THAT(ask("/status.json", {}, "127.0.0.1:9464"), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(ask("/status.json"), Not(HasSubstr("Access-Control")));
}

TEST_F(Serve, WhereOthersCanCallATokenIsNeeded) {
  const auto without = run(gantry({"serve", "--listen", "0.0.0.0:0"}));
  EXPECT_EQ(without.status, 1);
  EXPECT_THAT(without.errors, AllOf(IsOneLine(), HasSubstr("--token-file")));
  const std::string file = token_file("token", "sixteen_letters_and_more");
  const Subprocess server = serving({"--token-file", file}, "0.0.0.0:0");
  for (const char* path : {"/", "/metrics", "/status.json", "/page.js"})
    EXPECT_THAT(ask(path),
                AllOf(StartsWith("HTTP/1.1 401 "), HasSubstr("WWW-Authenticate: Basic")));
  EXPECT_THAT(ask("/status.json", "Authorization: Bearer sixteen_letters_and_mort\r\n"),
              StartsWith("HTTP/1.1 401 "));
  EXPECT_THAT(ask("/status.json", "Authorization: Bearer sixteen_letters_and_more\r\n"),
              StartsWith("HTTP/1.1 200 "));
}

TEST_F(Serve, ABridgesTokenIsNotGivenToBrowsers) {
  const std::string file = token_file("token", "sixteen_letters_and_more");
  Command command = gantry({"serve", "--token-file", file});
  command.env.emplace_back("GANTRY_TOKEN_FILE", file);
  const auto ended = run(command);
  EXPECT_EQ(ended.status, 1);
  EXPECT_THAT(ended.errors, AllOf(IsOneLine(), HasSubstr("it is the bridge's")));
  const auto missing = run(gantry({"serve", "--token-file", files_.file("none")}));
  EXPECT_EQ(missing.status, 1);
  EXPECT_THAT(missing.errors, AllOf(IsOneLine(), HasSubstr("make one for this: ")));
}

TEST_F(Serve, AnInterruptEndsTheSearchForAName) {
  Command command = gantry({"serve", "--listen", "some.host.example"});
  command.env.emplace_back("LD_PRELOAD", DEAF_NAMES);
  Subprocess server(command);
  ASSERT_TRUE(server.wait_errors("asked for a name"));
  server.signal(SIGINT);
  const auto ended = server.wait();
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->status, 130);
  EXPECT_EQ(ended->errors, "asked for a name\n");
}

TEST_F(Serve, APortThatIsTakenIsOneLine) {
  const Subprocess server = serving();
  const auto second = run(gantry({"serve", "--listen", "127.0.0.1:" + std::to_string(port_)}));
  EXPECT_EQ(second.status, 1);
  EXPECT_THAT(second.errors, AllOf(IsOneLine(), HasSubstr("another process listens there")));
  const std::vector<std::string> wrong{"tls:127.0.0.1", "unix:/tmp/x", "127.0.0.1:port",
                                       "192.0.2.1:0"};
  for (const std::string& listen : wrong) {
    const auto ended = run(gantry({"serve", "--listen", listen}));
    EXPECT_EQ(ended.status, 1) << listen;
    EXPECT_THAT(ended.errors, IsOneLine()) << listen;
  }
  EXPECT_THAT(run(gantry({"serve", "--listen", "127.0.0.1:99999"})).errors,
              AllOf(IsOneLine(), HasSubstr("'99999' is no port; write ADDRESS[:PORT]"),
                    Not(HasSubstr("tls:"))));
}

// Also while it waits for a producer that does not answer.
TEST_F(Serve, AnInterruptEndsItAtOnce) {
  for (const int number : {SIGINT, SIGTERM}) {
    Command command = put({"c", "--lines"}, "x\n");
    command.keep_input = true;
    const Subprocess putting(command);
    ASSERT_TRUE(listed("c"));
    putting.signal(SIGSTOP);
    Subprocess server = serving();
    ASSERT_TRUE(eventually([&] {
      const json channels = status()["channels"];
      return channels.size() == 1 && channels[0]["answered"] == false;
    }));
    server.signal(number);
    const auto ended = server.wait();
    ASSERT_TRUE(ended);
    EXPECT_EQ(ended->status, 130);
    putting.signal(SIGCONT);
  }
}

}  // namespace
}  // namespace gantry::test
