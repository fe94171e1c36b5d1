#pragma once  // tools/gantry/channel_options.hpp: what options of put and get say of a channel.

#include <gantry/channel.hpp>
#include <optional>
#include "tools/command_line/command.hpp"

namespace gantry::cli {

/// Adds --users.
void add_users(const Command& command, std::optional<Access>& access);

/// Adds --path.
void add_path(const Command& command, std::optional<RemotePath>& path);
/// What --path says of a channel of that name. Errors: `invalid_argument` for one of this host.
[[nodiscard]] Result<RemotePath> path_of(const std::string& name,
                                         const std::optional<RemotePath>& path);

/// When the other host is given up: see RemoteOptions.
struct RemoteTimes {
  std::optional<std::chrono::milliseconds> patience;
  std::optional<std::chrono::milliseconds> stall_limit;

  [[nodiscard]] bool are_given() const noexcept { return patience || stall_limit; }
  /// Into options that have both, and keep their own where none was given.
  template <class Options>
  void set(Options& options) const {
    options.patience = patience.value_or(options.patience);
    options.stall_limit = stall_limit.value_or(options.stall_limit);
  }
};
/// Adds --patience and --stall-limit.
void add_remote_times(const Command& command, RemoteTimes& times);

/// "whole", "pipelined", ...: the names of SendMode. Errors: `invalid_argument`.
[[nodiscard]] Result<SendMode> parse_send_mode(std::string_view text);
/// "block", "drop-oldest", ...: the names of SlowConsumer, also with '-'. Errors:
/// `invalid_argument`.
[[nodiscard]] Result<std::optional<SlowConsumer>> parse_when_slow(std::string_view text);

}  // namespace gantry::cli
