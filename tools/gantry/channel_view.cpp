#include "channel_view.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "output.hpp"

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

json to_json(const ConsumerStatus& consumer) {
  json held = json::array();
  for (const HeldSlot& slot : consumer.held) held.push_back(to_json(slot));
  return {{"pid", consumer.pid},
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
          {"metrics", to_json(consumer.metrics)}};
}

json to_json(const DepartedStatus& one) {
  return {{"pid", one.pid},
          {"state", to_string(one.state)},
          {"messages", one.messages},
          {"bytes", one.bytes},
          {"age_ns", one.age.count()}};
}

json to_json(const SenderStatus& sender) {
  return {{"pid", sender.pid},
          {"uid", sender.uid},
          {"state", to_string(sender.state)},
          {"joined_ns", sender.joined.count()},
          {"idle_ns", sender.idle.count()},
          {"messages", sender.messages},
          {"bytes", sender.bytes}};
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

std::string hand_off(std::uint64_t ns) {
  return ns == 0 ? "-" : format_time(std::chrono::nanoseconds(ns));
}

std::string oldest_of(const ConsumerStatus& consumer) {
  return consumer.held.empty() ? "-" : format_time(consumer.held.front().age);
}

}  // namespace

std::string printable(std::string text) {
  std::ranges::replace_if(text, [](unsigned char c) { return c < 0x20 || c == 0x7f; }, '?');
  return text;
}

std::string dump(const json& document, int indent) {
  return document.dump(indent, ' ', false, json::error_handler_t::replace) + "\n";
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
          {"inbox", channel.is_inbox},
          {"senders_limit", channel.senders_limit},
          {"senders", senders},
          {"producer_pid", channel.producer_pid},
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
          {"engine", channel.engine},
          {"path", to_json(channel.path)},
          {"metrics", to_json(channel.producer)},
          {"consumers", consumers},
          {"departed", departed},
          {"notes", channel.notes()}};
}

std::string producers_text(const ChannelStatus& channel) {
  if (!channel.is_inbox) return fmt::to_string(channel.producer_pid);
  return fmt::format("{} of {}", channel.senders.size(), channel.senders_limit);
}

std::string consumers_text(const ChannelStatus& channel) {
  if (channel.consumers.empty()) return "none";
  if (channel.consumers.size() == 1 && (channel.consumers_limit == 1 || channel.is_inbox))
    return fmt::to_string(channel.consumers[0].pid);
  return fmt::format("{} of {}", channel.consumers.size(), channel.consumers_limit);
}

std::string path_text(const ChannelStatus& channel) {
  if (channel.path.bytes == 0) return "-";
  return fmt::format("{} {} by {}", format_bytes(channel.path.bytes), to_string(channel.path.mode),
                     to_string(channel.path.engine));
}

std::string copies_text(const MetricsReport& report) {
  std::string text;
  for (std::size_t i = 0; i < kCopyEngines; ++i)
    if (report.copies[i] != 0)
      text +=
          fmt::format("{}{} by {} ({})", text.empty() ? "" : ", ", format_count(report.copies[i]),
                      to_string(static_cast<CopyEngine>(i)), format_bytes(report.copied_bytes[i]));
  return text.empty() ? "none" : text;
}

std::string consumers_table(const std::vector<ChannelStatus>& channels, bool all) {
  using enum Table::Align;
  Table table({{"CHANNEL", left},
               {"CONSUMER", right},
               {"STATE", left},
               {"POLICY", left},
               {"TAKEN", right},
               {"UNREAD", right},
               {"HOLDS", right},
               {"BYTES", right},
               {"OLDEST", right},
               {"DROPPED", right},
               {"IDLE", right},
               {"P50", right},
               {"P99", right}});
  bool any = false;
  for (const ChannelStatus& channel : channels) {
    if ((channel.consumers.size() < 2 && !all) || channel.is_inbox) continue;
    for (const ConsumerStatus& consumer : channel.consumers) {
      any = true;
      table.add({printable(channel.name), fmt::to_string(consumer.pid),
                 std::string(consumer.is_cut ? "disconnected" : to_string(consumer.state)),
                 std::string(to_string(consumer.policy)), format_count(consumer.metrics.messages),
                 format_count(consumer.unread), fmt::to_string(consumer.held.size()),
                 format_bytes(consumer.held_bytes()), oldest_of(consumer),
                 format_count(consumer.dropped), format_time(consumer.idle),
                 hand_off(consumer.metrics.handoff_p50_ns),
                 hand_off(consumer.metrics.handoff_p99_ns)});
    }
  }
  return any ? table.text() : std::string();
}

std::string senders_table(const std::vector<ChannelStatus>& channels) {
  using enum Table::Align;
  Table table({{"INBOX", left},
               {"SENDER", right},
               {"STATE", left},
               {"MESSAGES", right},
               {"BYTES", right},
               {"IDLE", right},
               {"AGE", right}});
  bool any = false;
  for (const ChannelStatus& channel : channels)
    for (const SenderStatus& sender : channel.senders) {
      any = true;
      table.add({printable(channel.name), fmt::to_string(sender.pid),
                 std::string(to_string(sender.state)), format_count(sender.messages),
                 format_bytes(sender.bytes), format_time(sender.idle), format_time(sender.joined)});
    }
  return any ? table.text() : std::string();
}

std::string slots_table(const std::vector<ChannelStatus>& channels) {
  using enum Table::Align;
  Table table({{"CHANNEL", left},
               {"MESSAGE", right},
               {"BYTES", right},
               {"AGE", right},
               {"HELD BY", right},
               {"WHERE", left}});
  bool any = false;
  for (const ChannelStatus& channel : channels)
    for (const ConsumerStatus& consumer : channel.consumers)
      for (const HeldSlot& slot : consumer.held) {
        any = true;
        table.add({printable(channel.name), fmt::to_string(slot.message), format_bytes(slot.bytes),
                   format_time(slot.age), fmt::to_string(consumer.pid),
                   slot.taken ? "in hand" : "unread"});
      }
  return any ? table.text() : std::string();
}

std::string notes_text(const std::vector<ChannelStatus>& channels) {
  std::string text;
  for (const ChannelStatus& channel : channels)
    for (const std::string& note : channel.notes())
      text += fmt::format("note: {}: {}\n", printable(channel.name), printable(note));
  return text;
}

}  // namespace gantry::cli
