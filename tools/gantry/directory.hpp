#pragma once  // tools/gantry/directory.hpp: the channel directory for commands that only look.

#include <gantry/channel.hpp>
#include <gantry/runtime.hpp>

namespace gantry::cli {

/// False: it does not exist, as before the first producer. Errors: the folder that it would be in
/// does not exist either. list_channels() tells whether an existing one is fit for use.
[[nodiscard]] Result<bool> directory_exists(const std::string& path);

/// As list_channels(), with hints for whoever only looks and could not name users (--users).
[[nodiscard]] Result<std::vector<ChannelStatus>> look_at_channels(std::string_view directory);

/// Whether `name` names the channel `full`: "squares" and "run-7-x/squares" name the channel
/// "run-7-x/squares.0.0", too, which is "squares" in the pipeline file.
[[nodiscard]] bool names_channel(std::string_view name, std::string_view full);

/// Whether an existing one is fit for use, by a look at its channels. Errors: list_channels()'s.
[[nodiscard]] Result<void> can_look_into(std::string_view directory);

/// Checks that a producer could make `path`, which does not exist. Errors: `system`, with the
/// reason.
[[nodiscard]] Result<void> can_make_directory(const std::string& path);

}  // namespace gantry::cli
