// gantry ls: the channels there are.
#include <fmt/format.h>

#include <gantry/channel.hpp>

#include <nlohmann/json.hpp>

#include "commands.hpp"
#include "directory.hpp"
#include "errors.hpp"
#include "output.hpp"

namespace gantry::cli {
namespace {

using nlohmann::json;

struct LsOptions {
  std::string directory;
  bool as_json = false;
};

// Both ends count on their own, so a moment lies between the two numbers.
std::uint64_t depth_of(const ChannelStatus& channel) {
  return channel.producer.messages - std::min(channel.producer.messages, channel.consumer.messages);
}

json to_json(const ChannelStatus& channel) {
  return {{"name", channel.name},
          {"producer_pid", channel.producer_pid},
          {"consumer_pid", channel.consumer_pid == 0 ? json() : json(channel.consumer_pid)},
          {"messages", channel.producer.messages},
          {"bytes", channel.producer.bytes},
          {"received_messages", channel.consumer.messages},
          {"depth", depth_of(channel)},
          {"slots", channel.slots},
          {"slots_held", channel.slots_held},
          {"age_ns", channel.age.count()},
          {"memory_bytes", channel.slab_bytes}};
}

std::string as_json(const std::vector<ChannelStatus>& channels) {
  json list = json::array();
  for (const auto& channel : channels) list.push_back(to_json(channel));
  return json{{"channels", list}}.dump(2) + "\n";
}

std::vector<std::string> row_of(const ChannelStatus& channel) {
  const bool answered = channel.slots != 0;
  if (!answered) return {channel.name, fmt::to_string(channel.producer_pid), "does not answer"};
  return {channel.name,
          fmt::to_string(channel.producer_pid),
          channel.consumer_pid == 0 ? "none" : fmt::to_string(channel.consumer_pid),
          format_count(channel.producer.messages),
          format_bytes(channel.producer.bytes),
          format_count(depth_of(channel)),
          fmt::format("{}/{}", channel.slots_held, channel.slots),
          format_time(channel.age),
          format_bytes(channel.slab_bytes)};
}

std::string as_table(const std::vector<ChannelStatus>& channels) {
  using enum Table::Align;
  Table table({{"CHANNEL", left},
               {"PRODUCER", right},
               {"CONSUMER", right},
               {"MESSAGES", right},
               {"BYTES", right},
               {"DEPTH", right},
               {"SLOTS HELD", right},
               {"AGE", right},
               {"MEMORY", right}});
  for (const auto& channel : channels) table.add(row_of(channel));
  return table.text();
}

Result<void> ls(const LsOptions& options) {
  const std::string directory = channel_directory_path(options.directory);
  if (const auto exists = directory_exists(directory); !exists)
    return tl::unexpected(exists.error());
  const auto channels = list_channels(directory);
  if (!channels) return tl::unexpected(channels.error());
  if (options.as_json) return print(as_json(*channels));
  if (!channels->empty()) return print(as_table(*channels));
  note(fmt::format("no channels in {}", directory));
  return {};
}

}  // namespace

void add_ls(CLI::App& app, int& exit_code) {
  auto* const command = app.add_subcommand("ls", "List the channels: who sends, who receives");
  auto options = std::make_shared<LsOptions>();
  command->add_flag("--json", options->as_json, "One JSON document instead of a table");
  command->add_option("--directory", options->directory,
                      "Where to look (default $GANTRY_DIR, else the user's runtime directory)");
  command->footer(
      "DEPTH: published and not yet received. SLOTS HELD: not yet given back.\n"
      "Example: gantry ls --json");
  command->callback([options, &exit_code] {
    const auto done = ls(*options);
    exit_code = done ? 0 : fail(done.error());
  });
}

}  // namespace gantry::cli
