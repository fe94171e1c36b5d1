#include "channel_view.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "output.hpp"

namespace gantry::cli {
namespace {

std::string oldest_of(const ConsumerStatus& consumer) {
  return consumer.held.empty() ? "-" : format_time(consumer.held.front().age);
}

// As the ends of this host call it.
const std::string& own_host() {
  static const std::string host = own_end_name().host;
  return host;
}

}  // namespace

std::string hand_off_text(std::uint64_t ns) {
  return ns == 0 ? "-" : format_time(std::chrono::nanoseconds(ns));
}

std::string end_text(const EndName& who, int pid) {
  std::string name = printable(who.text());
  if (!who.host.empty() && who.host != own_host()) name += "@" + printable(who.host);
  return name.empty() ? fmt::to_string(pid) : fmt::format("{} ({})", name, pid);
}

std::string producers_text(const ChannelStatus& channel) {
  if (!channel.is_inbox) return end_text(channel.producer_who, channel.producer_pid);
  return fmt::format("{} of {}", channel.senders.size(), channel.senders_limit);
}

std::string consumers_text(const ChannelStatus& channel) {
  if (channel.consumers.empty()) return "none";
  if (channel.consumers.size() == 1 && (channel.consumers_limit == 1 || channel.is_inbox))
    return end_text(channel.consumers[0].who, channel.consumers[0].pid);
  return fmt::format("{} of {}", channel.consumers.size(), channel.consumers_limit);
}

std::string kind_text(const ChannelStatus& channel) {
  return channel.is_server ? "server" : channel.is_inbox ? "inbox" : "channel";
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
               {"CONSUMER", left},
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
      table.add({printable(channel.shown_name()), end_text(consumer.who, consumer.pid),
                 std::string(consumer.is_cut ? "disconnected" : to_string(consumer.state)),
                 std::string(to_string(consumer.policy)), format_count(consumer.metrics.messages),
                 format_count(consumer.unread), fmt::to_string(consumer.held.size()),
                 format_bytes(consumer.held_bytes()), oldest_of(consumer),
                 format_count(consumer.dropped), format_time(consumer.idle),
                 hand_off_text(consumer.metrics.handoff_p50_ns),
                 hand_off_text(consumer.metrics.handoff_p99_ns)});
    }
  }
  return any ? table.text() : std::string();
}

std::string senders_table(const std::vector<ChannelStatus>& channels) {
  using enum Table::Align;
  Table table({{"INBOX", left},
               {"SENDER", left},
               {"STATE", left},
               {"MESSAGES", right},
               {"BYTES", right},
               {"UNREAD", right},
               {"HELD", right},
               {"CREDITS", right},
               {"WAITS", left},
               {"IDLE", right},
               {"AGE", right}});
  bool any = false;
  for (const ChannelStatus& channel : channels)
    for (const SenderStatus& sender : channel.senders) {
      any = true;
      table.add({printable(channel.shown_name()), end_text(sender.who, sender.pid),
                 std::string(to_string(sender.state)), format_count(sender.messages),
                 format_bytes(sender.bytes), format_count(sender.unread), format_count(sender.held),
                 fmt::to_string(sender.credits), sender.waits ? "yes" : "no",
                 format_time(sender.idle), format_time(sender.joined)});
    }
  return any ? table.text() : std::string();
}

std::string slots_table(const std::vector<ChannelStatus>& channels) {
  using enum Table::Align;
  Table table({{"CHANNEL", left},
               {"MESSAGE", right},
               {"BYTES", right},
               {"AGE", right},
               {"HELD BY", left},
               {"WHERE", left}});
  bool any = false;
  for (const ChannelStatus& channel : channels)
    for (const ConsumerStatus& consumer : channel.consumers)
      for (const HeldSlot& slot : consumer.held) {
        any = true;
        table.add({printable(channel.shown_name()), fmt::to_string(slot.message),
                   format_bytes(slot.bytes), format_time(slot.age),
                   end_text(consumer.who, consumer.pid), slot.taken ? "in hand" : "unread"});
      }
  return any ? table.text() : std::string();
}

std::string notes_text(const std::vector<ChannelStatus>& channels, std::size_t width) {
  std::string text;
  for (const ChannelStatus& channel : channels)
    for (const std::string& note : channel.notes()) {
      const auto whole =
          fmt::format("note: {}: {}", printable(channel.shown_name()), printable(note));
      text += fmt::format("{}\n", fmt::join(wrapped(whole, width), "\n  "));
    }
  return text;
}

}  // namespace gantry::cli
