#pragma once  // gantry/registrars.hpp: the registrars there are, and which of them work here.

#include <gantry/registrar.hpp>
#include <vector>

namespace gantry {

enum class RegistrarKind {
  page_lock,  ///< mlock(): memory that stays resident.
  uring,      ///< io_uring's fixed buffers.
  fabric,     ///< Memory regions of libfabric.
  cuda,       ///< Host memory that CUDA devices reach directly.
};
[[nodiscard]] std::string_view to_string(RegistrarKind kind) noexcept;

/// What each kind asks for; the others ignore it.
struct RegistrarSetup {
  RegistrarOptions limits{};

  /// uring: the ring whose operations will use the buffers; it has no fixed buffers yet, is
  /// duplicated, and is given its table back when the registrar goes. -1: one of its own, which
  /// no operation can use: for measuring.
  int ring_descriptor = -1;
  unsigned ring_slots = 1024;  ///< uring: most registrations at a time.

  /// fabric: the `struct fid_domain` whose endpoints will use the memory; it must outlive the
  /// registrar. Null: one of its own by `fabric_provider`, which no endpoint can use.
  void* fabric_domain = nullptr;
  std::string fabric_provider = "tcp";

  int cuda_device = 0;  ///< cuda: whose primary context registers; every device may use it.
};

/// Errors: `unsupported`, with what to install or switch on; what the kind says of its set-up.
[[nodiscard]] Result<std::shared_ptr<Registrar>> make_registrar(RegistrarKind kind,
                                                                const RegistrarSetup& setup = {});

struct RegistrarStatus {
  std::string name;
  bool usable = false;
  std::string why;   ///< What it registers with, or why it cannot.
  std::string hint;  ///< How to make it usable; empty when it is.
};

/// Tries each kind with a page of memory, fabric with each provider that Gantry is tested with.
/// Loads the libraries behind them: some tenths of a second.
[[nodiscard]] std::vector<RegistrarStatus> probe_registrars();

}  // namespace gantry
