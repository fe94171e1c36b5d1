#pragma once  // tools/gantry/directory.hpp: the channel directory for commands that only look.

#include <gantry/channel.hpp>

namespace gantry::cli {

/// False: it does not exist, as before the first producer. Errors: the folder that it would be in
/// does not exist either. list_channels() tells whether an existing one is fit for use.
[[nodiscard]] Result<bool> directory_exists(const std::string& path);

/// Whether an existing one is fit for use, by a look at its channels. Errors: list_channels()'s.
[[nodiscard]] Result<void> can_look_into(std::string_view directory);

/// Checks that a producer could make `path`, which does not exist. Errors: `system`, with the
/// reason.
[[nodiscard]] Result<void> can_make_directory(const std::string& path);

}  // namespace gantry::cli
