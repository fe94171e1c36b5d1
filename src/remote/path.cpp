#include "remote/path.hpp"

#include <sys/socket.h>

#include <array>

#include "base/result.hpp"
#include "remote/session.hpp"

namespace gantry {
namespace {

constexpr const char* kProvider = "tcp";

bool is_of(int socket, sa_family_t family) noexcept {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  return ::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) == 0 &&
         address.ss_family == family;
}

// Over a connection that leads nowhere: what it needs is looked for all the same.
Result<void> try_fabric() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
    return fail_errno("socketpair");
  const Fd far(ends[1]);
  return make_fabric_link(ends[0], kProvider).map([](const auto&) {});
}

Result<void> check_path(RemotePath path, BridgeConnection connection) {
  const int socket = connection.socket;
  if (path != RemotePath::stream && connection.is_encrypted)
    return fail(Code::unsupported, "payload would travel beside what is encrypted",
                "take the path stream; or leave out tls: at both ends");
  if (path == RemotePath::shared && !is_of(socket, AF_UNIX))
    return fail(Code::unsupported, "the connection is no Unix socket, so memory cannot be shared",
                "have the bridge listen at unix:/PATH in a folder that both ends see; or take the "
                "path stream");
  if (path != RemotePath::fabric) return {};
  if (!is_of(socket, AF_INET))
    return fail(Code::unsupported, "libfabric needs a connection of IPv4",
                "name the host by its address of IPv4; or take the path stream");
  return try_fabric();
}

Result<void> check_named(RemotePath path, BridgeConnection connection) {
  auto able = check_path(path, connection);
  if (!able)
    able.error().message = fmt::format("path {}: {}", to_string(path), able.error().message);
  return able;
}

}  // namespace

Result<RemotePaths> paths_to_offer(RemotePath wanted, BridgeConnection connection) {
  if (wanted != RemotePath::automatic)
    return check_named(wanted, connection).map([wanted] { return bit_of(wanted); });
  RemotePaths offered = bit_of(RemotePath::stream);
  if (check_path(RemotePath::shared, connection)) offered |= bit_of(RemotePath::shared);
  return offered;
}

Result<RemotePath> take_path(RemotePaths offered, BridgeConnection connection) {
  Result<void> able = fail(Code::unsupported, "it was offered no path");
  for (const RemotePath path : {RemotePath::shared, RemotePath::fabric, RemotePath::stream}) {
    if ((offered & bit_of(path)) == 0) continue;
    able = check_named(path, connection);
    if (able) return path;
  }
  return tl::unexpected(std::move(able).error());
}

std::string path_text(RemotePath wanted, RemotePath taken, bool is_encrypted) {
  std::string_view why = "it was asked for";
  if (wanted == RemotePath::automatic && taken == RemotePath::shared)
    why = "both ends are on one kernel";
  else if (wanted == RemotePath::automatic)
    why = "the hosts are joined by a network, and fabric is taken when it is asked for";
  if (is_encrypted) why = "encrypted (TLS 1.3), so that payload goes down the connection";
  return fmt::format("{}: {}", to_string(taken), why);
}

Result<std::unique_ptr<Link>> link_over(RemotePath path, Fd socket, std::shared_ptr<Engine> engine,
                                        LinkOptions options) {
  const std::string peer = options.peer;
  options.falls_back = false;
  const int number = socket.release();
  auto link = path == RemotePath::shared   ? make_shared_link(number, std::move(engine), options)
              : path == RemotePath::fabric ? make_fabric_link(number, kProvider, options)
                                           : make_stream_link(number, options);
  if (!link && link.error().code == Code::invalid_argument)  // it is not connected any more
    return fail(Code::peer_gone, fmt::format("link to {}: it closed the connection", peer));
  return link;
}

Result<void> await_path(RemotePath path, Link& link, int interrupt, Deadline deadline) {
  while (path == RemotePath::fabric && !link.capabilities().pulls) {
    GANTRY_TRY(link.state());
    if (is_readable(interrupt)) return fail(Code::interrupted, "interrupted");
    if (deadline.passed())
      return fail(Code::unsupported, "path fabric: libfabric's connection does not come to stand",
                  "a firewall may be in its way; the path stream needs no second connection");
    if (!link.poll()) sleep_on({link.descriptor(), interrupt}, kRemoteRest);
  }
  return {};
}

}  // namespace gantry
