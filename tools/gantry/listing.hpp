#pragma once  // tools/gantry/listing.hpp: the channels that a command looks at, here or on another
              // host.

#include <gantry/runtime.hpp>
#include "tools/command_line/command.hpp"

#include "interrupt.hpp"

namespace gantry::cli {

struct WhichChannels {
  std::string which;      ///< NAME, @HOST[:PORT] or NAME@HOST[:PORT]; empty: all of this host.
  std::string directory;  ///< Of this host.

  [[nodiscard]] std::string name() const { return which.substr(0, which.find('@')); }
  [[nodiscard]] bool is_elsewhere() const { return which.find('@') != std::string::npos; }
  [[nodiscard]] std::string where() const;  ///< "in /run/…" or "on HOST", to be shown.
};

/// The positional argument and --directory.
void add_which(const Command& command, WhichChannels& which);
/// What add_which() needs to be said in the command's footer.
inline constexpr const char* kWhichFooter =
    "@HOST asks the bridge of another host (gantry bridge --help), with the token\n"
    "in the file that $GANTRY_TOKEN_FILE names.\n";

/// The error that nobody has the channel which was named.
[[nodiscard]] Error no_such_channel(const WhichChannels& which);

/// Errors: those of list_channels() and list_remote_channels(); the directory cannot be there.
[[nodiscard]] Result<std::vector<ChannelStatus>> list(const WhichChannels& which,
                                                      const Interrupt& interrupt);

}  // namespace gantry::cli
