#include <array>
#include <gantry/memory.hpp>
#include <gantry/runtime.hpp>

#include "core/base/enum_text.hpp"
#include "core/base/result.hpp"
#include "core/runtime/components.hpp"

namespace gantry {
namespace {

struct Candidate {
  RegistrarKind kind;
  const char* name;
  const char* with;
  const char* provider;
};

constexpr std::array<Candidate, 5> kCandidates{{
    {RegistrarKind::page_lock, "page-lock", "mlock", ""},
    {RegistrarKind::uring, "uring", "io_uring fixed buffers", ""},
    {RegistrarKind::fabric, "fabric-tcp", "libfabric, provider tcp", "tcp"},
    {RegistrarKind::fabric, "fabric-shm", "libfabric, provider shm", "shm"},
    {RegistrarKind::cuda, "cuda", "the CUDA driver", ""},
}};

// Uses memory of its own: somebody else's page might be locked already, and locks do not nest.
Result<void> attempt(const Candidate& candidate) {
  RegistrarSetup setup;
  setup.fabric_provider = candidate.provider;
  GANTRY_ASSIGN(const auto registrar, make_registrar(candidate.kind, setup));
  GANTRY_ASSIGN(const Region page, Region::create(4096, "gantry-probe", {PageKind::plain}));
  GANTRY_ASSIGN(const Registration known, registrar->register_memory({page.data(), page.size()}));
  return known.key().map([](const DeviceKey&) {});
}

}  // namespace

std::string_view to_string(RegistrarKind kind) noexcept {
  return text_in({"page-lock", "uring", "fabric", "cuda"}, kind);
}

Result<std::shared_ptr<Registrar>> make_registrar(RegistrarKind kind, const RegistrarSetup& setup) {
  if (kind == RegistrarKind::page_lock) return make_page_lock_registrar(setup.limits);
  const MakeRegistrar make = find_in_components([&](const Component& one) {
    const auto found = one.registrars.find(kind);
    return found != one.registrars.end() ? found->second : nullptr;
  });
  if (make != nullptr) return make(setup);
  return fail(Code::unsupported,
              fmt::format("registrar '{}': this program is not linked with it", to_string(kind)),
              "link gantry::net for fabric, gantry::device for uring and cuda");
}

std::vector<RegistrarStatus> probe_registrars() {
  std::vector<RegistrarStatus> found;
  for (const Candidate& candidate : kCandidates) {
    const auto tried = attempt(candidate);
    if (tried)
      found.push_back({candidate.name, true, candidate.with, {}});
    else
      found.push_back({candidate.name, false, tried.error().message, tried.error().hint});
  }
  return found;
}

}  // namespace gantry
