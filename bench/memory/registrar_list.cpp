#include "registrar_list.hpp"

#include <fmt/format.h>

#include <gantry/runtime.hpp>

#include "../support/system/posix.hpp"

namespace gantry::bench {
namespace {

constexpr unsigned kRingSlots = 16384;  // the kernel's most; a pattern holds 10,000 registrations

struct Known {
  const char* name;
  RegistrarKind kind;
  const char* provider = "";
};

constexpr Known kKnown[] = {{"page-lock", RegistrarKind::page_lock},
                            {"uring", RegistrarKind::uring},
                            {"fabric-tcp", RegistrarKind::fabric, "tcp"},
                            {"fabric-shm", RegistrarKind::fabric, "shm"},
                            {"cuda", RegistrarKind::cuda}};

}  // namespace

std::vector<std::string> registrar_names() {
  std::vector<std::string> names;
  for (const Known& known : kKnown) names.emplace_back(known.name);
  return names;
}

Result<std::shared_ptr<Registrar>> registrar_of(const std::string& name) {
  for (const Known& known : kKnown) {
    if (name != known.name) continue;
    RegistrarSetup setup;
    setup.ring_slots = kRingSlots;
    setup.fabric_provider = known.provider;
    return make_registrar(known.kind, setup);
  }
  return Unexpected({Code::not_found, fmt::format("registrar '{}': there is none", name), ""});
}

}  // namespace gantry::bench
