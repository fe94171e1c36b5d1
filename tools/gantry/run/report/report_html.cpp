#include <gantry/runtime.hpp>
#include <nlohmann/json.hpp>

#include "page/report_page.hpp"
#include "run/report/report.hpp"

namespace gantry::run {
namespace {

using Json = nlohmann::ordered_json;
using Seconds = std::chrono::duration<double>;

// In the words of /status.json, so that one page shows both.
Json channel_json(const ChannelReport& channel, double wall_s, const Json& run,
                  const std::string& pipeline) {
  const double seconds = wall_s > 0 ? wall_s : 1;
  const Json consumer{{"pid", channel.to}, {"who", {{"stage", channel.to}}},
                      {"state", ""},       {"stuck", false},
                      {"unread", 0},       {"held", Json::array()}};
  return {{"name", channel.name},
          {"pipeline", pipeline},
          {"inbox", false},
          {"answered", true},
          {"producer_pid", channel.from},
          {"producer_who", {{"stage", channel.from}}},
          {"producer_state", ""},
          {"mode", channel.links == 1 ? "1 link" : std::to_string(channel.links) + " links"},
          {"depth", 0},
          {"messages_per_second", static_cast<double>(channel.messages) / seconds},
          {"bytes_per_second", static_cast<double>(channel.bytes) / seconds},
          {"notes", Json::array()},
          {"consumers", Json::array({consumer})},
          {"senders", Json::array()},
          {"run", run}};
}

double difference(std::uint64_t now, std::uint64_t before) noexcept {
  return now > before ? static_cast<double>(now - before) : 0;
}

/// [ms before the end, messages/s, bytes/s, depth] between each two moments.
Json history_json(const Course& course, std::size_t channel) {
  Json list = Json::array();
  const auto& moments = course.moments();
  for (std::size_t i = 1; i < moments.size(); ++i) {
    const Course::Moved& before = moments[i - 1].channels[channel];
    const Course::Moved& now = moments[i].channels[channel];
    const double seconds = Seconds(moments[i].at - moments[i - 1].at).count();
    if (seconds <= 0) continue;
    list.push_back({Seconds(moments.back().at - moments[i].at).count() * 1e3,
                    difference(now.messages, before.messages) / seconds,
                    difference(now.bytes, before.bytes) / seconds,
                    difference(now.published, now.messages)});
  }
  return list;
}

Json sum_of(const std::vector<Json>& histories) {
  Json sum = histories.empty() ? Json::array() : histories[0];
  for (std::size_t channel = 1; channel < histories.size(); ++channel)
    for (std::size_t i = 0; i < sum.size(); ++i)
      for (std::size_t field = 1; field < 4; ++field)
        sum[i][field] = sum[i][field].get<double>() + histories[channel][i][field].get<double>();
  return sum;
}

}  // namespace

std::string to_html(const RunReport& report, const Course& course) {
  const Json run = to_json(report);
  Json channels = Json::array();
  Json history = Json::object();
  std::vector<Json> histories;
  for (std::size_t i = 0; i < report.channels.size(); ++i) {
    channels.push_back(
        channel_json(report.channels[i], report.wall_s, run["channels"][i], report.pipeline));
    histories.push_back(history_json(course, i));
    history[report.channels[i].name] = histories.back();
  }
  history[""] = sum_of(histories);
  return cli::report_page({{"run", run},
                           {"history", std::move(history)},
                           {"last_words", report.last_words},
                           {"status",
                            {{"version", version()},
                             {"error", report.end ? "" : report.end.error().message},
                             {"channels", std::move(channels)},
                             {"ranks", Json::array()},
                             {"gone", Json::array()}}}});
}

}  // namespace gantry::run
