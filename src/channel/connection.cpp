#include "channel/connection.hpp"

#include <sys/socket.h>
#include <sys/un.h>

#include "channel/protocol.hpp"

namespace gantry {

void Connection::hang_up() const noexcept {
  ::shutdown(ears(), SHUT_RDWR);
  if (is_line()) ::shutdown(mouth(), SHUT_RDWR);
}

void Connection::stop_sending() const noexcept {
  ::shutdown(mouth(), SHUT_WR);
}

void Connection::reset() noexcept {
  watch_.end();
  if (maker_.is_this()) {
    close_socket(std::move(ears_));
    close_socket(std::move(mouth_));
  }
  ears_.reset();
  mouth_.reset();
}

namespace {

// A listening socket knows its maker, too, and what waits to be accepted is closed with it.
bool is_connected(int socket) {
  sockaddr_un peer{};
  socklen_t size = sizeof peer;
  return ::getpeername(socket, reinterpret_cast<sockaddr*>(&peer), &size) == 0;
}

}  // namespace

Result<LinePair> make_line() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) != 0)
    return fail_errno("socketpair");
  return LinePair{Fd(ends[0]), Fd(ends[1])};
}

Result<void> say_line(int mouth, int theirs) {
  WirePacket packet;
  packet.kind = PacketKind::line;
  return send_wire(mouth, packet, std::span(&theirs, 1));
}

// Nothing is ever read from it: it is deaf from here on.
Result<ReceivedFd> adopt_line(ReceivedFd line, const PeerIdentity& whom) {
  if (!is_unix_socket(line.get(), SOCK_SEQPACKET) || !is_connected(line.get()))
    return fail(Code::peer_misbehaved, "what was given as a line is none");
  GANTRY_ASSIGN(const PeerIdentity maker, peer_of(line.get()));
  if (!maker.is_same(whom))
    return fail(Code::peer_misbehaved,
                fmt::format("a line to process {} of user {}, given by process {} of user {}",
                            maker.pid, maker.uid, whom.pid, whom.uid),
                whom.pid > 0 ? "" : "let both share a PID namespace, or use Linux 6.9 or later");
  ::shutdown(line.get(), SHUT_RD);
  return line;
}

}  // namespace gantry
