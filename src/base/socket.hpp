#pragma once  // base/socket.hpp: Unix sockets that keep message borders and carry descriptors.

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "base/fd.hpp"
#include "base/result.hpp"

namespace gantry {

/// The most descriptors one packet may carry; more are closed and the packet refused.
inline constexpr std::size_t kMaxPacketFds = 4;

struct Packet {
  std::size_t size = 0;  ///< 0: the peer closed.
  std::vector<Fd> fds;
};

/// Who may connect to a socket's file.
struct FileAccess {
  unsigned mode = 0600;
  std::optional<gid_t> group{};  ///< Its group, where that is not our own.
};

/// Binds and listens. The path may be of any length.
[[nodiscard]] Result<Fd> listen_at(const std::string& directory, const std::string& file,
                                   const FileAccess& access = {});

/// Connects without waiting for the listener's accept(). `not_found` covers "no file" and
/// "nobody listens any more"; `stale` tells the two apart. `timed_out`: its queue is full.
[[nodiscard]] Result<Fd> connect_to(const std::string& directory, const std::string& file,
                                    bool* stale = nullptr);

/// What a peer hands over may be anything. `type`: as SOCK_STREAM.
[[nodiscard]] bool is_unix_socket(int descriptor, int type) noexcept;

[[nodiscard]] Result<void> send_packet(int socket, ConstByteSpan bytes,
                                       std::span<const int> fds = {});

/// Waits for one packet until `deadline`. Never trusts its size: what does not fit `into` is an
/// error. Errors: `timed_out`, `peer_misbehaved`, `system`.
[[nodiscard]] Result<Packet> receive_packet(int socket, ByteSpan into, Deadline deadline);

struct PeerIdentity {
  pid_t pid = 0;  ///< 0 when the peer lives in another PID namespace.
  uid_t uid = 0;
};
[[nodiscard]] Result<PeerIdentity> peer_of(int socket);

/// Readable when the process at the other end of `socket` has died. An empty Fd where the kernel
/// cannot tell (foreign PID namespace): then only the socket's hang-up shows it.
[[nodiscard]] Fd peer_pidfd(int socket, pid_t pid);

/// poll(2) on one descriptor until `deadline`, restarted after signals. False: time is up.
[[nodiscard]] Result<bool> wait_readable(int descriptor, Deadline deadline);

/// Milliseconds for poll(2): rounded up, so that it never returns early; -1 for never.
[[nodiscard]] int poll_timeout_ms(Deadline deadline) noexcept;

}  // namespace gantry
