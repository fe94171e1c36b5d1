#include "core/base/os/socket.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/vfs.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "core/base/os/kernel_constants.hpp"
#include "core/base/os/rights.hpp"
#include "core/base/os/socket_file.hpp"

namespace gantry {
namespace {

struct Address {
  sockaddr_un un{};
  Fd directory;  // must stay open while `un` is used
};

// sun_path holds 107 characters; through /proc/self/fd any folder fits.
Result<Address> address_of(const std::string& directory, const std::string& file) {
  Address address;
  address.un.sun_family = AF_UNIX;
  std::string path = directory + "/" + file;
  if (path.size() >= sizeof address.un.sun_path) {
    address.directory.reset(::open(directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!address.directory) return fail_errno(directory);
    path = fmt::format("/proc/self/fd/{}/{}", address.directory.get(), file);
    if (path.size() >= sizeof address.un.sun_path)
      return fail(Code::invalid_argument, file + ": the name is too long for a socket");
  }
  std::memcpy(address.un.sun_path, path.c_str(), path.size() + 1);
  return address;
}

Result<Fd> make_socket(int flags) {
  Fd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | flags, 0));
  if (!socket) return fail_errno("socket");
  return socket;
}

const sockaddr* as_sockaddr(const sockaddr_un& un) {
  return reinterpret_cast<const sockaddr*>(&un);
}

// A fork's copy of a listening socket outlives the process that would accept. So the kernel is
// asked who called listen().
bool is_peer_dead(int socket) {
  const auto peer = peer_of(socket);
  if (!peer || peer->pid <= 0) return false;  // we cannot see the process
  const auto life = peer_pidfd(socket, peer->pid);
  if (!life) return life.error().code == Code::peer_gone;
  pollfd entry{life->get(), POLLIN, 0};
  return ::poll(&entry, 1, 0) > 0;
}

}  // namespace

Result<Fd> listen_at(const std::string& directory, const std::string& file,
                     const FileAccess& access) {
  GANTRY_ASSIGN(SocketFile made, SocketFile::make(directory, file, access));
  GANTRY_TRY(made.publish());
  return made.take_listener();
}

Result<Fd> connect_to(const std::string& directory, const std::string& file, bool* stale) {
  if (stale != nullptr) *stale = false;
  GANTRY_ASSIGN(const Address address, address_of(directory, file));
  // Not blocking: a listener whose backlog is full answers EAGAIN instead of hanging us.
  GANTRY_ASSIGN(Fd socket, make_socket(SOCK_NONBLOCK));
  const bool connected = ::connect(socket.get(), as_sockaddr(address.un), sizeof address.un) == 0;
  if (connected && !is_peer_dead(socket.get())) return socket;
  if (connected || errno == ECONNREFUSED) {
    if (stale != nullptr) *stale = true;
    return fail(Code::not_found, file + ": nobody listens");
  }
  if (errno == EAGAIN) return fail(Code::timed_out, file + ": too many are waiting to join");
  return fail_errno(file);
}

bool is_unix_socket(int descriptor, int type) noexcept {
  const auto is = [descriptor](int option, int wanted) {
    int value = 0;
    socklen_t size = sizeof value;
    return ::getsockopt(descriptor, SOL_SOCKET, option, &value, &size) == 0 && value == wanted;
  };
  return is(SO_DOMAIN, AF_UNIX) && is(SO_TYPE, type);
}

Result<void> send_packet(int socket, ConstByteSpan bytes, std::span<const int> fds) {
  iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};  // NOLINT: sendmsg reads only
  if (fds.size() > kMostFds)
    return fail(Code::invalid_argument, fmt::format("{} descriptors in one packet", fds.size()));
  alignas(cmsghdr) ControlBuffer control{};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  add_fds(header, control, fds);
  for (;;) {
    // A peer that does not read its socket is dropped, not waited for.
    if (::sendmsg(socket, &header, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0) return {};
    if (errno == EINTR) continue;
    if (errno == EPIPE || errno == ECONNRESET)
      return fail(Code::peer_gone, "the other process closed the channel");
    if (errno == EAGAIN)
      return fail(Code::peer_misbehaved, "the other process does not read its channel socket");
    return fail_errno("sendmsg");
  }
}

Result<Packet> receive_packet(int socket, ByteSpan into, Deadline deadline) {
  for (;;) {
    GANTRY_ASSIGN(const bool ready, wait_readable(socket, deadline));
    if (!ready) return fail(Code::timed_out, "no answer over the channel socket in time");
    iovec part{into.data(), into.size()};
    alignas(cmsghdr) ControlBuffer control;  // NOLINT: filled by the kernel
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control.data();
    header.msg_controllen = control.size();
    const ssize_t got = ::recvmsg(socket, &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    // The peer closed its end before it had read all. What it had said before comes next, once.
    if (got < 0 && (errno == EINTR || errno == EAGAIN || errno == ECONNRESET)) continue;
    if (got < 0) return fail_errno("recvmsg");
    Packet packet{static_cast<std::size_t>(got), take_fds(header)};
    // The kernel drops descriptors when this process has none left; that is not the peer's fault.
    if ((header.msg_flags & MSG_CTRUNC) != 0)
      return fail(Code::system, "this process has no descriptor left for one that was sent to it",
                  "raise the limit of open files (ulimit -n)");
    if ((header.msg_flags & MSG_TRUNC) != 0 || packet.fds.size() > kMaxPacketFds)
      return fail(Code::peer_misbehaved, "a packet over the channel socket is too large");
    return packet;
  }
}

void accept_rights(int socket, bool accepted) noexcept {
  const int value = accepted ? 1 : 0;
  static_cast<void>(::setsockopt(socket, SOL_SOCKET, SO_PASSRIGHTS, &value, sizeof value));
}

Result<PeerIdentity> peer_of(int socket) {
  ucred credentials{};
  socklen_t size = sizeof credentials;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0)
    return fail_errno("SO_PEERCRED");
  PeerIdentity peer{credentials.pid, credentials.uid, 0};
  if (peer.pid > 0) return peer;
  if (const auto life = peer_pidfd(socket, 0); life && *life)
    peer.process = process_of(life->get());
  return peer;
}

Result<Fd> peer_pidfd(int socket, pid_t pid) {
  int descriptor = -1;
  socklen_t size = sizeof descriptor;
  // Linux 6.5 and later: no race with a reused process id.
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &descriptor, &size) == 0)
    return Fd(descriptor);
  // An older kernel does not know the option; a container may refuse it.
  if (errno == ENOPROTOOPT || errno == ENOSYS || errno == EPERM) {
    if (pid <= 0) return Fd();
    descriptor = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
    if (descriptor >= 0) return Fd(descriptor);
    if (errno == ENOSYS || errno == EPERM) return Fd();  // a kernel or a container without pidfds
  }
  if (errno == ESRCH || errno == EINVAL)
    return fail(Code::peer_gone, fmt::format("process {} at the other end is dead", pid));
  return fail_errno("SO_PEERPIDFD");
}

std::uint64_t process_of(int pidfd) noexcept {
  constexpr long kPidFs = 0x50494446;  // PID_FS_MAGIC
  struct statfs system{};
  struct stat facts{};
  if (::fstatfs(pidfd, &system) != 0 || static_cast<long>(system.f_type) != kPidFs) return 0;
  return ::fstat(pidfd, &facts) == 0 ? facts.st_ino : 0;
}

int poll_timeout_ms(Deadline deadline) noexcept {
  if (deadline.is_never()) return -1;
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(deadline.left()).count();
  return static_cast<int>(std::min<decltype(ms)>(ms, std::numeric_limits<int>::max()));
}

Result<bool> wait_readable(int descriptor, Deadline deadline) {
  for (;;) {
    pollfd entry{descriptor, POLLIN, 0};
    const int ready = ::poll(&entry, 1, poll_timeout_ms(deadline));
    if (ready > 0) return true;
    if (ready == 0) return false;
    if (errno != EINTR) return fail_errno("poll");
  }
}

}  // namespace gantry
