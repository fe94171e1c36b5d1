#include "net/fabric/library.hpp"

#include <dlfcn.h>

#include "core/base/result.hpp"

namespace gantry {
namespace {

constexpr const char* kLibrary = "libfabric.so.1";

template <class Function>
void find(void* library, const char* name, Function& function, std::string& missing) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  if (function == nullptr) missing = fmt::format("{} has no {}", kLibrary, name);
}

FabricLibrary load() {
  FabricLibrary api;
  const KeptHandlers kept;
  void* const library = ::dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    api.missing = fmt::format("{} cannot be opened", kLibrary);
    return api;
  }
  find(library, "fi_getinfo", api.getinfo, api.missing);
  find(library, "fi_freeinfo", api.freeinfo, api.missing);
  find(library, "fi_dupinfo", api.dupinfo, api.missing);
  find(library, "fi_fabric", api.fabric, api.missing);
  find(library, "fi_strerror", api.strerror, api.missing);
  return api;
}

}  // namespace

const FabricLibrary& libfabric() {
  static const FabricLibrary api = load();
  return api;
}

}  // namespace gantry
