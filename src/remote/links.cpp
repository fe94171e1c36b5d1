#include <sys/socket.h>

#include <array>
#include <gantry/link.hpp>

#include "base/os/fd.hpp"
#include "base/result.hpp"
#include "remote/tls.hpp"
#include "remote/token.hpp"

namespace gantry {
namespace {

// Over a connection that leads nowhere: what it needs is looked for all the same.
Result<void> attempt_fabric() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
    return fail_errno("socketpair");
  const Fd far(ends[1]);
  return make_fabric_link(ends[0], "tcp").map([](const auto&) {});
}

}  // namespace

std::vector<EngineStatus> links() {
  std::vector<EngineStatus> all{
      {std::string(to_string(LinkKind::stream)), true, "any connected socket", {}},
      {std::string(to_string(LinkKind::shared)), true, "Unix sockets and sealed memory", {}}};
  const std::string fabric = fmt::format("{}-tcp", to_string(LinkKind::fabric));
  const auto tried = attempt_fabric();
  if (tried)
    all.push_back({fabric, true, "libfabric, message endpoints of provider tcp", {}});
  else
    all.push_back({fabric, false, tried.error().message, tried.error().hint});
  // Who may come in from another host is shown by the token of its bridge.
  const auto able = check_token(std::string(kLeastTokenBytes, '-'));
  if (able)
    all.push_back({"bridge", true, "channels of other hosts as NAME@HOST, or NAME@unix:/PATH", {}});
  else
    all.push_back({"bridge", false, able.error().message, able.error().hint});
  if (const auto encrypts = check_tls(); encrypts)
    all.push_back({"tls", true, "NAME@tls:HOST: OpenSSL, TLS 1.3 under the bridge's token", {}});
  else
    all.push_back({"tls", false, encrypts.error().message, encrypts.error().hint});
  return all;
}

}  // namespace gantry
