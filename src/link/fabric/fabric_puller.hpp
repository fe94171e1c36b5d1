#pragma once  // link/fabric/fabric_puller.hpp: libfabric reads the far end's memory.

#include "link/puller.hpp"

namespace gantry {

/// A pair of message endpoints beside the link's socket. Both ends listen and tell each other where
/// and with what secret, over the socket; the one with the smaller secret connects. Until then, and
/// after the endpoint was lost, payload takes the socket.
/// `local_address`: of the socket's network; empty: this machine's own. Errors: `unsupported` where
/// the library or the provider is missing; `system`.
[[nodiscard]] Result<std::unique_ptr<Puller>> make_fabric_puller(const std::string& provider,
                                                                 const std::string& local_address);

}  // namespace gantry
