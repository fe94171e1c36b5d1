#include "remote/bridge_socket.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "base/result.hpp"

namespace gantry {
namespace {

// parse_bridge_address() has seen to it that the path fits.
sockaddr_un address_of(const std::string& path) noexcept {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(), std::min(path.size(), kLongestSocketPath));
  return address;
}

Result<Fd> make_socket() {
  Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return fail_errno("socket");
  return socket;
}

// Not blocking: a bridge whose queue is full answers EAGAIN.
bool connects(const Fd& socket, const std::string& path) noexcept {
  const sockaddr_un address = address_of(path);
  return ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

// So that of two bridges that find a file nobody listens at one alone replaces it.
Result<Fd> lock_folder_of(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  Fd lock(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!lock) return fail_errno(folder);
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0)
    return fail(Code::busy, folder + ": somebody makes a socket there", "try again");
  return lock;
}

Result<void> remove_stale(const std::string& path) {
  struct stat facts{};
  if (::lstat(path.c_str(), &facts) != 0) return {};
  GANTRY_ASSIGN(const Fd socket, make_socket());
  const bool is_socket = S_ISSOCK(facts.st_mode);
  if (!is_socket || connects(socket, path) || errno != ECONNREFUSED)
    return fail(
        Code::already_exists,
        fmt::format("unix:{}: {}", path, is_socket ? "somebody listens there" : "no socket"),
        "choose another path, or end that process");
  if (::unlink(path.c_str()) != 0) return fail_errno(path);
  return {};
}

}  // namespace

Result<Fd> connect_bridge(const HostPort& where, std::string_view token,
                          const std::shared_ptr<TlsCarriers>& carriers, int interrupt,
                          Deadline deadline) {
  if (where.is_encrypted) {
    GANTRY_TRY(check_tls());
    GANTRY_ASSIGN(Fd socket, connect_tcp(where, interrupt, deadline));
    auto session = TlsSession::as_caller(socket.get(), token, interrupt, deadline);
    if (session) return std::move(*session).carry(std::move(socket), carriers);
    session.error().message = fmt::format("{}: {}", where.text(), session.error().message);
    return tl::unexpected(std::move(session).error());
  }
  if (where.path.empty()) return connect_tcp(where, interrupt, deadline);
  GANTRY_ASSIGN(Fd socket, make_socket());
  if (connects(socket, where.path)) return socket;
  if (errno == ENOENT || errno == ECONNREFUSED)
    return fail(Code::not_found, where.text() + ": nobody listens there",
                fmt::format("start a bridge there: gantry bridge --listen {} --token-file FILE",
                            where.text()));
  if (errno == EAGAIN) return fail(Code::timed_out, where.text() + ": too many are waiting");
  return fail_errno(where.text());
}

Result<BridgeListener> BridgeListener::open(const HostPort& where, int interrupt) {
  BridgeListener listener;
  if (where.is_encrypted) GANTRY_TRY(check_tls());
  listener.is_encrypted_ = where.is_encrypted;
  if (where.path.empty()) {
    GANTRY_ASSIGN(listener.socket_, listen_tcp(where, interrupt));
    return listener;
  }
  GANTRY_ASSIGN(const Fd lock, lock_folder_of(where.path));
  GANTRY_TRY(remove_stale(where.path));
  GANTRY_ASSIGN(listener.socket_, make_socket());
  listener.path_ = where.path;
  GANTRY_TRY(listener.listen_at_path());
  return listener;
}

Result<void> BridgeListener::listen_at_path() {
  const sockaddr_un address = address_of(path_);
  if (::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return fail_errno("listening at unix:" + path_);
  if (::lstat(path_.c_str(), &file_) != 0) return fail_errno(path_);
  if (::listen(socket_.get(), SOMAXCONN) != 0) return fail_errno("listen");
  return {};
}

// Another bridge may have the path by now.
BridgeListener::~BridgeListener() {
  struct stat facts{};
  if (!path_.empty() && ::lstat(path_.c_str(), &facts) == 0 && facts.st_dev == file_.st_dev &&
      facts.st_ino == file_.st_ino)
    ::unlink(path_.c_str());
}

}  // namespace gantry
