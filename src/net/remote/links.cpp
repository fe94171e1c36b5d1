#include <gantry/link.hpp>

#include "core/base/result.hpp"
#include "net/remote/admission.hpp"
#include "net/remote/tls.hpp"
#include "net/remote/token.hpp"

namespace gantry {
namespace {

EngineStatus status_of(std::string name, const Result<void>& able, std::string_view what) {
  if (able) return {std::move(name), true, std::string(what), {}};
  return {std::move(name), false, able.error().message, able.error().hint};
}

}  // namespace

std::vector<EngineStatus> links() {
  const std::string fabric = fmt::format("{}-tcp", to_string(LinkKind::fabric));
  // Who may come in from another host is shown by the token of its bridge.
  const auto able = check_token(std::string(kLeastTokenBytes, '-'));
  return {
      {std::string(to_string(LinkKind::stream)), true, "any connected socket", {}},
      {std::string(to_string(LinkKind::shared)), true, "Unix sockets and sealed memory", {}},
      status_of(fabric, try_fabric(), "libfabric, message endpoints of provider tcp"),
      status_of("bridge", able, "channels of other hosts as NAME@HOST, or NAME@unix:/PATH"),
      status_of("tls", check_tls(), "NAME@tls:HOST: OpenSSL, TLS 1.3 under the bridge's token")};
}

}  // namespace gantry
