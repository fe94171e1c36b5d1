#include <nlohmann/json.hpp>

#include "run/report/report.hpp"

namespace gantry::run {
namespace {

using Json = nlohmann::ordered_json;

Json copies_json(const ChannelReport& channel) {
  Json engines = Json::object();
  for (std::size_t engine = 0; engine < kCopyEngines; ++engine)
    engines[std::string(to_string(static_cast<CopyEngine>(engine)))] = {
        {"copies", channel.copies[engine]}, {"bytes", channel.copied_bytes[engine]}};
  return engines;
}

Json channel_json(const ChannelReport& channel) {
  return {{"name", channel.name},
          {"from", channel.from},
          {"to", channel.to},
          {"links", channel.links},
          {"published_messages", channel.published_messages},
          {"published_bytes", channel.published_bytes},
          {"messages", channel.messages},
          {"bytes", channel.bytes},
          {"accounted", channel.accounted()},
          {"seconds", channel.seconds},
          {"gb_per_s", channel.gb_per_s()},
          {"handoff_p50_ns", channel.handoff_p50_ns},
          {"handoff_p99_ns", channel.handoff_p99_ns},
          {"movement_ns_per_message", channel.movement_ns_per_message()},
          {"cpu_s_per_gb", channel.cpu_s_per_gb()},
          {"sender_wait_s", channel.sender_wait_s},
          {"receiver_wait_s", channel.receiver_wait_s},
          {"copies", copies_json(channel)}};
}

Json stage_json(const StageReport& stage) {
  return {{"name", stage.name},
          {"host", stage.host.empty() ? Json() : Json(stage.host)},
          {"replicas", stage.replicas},
          {"wall_s", stage.wall_s},
          {"user_s", stage.user_s},
          {"system_s", stage.system_s},
          {"waiting", stage.counts_waits ? Json(stage.waiting) : Json()},
          {"max_rss_bytes", stage.max_rss_bytes}};
}

}  // namespace

Json to_json(const RunReport& report) {
  Json channels = Json::array();
  for (const ChannelReport& channel : report.channels) channels.push_back(channel_json(channel));
  Json stages = Json::array();
  for (const StageReport& stage : report.stages) stages.push_back(stage_json(stage));
  return {{"pipeline", report.pipeline},
          {"transport", to_string(report.transport)},
          {"wall_s", report.wall_s},
          {"bytes", report.bytes()},
          {"cpu_s", report.cpu_s()},
          {"accounted", report.check_accounts().has_value()},
          {"slowest_stage", report.slowest().name},
          {"channels", std::move(channels)},
          {"stages", std::move(stages)}};
}

}  // namespace gantry::run
