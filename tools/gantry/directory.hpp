#pragma once  // tools/gantry/directory.hpp: the channel directory for commands that only look.

#include <gantry/channel.hpp>

namespace gantry::cli {

/// False: it is not there, as before the first producer. Errors: nor is the folder it would be in.
/// Whether one that is there is fit for use, list_channels() tells.
[[nodiscard]] Result<bool> directory_exists(const std::string& path);

/// Whether a producer could make `path`, which is not there. Errors: `system`, with the reason.
[[nodiscard]] Result<void> can_make_directory(const std::string& path);

}  // namespace gantry::cli
