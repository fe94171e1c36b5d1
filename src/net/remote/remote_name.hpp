#pragma once  // remote/remote_name.hpp: names of channels on other hosts.

#include <gantry/bridge.hpp>
#include <optional>
#include <string>

namespace gantry {

/// A host and a port, as getaddrinfo() takes them, or a path.
using HostPort = BridgeAddress;

inline constexpr std::size_t kLongestSocketPath = 107;  // what sockaddr_un holds

/// parse_bridge_address(); the port is kBridgePort if none was given.
[[nodiscard]] Result<HostPort> parse_host(std::string_view text);

struct RemoteName {
  std::string channel;
  HostPort where;
  [[nodiscard]] std::string text() const { return channel + "@" + where.text(); }
};

/// NAME@HOST[:PORT] or NAME@unix:/PATH; nothing if there is no '@', so that the channel is one of
/// this host. Errors: `invalid_argument`.
[[nodiscard]] Result<std::optional<RemoteName>> parse_remote_name(std::string_view name);

}  // namespace gantry
