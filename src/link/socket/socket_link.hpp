#pragma once  // link/socket/socket_link.hpp: makes links out of a socket and a way for payload.

#include "base/fd.hpp"
#include "link/puller.hpp"

namespace gantry {

/// Errors: `invalid_argument` for what is no connected stream socket.
[[nodiscard]] Result<void> check_link_socket(int socket);

/// `puller`: null: payload takes the socket. Errors: `system`.
[[nodiscard]] Result<std::unique_ptr<Link>> make_socket_link(Fd socket, const LinkOptions& options,
                                                             std::unique_ptr<Puller> puller);

}  // namespace gantry
