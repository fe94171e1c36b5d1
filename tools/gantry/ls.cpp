// gantry ls: lists the channels.
#include <fmt/format.h>

#include "channel_view.hpp"
#include "commands.hpp"
#include "errors.hpp"
#include "listing.hpp"
#include "output.hpp"
#include "tools/status/channel_json.hpp"

namespace gantry::cli {
namespace {

struct LsOptions {
  WhichChannels which;
  bool as_json = false;
  bool is_long = false;
};

std::uint64_t dropped_by_all(const ChannelStatus& channel) {
  std::uint64_t sum = 0;
  for (const ConsumerStatus& consumer : channel.consumers) sum += consumer.dropped;
  return sum;
}

// An inbox's producers have their own figures.
std::vector<std::string> row_of_inbox(const ChannelStatus& channel) {
  return {printable(channel.shown_name()),
          producers_text(channel),
          consumers_text(channel),
          kind_text(channel),
          format_count(channel.producer.messages),
          format_bytes(channel.producer.bytes),
          format_rate(average_rate(channel)),
          "-",
          "-",
          "-",
          "-",
          format_time(channel.age),
          "-"};
}

std::vector<std::string> row_of(const ChannelStatus& channel) {
  const std::string producer = producers_text(channel);
  const std::string name = printable(channel.shown_name());
  if (!channel.answered)
    return {name, producer, fmt::format("{}, no answer", to_string(channel.producer_state)),
            "",   "",       "",
            "",   "",       "",
            "",   "",       format_time(channel.age)};
  if (channel.is_inbox) return row_of_inbox(channel);
  return {name,
          producer,
          consumers_text(channel),
          std::string(to_string(channel.mode)),
          format_count(channel.producer.messages),
          format_bytes(channel.producer.bytes),
          format_rate(average_rate(channel)),
          format_count(channel.depth()),
          fmt::format("{}/{}", channel.slots_charged, channel.slots),
          format_count(dropped_by_all(channel)),
          path_text(channel),
          format_time(channel.age),
          format_bytes(channel.slab_bytes)};
}

std::string channels_table(const std::vector<ChannelStatus>& channels) {
  using enum Table::Align;
  Table table({{"CHANNEL", left},
               {"PRODUCER", left},
               {"CONSUMER", left},
               {"MODE", left},
               {"MESSAGES", right},
               {"BYTES", right},
               {"RATE", right},
               {"DEPTH", right},
               {"CREDITS", right},
               {"DROPPED", right},
               {"NEWEST COPY", left},
               {"AGE", right},
               {"MEMORY", right}});
  for (const ChannelStatus& channel : channels) table.add(row_of(channel));
  return table.text();
}

// Who copied, and why the engine works as it does.
std::string reasons_text(const std::vector<ChannelStatus>& channels) {
  std::string text;
  for (const ChannelStatus& channel : channels) {
    if (!channel.answered || channel.is_inbox) continue;
    text += fmt::format("\n{}: {} engine; copies: {}\n", printable(channel.shown_name()),
                        printable(channel.engine), copies_text(channel.producer));
    if (channel.path.bytes != 0)
      text += fmt::format("  the newest: {}, in moves of {}: {}", path_text(channel),
                          format_bytes(channel.path.moved), channel.path.why);
  }
  return text;
}

std::string as_table(const std::vector<ChannelStatus>& channels, bool is_long) {
  std::string text = channels_table(channels);
  const auto add = [&text](const std::string& table) {
    if (!table.empty()) text += "\n" + table;
  };
  add(consumers_table(channels, is_long));
  if (is_long) add(senders_table(channels));
  if (is_long) add(slots_table(channels));
  if (is_long) text += reasons_text(channels);
  add(notes_text(channels));
  return text;
}

Result<void> ls(const LsOptions& options) {
  auto interrupt = Interrupt::create();
  if (!interrupt) return tl::unexpected(interrupt.error());
  const auto channels = list(options.which, *interrupt);
  if (!channels) return tl::unexpected(channels.error());
  if (!options.which.name().empty() && channels->empty())
    return tl::unexpected(no_such_channel(options.which));
  if (options.as_json) return print(channels_json(*channels));
  if (!channels->empty()) return print(as_table(*channels, options.is_long));
  note("no channels " + options.which.where());
  return {};
}

}  // namespace

void add_ls(const Command& command, int& exit_code) {
  auto options = std::make_shared<LsOptions>();
  add_which(*command, options->which);
  command->add_flag("--json", options->as_json, "All facts as one JSON document");
  command->add_flag(
      "-l,--long", options->is_long,
      "Also every consumer and sender, the holders of messages, and the engine's reasons");
  command->footer(
      "RATE: mean since the channel was opened; gantry top has it live.\n"
      "DEPTH: published and not taken by the consumer furthest behind.\n"
      "CREDITS: messages that keep the producer from sending more.\n"
      "OLDEST: how long the oldest message that it holds is out.\n"
      "IDLE: since it last took one. P50, P99: hand-off times.\n"
      "An inbox is its receiver's, to whom any number of producers come: PRODUCER says\n"
      "how many.\n" +
      std::string(kWhichFooter) + "Example: gantry ls --json");
  command->callback([options, &exit_code] {
    const auto done = ls(*options);
    exit_code = done ? 0 : fail(done.error());
  });
}

}  // namespace gantry::cli
