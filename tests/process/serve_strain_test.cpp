// `gantry serve` under strain: ends that fall silent, many of them, callers that leave or hurry.
#include <signal.h>
#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <gantry/gantry.hpp>
#include <map>
#include <thread>

#include "serve_support.hpp"

namespace gantry::test {
namespace {

using nlohmann::json;
using ::testing::StartsWith;

/// Of the sample whose name and labels are `series`; -1 without it.
double sample(const std::string& metrics, const std::string& series) {
  const auto at = metrics.find("\n" + series + " ");
  return at == std::string::npos ? -1 : std::stod(metrics.substr(at + series.size() + 2));
}

/// The channel's part of a status; null: it is not there.
json channel_of(const json& status, const std::string& name) {
  for (const json& one : status["channels"])
    if (one["name"] == name) return one;
  return {};
}

class ServeStrain : public Serve {
 protected:
  /// A producer whose lines are written to it.
  [[nodiscard]] Subprocess lines_into(const std::string& name) const {
    Command command = put({name, "--lines"}, "x\n");
    command.keep_input = true;
    return Subprocess(command);
  }
};

// A look at a silent end takes a second longer than the one before. What the others moved in half
// a second is not spread over that.
TEST_F(ServeStrain, ASilentEndDoesNotFalsifyTheRatesOfOthers) {
  const Subprocess server = serving();
  Subprocess honest = lines_into("honest");
  const Subprocess reading(gantry({"get", "honest"}));
  const Subprocess other = lines_into("other");
  json before;
  bool is_stopped = false;
  int turns = 0;  // looks that took longer, or shorter, than the one before, with a rate
  EXPECT_TRUE(eventually([&] {
    honest.write_input(std::string(999, 'x') + "\n");
    const json now = status();
    const json one = channel_of(now, "honest");
    const json last = before.is_null() ? json() : channel_of(before, "honest");
    if (one.is_null() || (!last.is_null() && now["look"] == before["look"])) return false;
    const json theirs = channel_of(now, "other");
    if (!last.is_null() && now["look"].get<int>() == before["look"].get<int>() + 1 &&
        !one["bytes_per_second"].is_null() && !theirs.is_null()) {
      const double seconds = (one["age_ns"].get<double>() - last["age_ns"].get<double>()) / 1e9;
      const double moved = one["bytes"].get<double>() - last["bytes"].get<double>();
      EXPECT_NEAR(one["bytes_per_second"].get<double>() * seconds, moved, 0.05 * moved) << turns;
      const json answered = channel_of(before, "other");
      if (!answered.is_null() && answered["answered"] != theirs["answered"]) ++turns;
    }
    before = now;
    if (!theirs.is_null() && theirs["answered"] == !is_stopped) {
      other.signal(is_stopped ? SIGCONT : SIGSTOP);
      is_stopped = !is_stopped;
    }
    return turns >= 2;
  }));
  other.signal(SIGCONT);
}

// More often than there are looks: nobody looks for it, and it gets the same text again.
TEST_F(ServeStrain, AnEagerScraperCausesNoLooks) {
  const Subprocess server = serving();
  if (!has_metrics()) GTEST_SKIP() << ask("/metrics");
  Subprocess sending = lines_into("c");
  const Subprocess reading(gantry({"get", "c"}));
  const std::string sent = "gantry_channel_messages_total{channel=\"c\"}";
  ASSERT_TRUE(eventually([&] { return metric(sent) >= 1; }));
  constexpr int kScrapes = 200;
  std::map<double, std::string> texts;  // by the number of looks
  double before = 0;
  for (int i = 0; i < kScrapes; ++i) {
    sending.write_input("x\n");
    const std::string text = body("/metrics");
    const double look = sample(text, "gantry_serve_looks_total");
    EXPECT_EQ(texts.try_emplace(look, text).first->second, text);
    EXPECT_GE(sample(text, sent), before);
    before = sample(text, sent);
  }
  EXPECT_LE(texts.size(), kScrapes / 2u);
  EXPECT_TRUE(eventually([&] { return metric(sent) == kScrapes + 1; }));
}

/// Ends of this process, each with one message of so many bytes as its number.
class ManyChannels {
 public:
  ManyChannels(const std::string& directory, unsigned count) {
    rlimit files{};
    ::getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &files);
    Runtime runtime = must(Runtime::create());
    ProducerOptions options;
    options.directory = directory;
    options.pool.slab_bytes = 64 << 10;
    for (unsigned i = 1; i <= count; ++i) {
      all_.push_back(must(runtime.producer("c" + std::to_string(i), options)));
      must(all_.back().send(std::vector<std::byte>(i)));
    }
  }

 private:
  std::vector<Producer> all_;
};

// A browser that leaves in the middle of a megabyte, or never reads it, keeps nobody waiting.
TEST_F(ServeStrain, AThousandChannelsAreAllThereThoughBrowsersLeave) {
  constexpr unsigned kMany = 1000;
  const ManyChannels channels(scratch_.path(), kMany);
  const Subprocess server = serving();
  json found;
  ASSERT_TRUE(eventually([&] {
    found = status()["channels"];
    return found.size() == kMany &&
           std::ranges::all_of(found, [](const json& one) { return one["answered"] == true; });
  }));
  const std::string request = "GET /status.json HTTP/1.1\r\nHost: localhost\r\n\r\n";
  const Caller silent(port_);
  silent.say(request);
  for (int i = 0; i < 20; ++i) {
    const Caller leaver(port_);
    leaver.say(request);
    EXPECT_THAT(leaver.hear(5000), StartsWith("HTTP/1.1 200 OK\r\n"));
  }
  std::map<std::string, std::uint64_t> bytes;
  found = status()["channels"];
  for (const json& one : found) bytes[one["name"]] = one["bytes"];
  ASSERT_EQ(bytes.size(), kMany);
  for (unsigned i = 1; i <= kMany; ++i) EXPECT_EQ(bytes["c" + std::to_string(i)], i);
  if (!has_metrics()) return;
  const std::string text = body("/metrics");
  for (unsigned i = 1; i <= kMany; ++i) {
    const std::string series = "gantry_channel_payload_bytes_total{channel=\"c";
    EXPECT_EQ(sample(text, series + std::to_string(i) + "\"}"), i);
  }
}

// It opens connections without an end, says nothing or half a line, and keeps them.
TEST_F(ServeStrain, AStrangerWithIdleConnectionsCrowdsOutNobody) {
  const Subprocess server = serving();
  std::atomic<bool> ends = false;
  std::vector<std::thread> strangers;
  for (const std::string says : {"", "", "GET / HT", "GET / HT"})
    strangers.emplace_back([&, says] {
      std::deque<Caller> kept;
      while (!ends) {
        kept.emplace_back(port_).say(says);
        if (kept.size() > 100) kept.pop_front();
      }
    });
  int answered = 0;
  for (int i = 0; i < 40; ++i) answered += ask("/page.css").starts_with("HTTP/1.1 200 ") ? 1 : 0;
  ends = true;
  for (std::thread& stranger : strangers) stranger.join();
  EXPECT_EQ(answered, 40);
}

// They take the last descriptor, which the next caller gets.
TEST_F(ServeStrain, IdleConnectionsLeaveADescriptorToTheNextCaller) {
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  const rlimit few{32, files.rlim_max};
  ::setrlimit(RLIMIT_NOFILE, &few);
  const Subprocess server = serving();
  ::setrlimit(RLIMIT_NOFILE, &files);
  std::deque<Caller> idle;
  for (int i = 0; i < 40; ++i) idle.emplace_back(port_).say("GET / HT");
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_THAT(ask("/page.css"), StartsWith("HTTP/1.1 200 "));
  constexpr std::chrono::seconds kPatience{30};  // of the server with idle connections
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kPatience / 2);
}

}  // namespace
}  // namespace gantry::test
