#pragma once  // tools/status/channel_json.hpp: channels as JSON, for the program and for bindings.

#include <gantry/runtime.hpp>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace gantry::cli {

/// Everything that is known about a channel.
[[nodiscard]] nlohmann::json to_json(const ChannelStatus& channel);
/// As text; names that are not UTF-8 do not stop it.
[[nodiscard]] std::string dump(const nlohmann::json& document, int indent);
/// Payload bytes a second since the channel was opened.
[[nodiscard]] double average_rate(const ChannelStatus& channel);
/// All of them as one document: what `gantry ls --json` prints.
[[nodiscard]] std::string channels_json(const std::vector<ChannelStatus>& channels);

}  // namespace gantry::cli
