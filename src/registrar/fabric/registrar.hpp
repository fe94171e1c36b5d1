#pragma once  // registrar/fabric/registrar.hpp: memory as regions of a libfabric domain.

#include <gantry/memory/registrar.hpp>

namespace gantry {

struct FabricRegistrarOptions {
  RegistrarOptions limits{};
  /// A `struct fid_domain`, which must outlive the registrar. Null: one of its own, of `provider`.
  void* domain = nullptr;
  std::string provider = "tcp";
};

/// Keys are descriptors (fi_mr_desc()), remote keys those of fi_mr_key(). Errors: `unsupported`
/// where the library or the provider is missing, or in a build without it.
[[nodiscard]] Result<std::shared_ptr<Registrar>> make_fabric_registrar(
    const FabricRegistrarOptions& options = {});

}  // namespace gantry
