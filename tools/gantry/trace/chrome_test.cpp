#include "trace/chrome.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace gantry::cli {
namespace {

using nlohmann::json;
using trace::Event;
using trace::EventKind;

constexpr std::int32_t kSender = 10;
constexpr trace::MessageId kMessage{7, 1};

trace::Track track_of(trace::EndKind kind, std::int32_t pid, const Event& event) {
  trace::Track track;
  track.kind = kind;
  track.channel = "c";
  track.pid = pid;
  track.events.push_back(event);
  return track;
}

Event event_of(EventKind kind, std::uint64_t begin_ns, std::uint64_t duration_ns) {
  Event event;
  event.kind = kind;
  event.begin_ns = begin_ns;
  event.duration_ns = duration_ns;
  event.message = kMessage;
  return event;
}

/// A small message, which is noted behind its publication; by then readers may have it.
trace::Trace noted_at(std::uint64_t sent_ns, const std::vector<Event>& arrivals) {
  trace::Trace trace;
  trace.tracks.push_back(
      track_of(trace::EndKind::producer, kSender, event_of(EventKind::send, sent_ns, 0)));
  std::int32_t pid = kSender;
  for (const Event& arrival : arrivals)
    trace.tracks.push_back(track_of(trace::EndKind::consumer, ++pid, arrival));
  return trace;
}

std::int64_t ns(const json& time) {
  return std::llround(time.get<double>() * 1000);
}

class ChromeTrace : public ::testing::Test {
 protected:
  ~ChromeTrace() override { std::filesystem::remove(file_); }

  [[nodiscard]] std::vector<json> written(const trace::Trace& trace,
                                          std::initializer_list<const char*> phases,
                                          const std::string& channel = {}) const {
    auto output = OutputWriter::open(*OutputFile::at(file_));
    EXPECT_TRUE(output);
    const auto summary = write_chrome(trace, channel, *output);
    EXPECT_TRUE(summary) << summary.error().message;
    EXPECT_TRUE(output->keep());
    std::ifstream file(file_);
    const json all = json::parse(file);
    std::vector<json> found;
    for (const json& event : all["traceEvents"])
      if (std::ranges::find(phases, event["ph"]) != phases.end()) found.push_back(event);
    return found;
  }

 private:
  std::string file_ = ::testing::TempDir() + "gantry-chrome-" + std::to_string(::getpid());
};

TEST_F(ChromeTrace, AnArrowNeverGoesBackInTime) {
  const std::vector<Event> arrivals{event_of(EventKind::receive, 100, 800),
                                    event_of(EventKind::receive, 100, 500)};
  for (const std::uint64_t sent_ns : {450, 650, 950, 2000}) {
    const auto trace = noted_at(sent_ns, arrivals);
    const json sent = written(trace, {"X"}).front();
    EXPECT_EQ(sent["name"], "send");
    const auto ends = written(trace, {"s", "f"});
    ASSERT_EQ(ends.size(), 4u);
    for (std::size_t i = 0; i < ends.size(); i += 2) {
      EXPECT_EQ(ends[i]["ph"], "s");
      EXPECT_LE(ns(ends[i]["ts"]), ns(ends[i + 1]["ts"])) << sent_ns;
      EXPECT_LE(ns(sent["ts"]), ns(ends[i]["ts"])) << sent_ns;
      EXPECT_LT(ns(ends[i]["ts"]), ns(sent["ts"]) + ns(sent["dur"])) << sent_ns;
    }
  }
}

TEST_F(ChromeTrace, ASendThatWasNotedInTimeStaysWhereItWas) {
  const auto trace = noted_at(450, {event_of(EventKind::receive, 100, 500)});
  const auto slices = written(trace, {"X"});
  EXPECT_EQ(ns(slices[0]["ts"]) - ns(slices[1]["ts"]), 350);
}

TEST_F(ChromeTrace, AChannelComesWithTheSpansOfItsProcesses) {
  trace::Trace trace = noted_at(450, {event_of(EventKind::receive, 100, 500)});
  for (const auto& [pid, name] : {std::pair{kSender + 1, "decode"}, {99, "other"}}) {
    Event span = event_of(EventKind::span, 200, 50);
    span.what = name;
    trace.tracks.push_back(track_of(trace::EndKind::thread, pid, span));  // a thread called c
  }
  trace.tracks.push_back(track_of(trace::EndKind::consumer, 99, event_of(EventKind::wait, 1, 1)));
  trace.tracks.back().channel = "d";
  std::vector<std::string> names;
  for (const json& slice : written(trace, {"X"}, "c")) names.push_back(slice["name"]);
  EXPECT_THAT(names, ::testing::UnorderedElementsAre("send", "receive", "decode"));
}

}  // namespace
}  // namespace gantry::cli
