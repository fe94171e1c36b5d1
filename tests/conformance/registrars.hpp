#pragma once  // registrars.hpp: the registrars that must pass the suite.

#include <gtest/gtest.h>

#include <gantry/gantry.hpp>
#include <ostream>

#include "core/memory/fake_registrar_test.hpp"
#include "device/cuda/cuda_registrar.hpp"

namespace gantry {

struct RegistrarCase {
  const char* name;
  Result<std::shared_ptr<Registrar>> (*make)(const RegistrarOptions& limits);
  /// Does it need memory to be there? If so, registering what is not mapped is an error.
  bool wants_mapped = false;
};

inline void PrintTo(const RegistrarCase& registrar, std::ostream* out) {
  *out << registrar.name;
}

inline Result<std::shared_ptr<Registrar>> make_fabric_on(const RegistrarOptions& limits,
                                                         const char* provider) {
  RegistrarSetup setup{.limits = limits};
  setup.fabric_provider = provider;
  return make_registrar(RegistrarKind::fabric, setup);
}

inline const RegistrarCase kRegistrars[] = {
    {"page_lock",
     [](const RegistrarOptions& limits) {
       return make_registrar(RegistrarKind::page_lock, {.limits = limits});
     },
     true},
    {"uring",
     [](const RegistrarOptions& limits) {
       return make_registrar(RegistrarKind::uring, {.limits = limits});
     },
     true},
    {"fabric_tcp", [](const RegistrarOptions& limits) { return make_fabric_on(limits, "tcp"); }},
    {"fabric_shm", [](const RegistrarOptions& limits) { return make_fabric_on(limits, "shm"); }},
    {"cuda",
     [](const RegistrarOptions& limits) {
       return make_registrar(RegistrarKind::cuda, {.limits = limits});
     }},
    {"cuda_stub",
     [](const RegistrarOptions& limits) {
       return make_cuda_registrar({.limits = limits, .library = GANTRY_CUDA_STUB});
     }},
    {"fake",
     [](const RegistrarOptions& limits) -> Result<std::shared_ptr<Registrar>> {
       return FakeRegistrar::create({.limits = limits});
     }},
};

}  // namespace gantry
