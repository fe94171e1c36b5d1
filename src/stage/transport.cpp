#include <algorithm>
#include <array>
#include <gantry/run/stage.hpp>

#include "base/result.hpp"

namespace gantry {
namespace {

struct TransportFacts {
  Transport transport;
  std::string_view name;
  std::string_view runs_on;
};

constexpr std::array kTransports{
    TransportFacts{Transport::gantry, "gantry", "shared memory, no copy on receipt"},
    TransportFacts{Transport::pipe, "pipe", "the kernel copies in and out"}};

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
              "the transports are gantry and pipe");
}

std::vector<EngineStatus> transports() {
  std::vector<EngineStatus> statuses;
  for (const auto& facts : kTransports)
    statuses.push_back({std::string(facts.name), true, std::string(facts.runs_on), {}});
  return statuses;
}

}  // namespace gantry
