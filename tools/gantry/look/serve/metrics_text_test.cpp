#include "look/serve/metrics_text.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <set>
#include <sstream>

#include "look/serve/site.hpp"
#include "rank_view.hpp"
#include "tools/command_line/json_text.hpp"

namespace gantry::cli {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class MetricsText : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!kHasMetrics) GTEST_SKIP() << kNoMetrics;
  }
  ChannelStatus& add(const std::string& name, bool answered = true) {
    ChannelStatus& channel = snapshot_.rows.emplace_back().channel;
    channel.name = name;
    channel.answered = answered;
    return channel;
  }
  static ConsumerStatus consumer(int pid, std::uint64_t messages) {
    ConsumerStatus one;
    one.pid = pid;
    one.metrics.messages = messages;
    return one;
  }
  /// Of the sample whose name and labels are `series`; "none" without it.
  [[nodiscard]] std::string value(const std::string& series) const {
    std::istringstream lines(metrics_text(snapshot_));
    for (std::string line; std::getline(lines, line);)
      if (line.starts_with(series + " ")) return line.substr(series.size() + 1);
    return "none";
  }
  Snapshot snapshot_;
};

TEST_F(MetricsText, CountersAndLevelsAreThoseOfTheChannel) {
  ChannelStatus& channel = add("c");
  channel.producer.messages = 9'007'199'254'740'991;  // the largest that no digit of is lost
  channel.producer.bytes = 12;
  channel.producer.wait_ns = 1'500'000'000;
  channel.producer.copies[0] = 7;
  channel.slots = 4;
  ConsumerStatus one = consumer(42, 5);
  one.dropped = 3;
  one.state = ProcessState::stopped;
  one.held = {{.message = 8, .bytes = 100, .age = std::chrono::seconds(2), .taken = true},
              {.message = 9, .bytes = 11, .age = std::chrono::seconds(1), .taken = false}};
  channel.consumers = {one};
  EXPECT_EQ(value("gantry_channel_messages_total{channel=\"c\"}"), "9007199254740991");
  EXPECT_EQ(value("gantry_channel_payload_bytes_total{channel=\"c\"}"), "12");
  EXPECT_EQ(value("gantry_channel_wait_seconds_total{channel=\"c\"}"), "1.5");
  EXPECT_EQ(value("gantry_channel_copies_total{channel=\"c\",engine=\"inline\"}"), "7");
  EXPECT_EQ(value("gantry_channel_credits{channel=\"c\"}"), "4");
  const std::string labels = "{channel=\"c\",consumer=\"42\"}";
  EXPECT_EQ(value("gantry_consumer_messages_total" + labels), "5");
  EXPECT_EQ(value("gantry_consumer_dropped_messages_total" + labels), "3");
  EXPECT_EQ(value("gantry_consumer_held_messages" + labels), "2");
  EXPECT_EQ(value("gantry_consumer_held_bytes" + labels), "111");
  EXPECT_EQ(value("gantry_consumer_oldest_held_seconds" + labels), "2");
  EXPECT_EQ(value("gantry_consumer_stuck" + labels), "1");
}

// So a dashboard's series go on with the next run.
TEST_F(MetricsText, TheSeriesOfARunAreNamedByPipelineStageAndReplica) {
  ChannelStatus& channel = add("run-4711-abc123/frames.0.1");
  channel.pipeline = "vision";
  channel.producer_pid = 4712;
  channel.producer_who = {"gpu1", "decode", "decode", 0, 1};
  channel.producer.messages = 7;
  channel.consumers = {consumer(4713, 5)};
  channel.consumers[0].who = {"gpu2", "python3 score.py", "score", 1, 2};
  EXPECT_EQ(value("gantry_channel_messages_total{channel=\"vision/frames.0.1\"}"), "7");
  EXPECT_THAT(metrics_text(snapshot_),
              HasSubstr("gantry_channel_info{channel=\"vision/frames.0.1\",stage=\"decode\","
                        "replica=\"0\",command=\"decode\",host=\"gpu1\",producer=\"4712\","));
  EXPECT_EQ(value("gantry_consumer_messages_total{channel=\"vision/frames.0.1\","
                  "consumer=\"score.1\",stage=\"score\",replica=\"1\","
                  "command=\"python3 score.py\",host=\"gpu2\"}"),
            "5");
  ChannelStatus& other = add("run-4800-abc124/frames.0.1");
  other = snapshot_.rows.front().channel;
  other.name = "run-4800-abc124/frames.0.1";
  EXPECT_THAT(metrics_text(snapshot_), HasSubstr("channel=\"vision/frames.0.1#2\""))
      << "of a second run of the same pipeline at the same time";
}

TEST_F(MetricsText, APoolSaysWhatItHoldsAndEverHeld) {
  ChannelStatus& channel = add("c");
  channel.slab_bytes = 4096;
  channel.live_bytes = 100;
  channel.peak_bytes = 200;
  channel.budget_bytes = 8192;
  channel.registrations = 3;
  channel.refused_registrations = 1;
  EXPECT_EQ(value("gantry_pool_bytes{channel=\"c\"}"), "4096");
  EXPECT_EQ(value("gantry_pool_live_bytes{channel=\"c\"}"), "100");
  EXPECT_EQ(value("gantry_pool_peak_bytes{channel=\"c\"}"), "200");
  EXPECT_EQ(value("gantry_pool_budget_bytes{channel=\"c\"}"), "8192");
  EXPECT_EQ(value("gantry_pool_registrations{channel=\"c\"}"), "3");
  EXPECT_EQ(value("gantry_pool_refused_registrations{channel=\"c\"}"), "1");
}

// What was faster is in every slower bucket, too. A hostile end's counts do not run over.
TEST_F(MetricsText, HandOffsAreAHistogram) {
  ConsumerStatus one = consumer(42, 5);
  one.handoffs[1] = 3;      // above 300 ns, at most 1 µs
  one.handoffs[7] = 2;      // at most 1 ms
  one.handoffs.back() = 4;  // above 10 s
  one.metrics.handoff_total_ns = 3'000'000'000;
  ConsumerStatus hostile = consumer(43, 5);
  hostile.handoffs.fill(~std::uint64_t{0});
  add("c").consumers = {one, hostile};
  const auto bucket = [&](const char* bound) {
    return value(fmt::format(
        "gantry_consumer_handoff_seconds_bucket{{channel=\"c\",consumer=\"42\",le=\"{}\"}}",
        bound));
  };
  EXPECT_EQ(bucket("3e-07"), "0");
  EXPECT_EQ(bucket("1e-06"), "3");
  EXPECT_EQ(bucket("0.0003"), "3");
  EXPECT_EQ(bucket("0.001"), "5");
  EXPECT_EQ(bucket("10"), "5");
  EXPECT_EQ(bucket("+Inf"), "9");
  const std::string labels = "{channel=\"c\",consumer=\"42\"}";
  EXPECT_EQ(value("gantry_consumer_handoff_seconds_count" + labels), "9");
  EXPECT_EQ(value("gantry_consumer_handoff_seconds_sum" + labels), "3");
  EXPECT_THAT(metrics_text(snapshot_),
              HasSubstr("# TYPE gantry_consumer_handoff_seconds histogram\n"));
  EXPECT_EQ(value("gantry_consumer_handoff_seconds_count{channel=\"c\",consumer=\"43\"}"),
            fmt::to_string(~std::uint64_t{0}));
}

TEST_F(MetricsText, ASilentChannelIsDownAndNothingElse) {
  add("c", false).consumers = {consumer(1, 1)};
  EXPECT_EQ(value("gantry_channel_up{channel=\"c\"}"), "0");
  EXPECT_THAT(metrics_text(snapshot_), Not(HasSubstr("gantry_channel_messages_total")));
  EXPECT_THAT(metrics_text(snapshot_), Not(HasSubstr("gantry_consumer")));
}

TEST_F(MetricsText, ANameOfAnyBytesStaysOneLabel) {
  add("a\"b\\c\nd} 9\xff");
  EXPECT_EQ(value("gantry_channel_up{channel=\"a\\\"b\\\\c\\nd} 9\xef\xbf\xbd\"}"), "1");
  add(std::string(100'000, 'x'));
  EXPECT_LT(metrics_text(snapshot_).size(), 40'000u);
}

// A scraper refuses a text in which two series are the same.
TEST_F(MetricsText, NoTwoSeriesAreTheSame) {
  ChannelStatus& channel = add("c");
  channel.consumers = {consumer(42, 1), consumer(42, 2), consumer(0, 3), consumer(0, 4)};
  channel.senders.resize(3);
  channel.departed.resize(2);
  add("c");
  snapshot_.ranks.resize(2);
  std::set<std::string> series;
  std::istringstream lines(metrics_text(snapshot_));
  for (std::string line; std::getline(lines, line);)
    EXPECT_TRUE(line.starts_with('#') || series.insert(line.substr(0, line.rfind(' '))).second)
        << line;
  EXPECT_EQ(value("gantry_consumer_messages_total{channel=\"c\",consumer=\"42\"}"), "1");
  EXPECT_EQ(value("gantry_consumer_messages_total{channel=\"c\",consumer=\"42#2\"}"), "2");
}

TEST_F(MetricsText, ASenderThatWaitsIsSeen) {
  add("c").senders.push_back({.pid = 7, .credits = 8, .unread = 3, .held = 5, .waits = true});
  for (const auto& [name, wanted] : {std::pair("credits", "8"), std::pair("unread_messages", "3"),
                                     std::pair("held_messages", "5"), std::pair("waits", "1")})
    EXPECT_EQ(value(fmt::format("gantry_sender_{}{{channel=\"c\",sender=\"7\"}}", name)), wanted);
}

TEST_F(MetricsText, EightRanksAreEightSeries) {
  for (unsigned rank = 0; rank < 8; ++rank) {
    snapshot_.ranks.emplace_back().group = "g";
    snapshot_.ranks.back().rank = rank;
    snapshot_.ranks.back().runs = rank;
  }
  for (unsigned rank = 0; rank < 8; ++rank)
    EXPECT_EQ(
        value(fmt::format("gantry_rank_runs_total{{group=\"g\",rank=\"{}\",pid=\"0\"}}", rank)),
        fmt::to_string(rank));
}

TEST(OpenMetrics, CountersAreNamedWithoutTotalAndTheTextHasAnEnd) {
  EXPECT_EQ(
      as_open_metrics("# HELP a_total What a_total is.\n# TYPE a_total counter\n"
                      "a_total{b=\"# TYPE x_total \"} 1\n# HELP g Level.\n# TYPE g gauge\ng 2\n"),
      "# HELP a What a_total is.\n# TYPE a counter\n"
      "a_total{b=\"# TYPE x_total \"} 1\n# HELP g Level.\n# TYPE g gauge\ng 2\n# EOF\n");
}

TEST(StatusJson, AnythingBecomesTextOfUtf8) {
  Snapshot snapshot;
  snapshot.rows.emplace_back().channel.name = "<img src=x onerror=alert(1)>\xff";
  const std::string text = json_text(status_json(snapshot, "/d"));
  EXPECT_THAT(text, HasSubstr("<img src=x onerror=alert(1)>\xef\xbf\xbd"));
}

TEST(RanksTable, IsNoWiderThanAPageWhereItIsNoTerminal) {
  RankStatus rank;
  rank.group = "g";
  rank.pid = 4711;
  for (int i = 0; i < 80; ++i) rank.plan += "all-reduce ";
  std::istringstream lines(ranks_table({rank}));
  std::string words;
  for (std::string line; std::getline(lines, line); words += line)
    EXPECT_LE(line.size(), 100u) << line;
  EXPECT_THAT(words, HasSubstr("all-reduce"));
}

// ---- who is gone -------------------------------------------------------------------------------

/// A process that waits to be ended; then its pid is nobody's.
class Child {
 public:
  Child() : pid_(::fork()) {
    if (pid_ == 0)
      for (;;) ::pause();
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() { end(); }
  void end() {
    if (!std::exchange(lives_, false)) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  [[nodiscard]] int pid() const { return pid_; }

 private:
  int pid_;
  bool lives_ = true;
};

Row row_with(int producer, int consumer) {
  Row row;
  row.channel.name = "c";
  row.channel.answered = true;
  row.channel.producer_pid = producer;
  if (consumer != 0) row.channel.consumers.emplace_back().pid = consumer;
  return row;
}

TEST(DeathReport, TellsTheDeadFromThoseWhoLeft) {
  Child producer;
  Child consumer;
  DeathReport deaths;
  EXPECT_THAT(deaths.read({row_with(producer.pid(), consumer.pid())}, {}), IsEmpty());
  EXPECT_THAT(deaths.read({row_with(producer.pid(), 0)}, {}), IsEmpty());  // it lives
  EXPECT_THAT(deaths.read({row_with(producer.pid(), consumer.pid())}, {}), IsEmpty());
  consumer.end();
  EXPECT_THAT(deaths.read({row_with(producer.pid(), 0)}, {}),
              ElementsAre(AllOf(Field(&Gone::pid, consumer.pid()), Field(&Gone::role, "consumer"),
                                Field(&Gone::where, "c"))));
  EXPECT_THAT(deaths.read({row_with(producer.pid(), 0)}, {}), IsEmpty());  // told once
  producer.end();
  EXPECT_THAT(deaths.read({}, {}),
              ElementsAre(AllOf(Field(&Gone::pid, producer.pid()),
                                Field(&Gone::last, "at the last look its stream had not ended"))));
}

// Of a channel that does not answer nothing is heard of its consumers either.
TEST(DeathReport, WhoIsOnlyNotHeardOfIsNotGone) {
  Child consumer;
  DeathReport deaths;
  EXPECT_THAT(deaths.read({row_with(::getpid(), consumer.pid())}, {}), IsEmpty());
  Row silent = row_with(::getpid(), 0);
  silent.channel.answered = false;
  consumer.end();
  EXPECT_THAT(deaths.read({silent}, {}), IsEmpty());
  EXPECT_EQ(deaths.read({row_with(::getpid(), 0)}, {}).size(), 1u);
}

}  // namespace
}  // namespace gantry::cli
