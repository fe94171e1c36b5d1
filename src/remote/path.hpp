#pragma once  // remote/path.hpp: which link carries a session, and how its two ends agree on that.

#include <gantry/channel/options.hpp>
#include <gantry/link.hpp>

#include "base/fd.hpp"

namespace gantry {

// The caller offers paths, the bridge takes one of them: anew for each connection of a session.

/// A bit for each path, 1 << its number. Of an offer: not empty, and `automatic` is not in it.
using RemotePaths = std::uint8_t;
[[nodiscard]] constexpr RemotePaths bit_of(RemotePath path) noexcept {
  return static_cast<RemotePaths>(1u << static_cast<unsigned>(path));
}
inline constexpr RemotePath kLastPath = RemotePath::shared;
inline constexpr RemotePaths kAllPaths =
    bit_of(RemotePath::stream) | bit_of(RemotePath::fabric) | bit_of(RemotePath::shared);

/// A caller's and its bridge's.
struct BridgeConnection {
  int socket = -1;
  bool is_encrypted = false;  // then payload has to go down the socket
};

/// What a caller takes over its connection to the bridge. Errors: `unsupported` when the path that
/// it wants cannot be had there.
[[nodiscard]] Result<RemotePaths> paths_to_offer(RemotePath wanted, BridgeConnection connection);
/// The best of what was offered that the bridge has, too. Errors: `unsupported`: none.
[[nodiscard]] Result<RemotePath> take_path(RemotePaths offered, BridgeConnection connection);
/// Which one is used, and why, for people.
[[nodiscard]] std::string path_text(RemotePath wanted, RemotePath taken, bool is_encrypted);

/// The link of that path over a socket that was connected a moment ago. Errors: `peer_gone`,
/// `system`, `unsupported`.
[[nodiscard]] Result<std::unique_ptr<Link>> link_over(RemotePath path, Fd socket,
                                                      std::shared_ptr<Engine> engine,
                                                      LinkOptions options);
/// Waits until payload can take the path. Errors: `unsupported` when it cannot until the deadline,
/// `interrupted`, the link's end.
[[nodiscard]] Result<void> await_path(RemotePath path, Link& link, int interrupt,
                                      Deadline deadline);

}  // namespace gantry
