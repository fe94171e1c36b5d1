#pragma once  // link/socket/socket_link.hpp: what stream and shared links are: records over a
              // socket.

#include "net/link/puller.hpp"

namespace gantry {

/// Errors: `invalid_argument` when it is no connected stream socket.
[[nodiscard]] Result<void> check_link_socket(int socket);
/// A link over a connected stream socket. `puller`: another way for payload; null: there is none.
[[nodiscard]] Result<std::unique_ptr<Link>> make_socket_link(Fd socket, const LinkOptions& options,
                                                             std::unique_ptr<Puller> puller);

}  // namespace gantry
