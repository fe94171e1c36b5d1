#pragma once  // remote/tcp.hpp: connections of TCP with deadlines, and addresses of hosts.

#include <netdb.h>

#include <memory>

#include "core/base/os/fd.hpp"
#include "core/base/wait.hpp"
#include "net/remote/remote_name.hpp"

namespace gantry {

using Addresses = std::shared_ptr<const addrinfo>;
/// getaddrinfo(3), or a test's stand-in. freeaddrinfo(3) frees the found list.
using NameService = decltype(&::getaddrinfo);

/// `flags`: those of addrinfo. A thread of its own looks the name up; the thread is left behind
/// when time is up. Callers that ask for the same host meanwhile share the thread. Errors:
/// `not_found`, `timed_out`, `interrupted` when `interrupt` (-1: none) is readable, `system`,
/// `out_of_memory`.
[[nodiscard]] Result<Addresses> look_up(const HostPort& where, int flags, int interrupt,
                                        Deadline deadline, NameService service = &::getaddrinfo);

/// Connects to the first address of the host that answers; all of them share the time. Errors:
/// `not_found` (no such host, nobody listens), `timed_out`, `interrupted` when `interrupt` (-1:
/// none) is readable, `system`, `out_of_memory`.
[[nodiscard]] Result<Fd> connect_tcp(const HostPort& where, int interrupt, Deadline deadline,
                                     NameService service = &::getaddrinfo);

/// Errors: `already_exists` when the port is taken, `not_found` when this host has no such address,
/// `permission_denied`, `system`; for a name also those of look_up().
[[nodiscard]] Result<Fd> listen_tcp(const HostPort& where, int interrupt = -1,
                                    Deadline deadline = Deadline::never());

/// The address of a socket, this end's or the other one's; "?" if it has none any more. Of a Unix
/// socket without a file the process at its other end.
[[nodiscard]] std::string own_address(int socket);
[[nodiscard]] std::string peer_address(int socket);

/// What every connection of TCP needs: small records go at once.
void set_up_tcp(int socket) noexcept;

/// Waits until the socket can be read or written (poll(2)'s events). Errors: `timed_out`,
/// `interrupted`, `system`.
[[nodiscard]] Result<void> await_socket(int socket, short events, int interrupt, Deadline deadline);

/// A link wants to be called several times within its stall limit.
inline constexpr std::chrono::milliseconds kRemoteRest{200};
/// Sends all, or receives so many bytes, within the deadline, whatever the socket's mode. Errors:
/// `peer_gone`, `timed_out`, `interrupted`, `system`.
[[nodiscard]] Result<void> send_exactly(int socket, ConstByteSpan bytes, Deadline deadline);
[[nodiscard]] Result<void> receive_exactly(int socket, ByteSpan into, int interrupt,
                                           Deadline deadline);

}  // namespace gantry
