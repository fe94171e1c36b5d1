#include "bridge_process.hpp"

#include <fmt/format.h>

#include <gantry/bridge.hpp>
#include <gantry/runtime.hpp>
#include <random>

namespace gantry::bench {
namespace {

/// Of this run alone: over loopback others of this machine could call, too.
std::string make_token() {
  std::random_device random;
  std::string token;
  for (int i = 0; i < 4; ++i) token += fmt::format("{:08x}", random());
  return token;
}

/// Serves until the link ends, after it has said its address over it.
Result<void> serve_bridge(Link& link, const Network& network, const BridgeOptions& options) {
  if (auto entered = network.enter(Host::asking); !entered) return entered;
  auto runtime = Runtime::create({.directory = options.directory});
  if (!runtime) return Unexpected(runtime.error());
  auto bridge = Bridge::open(options, runtime->default_engine());
  if (!bridge) return Unexpected(bridge.error());
  Answer ready = Answer::failure(bridge->address());  // the one that has a text
  ready.kind = Answer::Kind::ready;
  if (!link.send(ready)) return {};
  return bridge->serve();
}

}  // namespace

Result<BridgeProcess> BridgeProcess::start(const Network& network, std::string directory, int cpu,
                                           const char* scheme) {
  BridgeOptions options;
  options.listen = fmt::format("{}{}:0", scheme, network.address(Host::asking));
  options.token = make_token();
  options.directory = std::move(directory);
  auto child = Child::start("the bridge", cpu, [&network, options](Link& link) mutable {
    options.interrupt_descriptor = link.descriptor();
    if (auto served = serve_bridge(link, network, options); !served)
      link.send(Answer::failure(to_string(served.error())));
  });
  if (!child) return Unexpected(child.error());
  const auto answer = child->link().receive<Answer>();
  if (!answer) return Unexpected({Code::peer_gone, "the bridge died as it started", ""});
  std::string text = answer->text.data();
  if (answer->kind != Answer::Kind::ready)
    return Unexpected({Code::system, "the bridge: " + text, ""});
  return BridgeProcess(std::move(*child), std::move(text), options.token);
}

}  // namespace gantry::bench
