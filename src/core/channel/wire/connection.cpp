#include "core/channel/wire/connection.hpp"

#include <sys/socket.h>
#include <sys/un.h>

#include "core/channel/wire/protocol.hpp"

namespace gantry {

void Connection::hang_up() const noexcept {
  ::shutdown(receive_fd(), SHUT_RDWR);
  if (is_pair()) ::shutdown(send_fd(), SHUT_RDWR);
}

void Connection::stop_sending() const noexcept {
  ::shutdown(send_fd(), SHUT_WR);
}

void Connection::reset() noexcept {
  watch_.end();
  if (fork_guard_.is_this()) {
    close_socket(std::move(receive_fd_));
    close_socket(std::move(send_fd_));
  }
  receive_fd_.reset();
  send_fd_.reset();
}

namespace {

// A listening socket knows its maker, too, and closing it closes what waits to be accepted.
bool is_connected(int socket) {
  sockaddr_un peer{};
  socklen_t size = sizeof peer;
  return ::getpeername(socket, reinterpret_cast<sockaddr*>(&peer), &size) == 0;
}

}  // namespace

Result<ControlPair> make_control_pair() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) != 0)
    return fail_errno("socketpair");
  return ControlPair{Fd(ends[0]), Fd(ends[1])};
}

Result<void> send_control_end(int send_fd, int theirs) {
  WirePacket packet;
  packet.kind = PacketKind::control;
  return send_wire(send_fd, packet, std::span(&theirs, 1));
}

// Nothing is ever read from it, so it is made deaf.
Result<ReceivedFd> adopt_control_end(ReceivedFd end, const PeerIdentity& whom) {
  if (!is_unix_socket(end.get(), SOCK_SEQPACKET) || !is_connected(end.get()))
    return fail(Code::peer_misbehaved,
                "the descriptor of a control connection is not a connected SOCK_SEQPACKET socket");
  GANTRY_ASSIGN(const PeerIdentity maker, peer_of(end.get()));
  if (!maker.is_same(whom))
    return fail(
        Code::peer_misbehaved,
        fmt::format("a control connection to process {} of user {}, given by process {} of user {}",
                    maker.pid, maker.uid, whom.pid, whom.uid),
        whom.pid > 0 ? "" : "let both share a PID namespace, or use Linux 6.9 or later");
  ::shutdown(end.get(), SHUT_RD);
  return end;
}

}  // namespace gantry
