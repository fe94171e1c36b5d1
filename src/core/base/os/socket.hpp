#pragma once  // base/os/socket.hpp: Unix sockets that keep message borders and carry descriptors.

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/os/close_elsewhere.hpp"
#include "core/base/os/fd.hpp"
#include "core/base/result.hpp"

namespace gantry {

/// The most descriptors of one packet; one with more is refused.
inline constexpr std::size_t kMaxPacketFds = 16;

struct Packet {
  std::size_t size = 0;  ///< 0: the peer closed.
  ReceivedFds fds;
};

/// Who may connect to a socket's file.
struct FileAccess {
  unsigned mode = 0600;
  std::optional<gid_t> group{};  ///< The file's group; empty: our own.
};

/// Binds and listens; see socket_file.hpp. The path may have any length.
[[nodiscard]] Result<Fd> listen_at(const std::string& directory, const std::string& file,
                                   const FileAccess& access = {});

/// Connects without waiting for the listener's accept(). `not_found` covers "no file" and "nobody
/// listens any more"; `stale` tells the two apart. `timed_out`: the listener's queue is full.
[[nodiscard]] Result<Fd> connect_to(const std::string& directory, const std::string& file,
                                    bool* stale = nullptr);

/// Checks a descriptor from a peer, which may be anything. `type`: for example SOCK_STREAM.
[[nodiscard]] bool is_unix_socket(int descriptor, int type) noexcept;

[[nodiscard]] Result<void> send_packet(int socket, ConstByteSpan bytes,
                                       std::span<const int> fds = {});

/// Waits for one packet until `deadline`. Does not trust its size: a packet that does not fit
/// `into` is an error. Errors: `timed_out`, `peer_misbehaved`, `system`.
[[nodiscard]] Result<Packet> receive_packet(int socket, ByteSpan into, Deadline deadline);

/// Sets whether descriptors that are sent to a Unix socket arrive. From Linux 6.16 on the sender
/// gets an error otherwise; before, this does nothing.
void accept_rights(int socket, bool accepted) noexcept;

struct PeerIdentity {
  pid_t pid = 0;  ///< 0: the peer lives in another PID namespace.
  uid_t uid = 0;
  /// For a peer without a pid: the kernel's number of its process, never used again. 0: unknown
  /// (before Linux 6.9).
  std::uint64_t process = 0;

  /// True if both have the same user and are known to be the same process.
  [[nodiscard]] bool is_same(const PeerIdentity& other) const noexcept {
    if (uid != other.uid || pid != other.pid) return false;
    return pid > 0 || (process != 0 && process == other.process);
  }
};
[[nodiscard]] Result<PeerIdentity> peer_of(int socket);

/// A descriptor that is readable when the process at the other end of `socket` has died. Empty if
/// the kernel cannot tell (a foreign PID namespace before Linux 6.5); then only the socket's
/// hang-up shows it. Errors: `peer_gone` when it is dead already; `system`, as when no descriptor
/// is left.
[[nodiscard]] Result<Fd> peer_pidfd(int socket, pid_t pid);

/// The kernel's number of the process behind a pidfd, never used again. 0: unknown.
[[nodiscard]] std::uint64_t process_of(int pidfd) noexcept;

/// poll(2) on one descriptor until `deadline`, restarted after signals. False: time is up.
[[nodiscard]] Result<bool> wait_readable(int descriptor, Deadline deadline);

/// Milliseconds for poll(2): rounded up, so that it never returns early; -1 for never.
[[nodiscard]] int poll_timeout_ms(Deadline deadline) noexcept;

}  // namespace gantry
