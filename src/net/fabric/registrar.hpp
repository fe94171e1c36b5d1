#pragma once  // fabric/registrar.hpp: registers memory as regions of a libfabric domain.

#include <gantry/memory.hpp>

namespace gantry {

struct FabricRegistrarOptions {
  RegistrarOptions limits{};
  /// A `struct fid_domain`, which must outlive the registrar. Null: a domain of the registrar's
  /// own, by `provider`.
  void* domain = nullptr;
  std::string provider = "tcp";
  bool remote_write = true;  ///< False: peers may read registered memory and never write it.
};

/// Keys are descriptors (fi_mr_desc()), remote keys those of fi_mr_key(). Errors: `unsupported`
/// where the library or the provider is missing, or in a build without it.
[[nodiscard]] Result<std::shared_ptr<Registrar>> make_fabric_registrar(
    const FabricRegistrarOptions& options = {});

}  // namespace gantry
