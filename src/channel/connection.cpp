#include "channel/connection.hpp"

#include <sys/socket.h>

#include "channel/protocol.hpp"

namespace gantry {

void Connection::hang_up() const noexcept {
  ::shutdown(ears(), SHUT_RDWR);
  if (is_line()) ::shutdown(mouth(), SHUT_RDWR);
}

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

Result<Fd> adopt_line(Fd given, const PeerIdentity& whom) {
  if (!is_unix_socket(given.get(), SOCK_SEQPACKET))
    return fail(Code::peer_misbehaved, "what was given as a line is none");
  GANTRY_ASSIGN(const PeerIdentity maker, peer_of(given.get()));
  if (maker.pid != whom.pid || maker.uid != whom.uid)
    return fail(Code::peer_misbehaved,
                fmt::format("a line to process {} of user {}, given by process {} of user {}",
                            maker.pid, maker.uid, whom.pid, whom.uid));
  return given;
}

}  // namespace gantry
