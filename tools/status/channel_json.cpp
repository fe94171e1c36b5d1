#include "channel_json.hpp"
#include "tools/command_line/json_text.hpp"

#include <algorithm>

namespace gantry::cli {
namespace {

using nlohmann::json;

json to_json(const MetricsReport& report) {
  json copies = json::object();
  for (std::size_t i = 0; i < kCopyEngines; ++i)
    copies[std::string(to_string(static_cast<CopyEngine>(i)))] = {
        {"count", report.copies[i]}, {"bytes", report.copied_bytes[i]}};
  return {{"messages", report.messages},
          {"bytes", report.bytes},
          {"copies", copies},
          {"copy_ns", report.copy_ns},
          {"cpu_ns", report.cpu_ns},
          {"wait_ns", report.wait_ns},
          {"handoff_p50_ns", report.handoff_p50_ns},
          {"handoff_p99_ns", report.handoff_p99_ns},
          {"handoff_p999_ns", report.handoff_p999_ns},
          {"handoff_total_ns", report.handoff_total_ns}};
}

json to_json(const HeldSlot& slot) {
  return {{"message", slot.message},
          {"bytes", slot.bytes},
          {"age_ns", slot.age.count()},
          {"taken", slot.taken}};
}

json to_json(const EndName& who) {
  json told{{"host", who.host}, {"command", who.command}};
  told["stage"] = who.stage.empty() ? json() : json(who.stage);
  told["replica"] = who.stage.empty() ? json() : json(who.replica);
  told["text"] = who.text();
  return told;
}

json to_json(const ConsumerStatus& consumer) {
  json held = json::array();
  for (const HeldSlot& slot : consumer.held) held.push_back(to_json(slot));
  return {{"pid", consumer.pid},
          {"who", to_json(consumer.who)},
          {"uid", consumer.uid},
          {"state", to_string(consumer.state)},
          {"policy", to_string(consumer.policy)},
          {"depth_limit", consumer.depth},
          {"unread", consumer.unread},
          {"dropped", consumer.dropped},
          {"disconnected", consumer.is_cut},
          {"holds_up", consumer.holds_up},
          {"stuck", consumer.is_stuck()},
          {"joined_ns", consumer.joined.count()},
          {"idle_ns", consumer.idle.count()},
          {"held_bytes", consumer.held_bytes()},
          {"held", held},
          {"handoffs", consumer.handoffs},
          {"metrics", to_json(consumer.metrics)}};
}

json to_json(const DepartedStatus& one) {
  return {{"pid", one.pid},           {"who", to_json(one.who)}, {"state", to_string(one.state)},
          {"messages", one.messages}, {"bytes", one.bytes},      {"age_ns", one.age.count()}};
}

json to_json(const SenderStatus& sender) {
  return {{"pid", sender.pid},
          {"who", to_json(sender.who)},
          {"uid", sender.uid},
          {"state", to_string(sender.state)},
          {"joined_ns", sender.joined.count()},
          {"idle_ns", sender.idle.count()},
          {"messages", sender.messages},
          {"bytes", sender.bytes},
          {"credits", sender.credits},
          {"unread", sender.unread},
          {"held", sender.held},
          {"waits", sender.waits}};
}

json to_json(const PathStatus& path) {
  if (path.bytes == 0) return nullptr;
  return {{"bytes", path.bytes},
          {"moved_bytes", path.moved},
          {"mode", to_string(path.mode)},
          {"engine", to_string(path.engine)},
          {"cache", to_string(path.cache)},
          {"why", path.why}};
}

}  // namespace

std::string dump(const json& document, int indent) {
  return json_text(document, indent) + "\n";
}

json to_json(const ChannelStatus& channel) {
  const bool alone = channel.consumers.size() == 1;
  std::uint64_t received = 0;
  json consumers = json::array();
  json departed = json::array();
  json senders = json::array();
  for (const SenderStatus& sender : channel.senders) senders.push_back(to_json(sender));
  for (const ConsumerStatus& consumer : channel.consumers) {
    consumers.push_back(to_json(consumer));
    received = std::max(received, consumer.metrics.messages);
  }
  for (const DepartedStatus& one : channel.departed) departed.push_back(to_json(one));
  return {{"name", channel.name},
          {"shown_name", channel.shown_name()},
          {"made_up_name", is_made_up_name(channel.name)},
          {"pipeline", channel.pipeline},
          {"inbox", channel.is_inbox},
          {"server", channel.is_server},
          {"senders_limit", channel.senders_limit},
          {"senders", senders},
          {"producer_pid", channel.producer_pid},
          {"producer_who", to_json(channel.producer_who)},
          {"producer_uid", channel.producer_uid},
          {"producer_state", to_string(channel.producer_state)},
          {"answered", channel.answered},
          {"silence", channel.silence},
          {"consumer_pid", alone ? json(channel.consumers[0].pid) : json()},
          {"messages", channel.producer.messages},
          {"bytes", channel.producer.bytes},
          {"received_messages", received},
          {"depth", channel.depth()},
          {"mode", to_string(channel.mode)},
          {"ended", channel.ended},
          {"slots", channel.slots},
          {"slots_held", channel.slots_held},
          {"credits_used", channel.slots_charged},
          {"slots_sending", channel.slots_sending},
          {"bytes_in_flight", channel.bytes_charged},
          {"bytes_in_flight_limit", channel.bytes_in_flight},
          {"consumers_limit", channel.consumers_limit},
          {"history", channel.history},
          {"history_limit", channel.history_limit},
          {"backlog", channel.backlog},
          {"age_ns", channel.age.count()},
          {"memory_bytes", channel.slab_bytes},
          {"memory_used_bytes", channel.live_bytes},
          {"memory_budget_bytes", channel.budget_bytes},
          {"memory_peak_bytes", channel.peak_bytes},
          {"registrations", channel.registrations},
          {"refused_registrations", channel.refused_registrations},
          {"engine", channel.engine},
          {"path", to_json(channel.path)},
          {"metrics", to_json(channel.producer)},
          {"consumers", consumers},
          {"departed", departed},
          {"notes", channel.notes()}};
}

double average_rate(const ChannelStatus& channel) {
  const double seconds = std::chrono::duration<double>(channel.age).count();
  return seconds > 0 ? static_cast<double>(channel.producer.bytes) / seconds : 0;
}

std::string channels_json(const std::vector<ChannelStatus>& channels) {
  json list = json::array();
  for (const ChannelStatus& channel : channels) {
    list.push_back(to_json(channel));
    list.back()["average_bytes_per_second"] = average_rate(channel);
  }
  return dump({{"channels", list}}, 2);
}

}  // namespace gantry::cli
