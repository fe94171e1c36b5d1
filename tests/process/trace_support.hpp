#pragma once  // tests/process/trace_support.hpp: what `gantry trace` records, as a viewer loads it.

#include <signal.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "cli_support.hpp"

namespace gantry::test {

using nlohmann::json;

/// A trace as a viewer loads it.
class LoadedTrace {
 public:
  explicit LoadedTrace(const std::string& path) {
    std::ifstream file(path);
    all_ = json::parse(file, nullptr, false);
    EXPECT_FALSE(all_.is_discarded()) << path;
    if (all_.is_discarded()) return;
    for (const json& event : all_["traceEvents"]) events_.push_back(event);
  }

  [[nodiscard]] const json& all() const { return all_; }
  [[nodiscard]] std::vector<json> named(const std::string& name) const {
    std::vector<json> found;
    for (const json& event : events_)
      if (event["name"] == name && event["ph"] != "s" && event["ph"] != "f") found.push_back(event);
    return found;
  }
  /// Of the messages that were sent, how often each arrived, with as many bytes. By their number.
  [[nodiscard]] std::map<std::string, int> arrivals() const {
    std::map<std::string, int> times;
    std::map<std::string, json> bytes;
    for (const json& event : named("send")) {
      EXPECT_TRUE(times.emplace(event["args"]["message"], 0).second) << event;
      bytes[event["args"]["message"]] = event["args"]["bytes"];
    }
    for (const json& event : named("receive")) {
      EXPECT_EQ(bytes[event["args"]["message"]], event["args"]["bytes"]) << event;
      ++times[event["args"]["message"]];
    }
    return times;
  }
  /// Arrows of that name; each begins and ends inside a slice, and not before it began.
  [[nodiscard]] std::size_t arrows(const std::string& name) const {
    std::map<json, json> begun;
    std::size_t whole = 0;
    for (const json& event : events_) {
      if (event["name"] != name || (event["ph"] != "s" && event["ph"] != "f")) continue;
      EXPECT_TRUE(is_inside_a_slice(event)) << event;
      if (event["ph"] == "s") {
        begun[event["id"]] = event;
        continue;
      }
      EXPECT_TRUE(begun.contains(event["id"])) << event;
      EXPECT_LE(begun[event["id"]]["ts"], event["ts"]) << event;
      EXPECT_EQ(event["bp"], "e");
      ++whole;
    }
    EXPECT_EQ(whole, begun.size());
    return whole;
  }
  [[nodiscard]] std::set<int> pids() const {
    std::set<int> pids;
    for (const json& event : events_) pids.insert(event["pid"].get<int>());
    return pids;
  }

 private:
  // In nanoseconds: microseconds with three digits are not exact as doubles.
  static std::int64_t ns(const json& time) { return std::llround(time.get<double>() * 1000); }
  [[nodiscard]] bool is_inside_a_slice(const json& arrow) const {
    return std::ranges::any_of(events_, [&](const json& slice) {
      return slice["ph"] == "X" && slice["pid"] == arrow["pid"] && slice["tid"] == arrow["tid"] &&
             ns(slice["ts"]) <= ns(arrow["ts"]) &&
             ns(arrow["ts"]) < ns(slice["ts"]) + ns(slice["dur"]);
    });
  }

  json all_;
  std::vector<json> events_;
};

class TraceCommand : public Cli {
 protected:
  [[nodiscard]] std::string file() const { return results_.file("trace.json"); }
  /// Records until it is interrupted.
  [[nodiscard]] Subprocess record(std::vector<std::string> more = {}) const {
    std::vector<std::string> words{"trace", "-o", file(), "--seconds", "10min"};
    words.insert(words.end(), more.begin(), more.end());
    Subprocess recorder(gantry(words));
    EXPECT_TRUE(
        eventually([&] { return std::filesystem::exists(scratch_.file("trace") + "/control"); }));
    return recorder;
  }
  [[nodiscard]] static Ended finish(Subprocess& recorder) {
    recorder.signal(SIGINT);
    return behind_progress(recorder.wait().value_or(Ended{}));
  }
  /// Without the line that says, where there is no terminal, that it records.
  [[nodiscard]] static Ended behind_progress(Ended ended) {
    static constexpr std::string_view kProgress = "gantry trace: recording; Ctrl-C ends it";
    EXPECT_TRUE(ended.errors.starts_with(kProgress)) << ended.errors;
    ended.errors.erase(0, ended.errors.find('\n') + 1);
    return ended;
  }

  ScratchDirectory results_;
};

}  // namespace gantry::test
