#include "listing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <gantry/bridge.hpp>

#include "channel_view.hpp"
#include "directory.hpp"

namespace gantry::cli {
namespace {

constexpr std::chrono::seconds kLongestLook{10};

Result<std::vector<ChannelStatus>> list_all(const WhichChannels& which,
                                            const Interrupt& interrupt) {
  if (which.is_elsewhere())
    return list_remote_channels(which.which.substr(which.which.find('@') + 1), {},
                                Deadline::after(kLongestLook), interrupt.descriptor());
  const auto exists = directory_exists(channel_directory_path(which.directory));
  if (!exists) return tl::unexpected(exists.error());
  return look_at_channels(which.directory);
}

/// An address, or a name with a domain. A channel may have such a name, too.
bool looks_like_host(std::string_view name) {
  return name.find_first_of(".:") != std::string_view::npos && name.find('/') == name.npos;
}

}  // namespace

std::string WhichChannels::where() const {
  if (is_elsewhere()) return "on " + printable(which.substr(which.find('@') + 1));
  const std::string path = channel_directory_path(directory);
  const bool exists = directory_exists(path).value_or(true);
  return fmt::format("in {}{}", path, exists ? "" : ", which is not there yet");
}

void add_which(const Command& command, WhichChannels& which) {
  command
      .add_option("which", which.which,
                  "NAME, @HOST[:PORT] or NAME@HOST[:PORT] (default: all of this host)")
      ->type_name(kChannelType);
  command
      .add_option("--directory", which.directory,
                  "Where to look (default $GANTRY_DIR, or the user's runtime directory)")
      ->type_name("DIRECTORY");
}

Error no_such_channel(const WhichChannels& which) {
  return {Code::not_found,
          fmt::format("no channel '{}' {}", printable(which.name()), which.where()),
          !which.is_elsewhere() && looks_like_host(which.name())
              ? fmt::format("for the channels of that host: @{}", printable(which.name()))
              : "without a name gantry ls lists all"};
}

Result<std::vector<ChannelStatus>> list(const WhichChannels& which, const Interrupt& interrupt) {
  auto channels = list_all(which, interrupt);
  const std::string name = which.name();
  if (!channels || name.empty()) return channels;
  const bool is_whole = std::ranges::find(*channels, name, &ChannelStatus::name) != channels->end();
  std::erase_if(*channels, [&](const ChannelStatus& channel) {
    return is_whole
               ? channel.name != name
               : !names_channel(name, channel.shown_name()) && !names_channel(name, channel.name);
  });
  return channels;
}

}  // namespace gantry::cli
