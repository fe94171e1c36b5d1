#include <algorithm>
#include <array>
#include <gantry/run/stage.hpp>

#include "base/result.hpp"
#include "stage/stage_link.hpp"

namespace gantry {
namespace {

struct TransportFacts {
  Transport transport;
  std::string_view name;
  std::string_view runs_on;
};

constexpr std::array kTransports{
    TransportFacts{Transport::gantry, "gantry", "shared memory, no copy on receipt"},
    TransportFacts{Transport::pipe, "pipe", "the kernel copies in and out"},
    TransportFacts{Transport::zmq, "zmq", "ZeroMQ over a Unix socket"}};

}  // namespace

std::string_view to_string(Transport transport) noexcept {
  const auto* const facts = std::ranges::find(kTransports, transport, &TransportFacts::transport);
  return facts == kTransports.end() ? "?" : facts->name;
}

Result<Transport> parse_transport(std::string_view text) {
  const auto* const facts = std::ranges::find(kTransports, text, &TransportFacts::name);
  if (facts != kTransports.end()) return facts->transport;
  return fail(Code::invalid_argument,
              fmt::format("transport '{}': there is none of that name", text),
              "the transports are gantry, pipe and zmq");
}

Result<void> check_transport(Transport transport) {
  // The others need nothing but the kernel.
  return transport == Transport::zmq ? zmq_usable() : Result<void>{};
}

std::vector<EngineStatus> transports() {
  std::vector<EngineStatus> statuses;
  for (const auto& facts : kTransports) {
    const auto usable = check_transport(facts.transport);
    statuses.push_back({std::string(facts.name), usable.has_value(),
                        usable ? std::string(facts.runs_on) : usable.error().message,
                        usable ? std::string() : usable.error().hint});
  }
  return statuses;
}

}  // namespace gantry
