#pragma once  // remote/bridge/remote_ends.hpp: opens ends whose channel is on another host.

#include <gantry/call.hpp>

#include "net/remote/remote_name.hpp"

namespace gantry {

/// `name`: NAME@HOST. Errors of all four: those of the same call for a channel of this host, and
/// `not_found` (no such host, no bridge there), `permission_denied` (another token), `unsupported`
/// (a build without libsodium).
[[nodiscard]] Result<Consumer> open_remote_consumer(std::string_view name, ConsumerOptions options,
                                                    std::shared_ptr<Engine> engine,
                                                    Deadline deadline);
[[nodiscard]] Result<Producer> connect_remote_inbox(std::string_view name, ProducerOptions options,
                                                    std::shared_ptr<Engine> engine,
                                                    Deadline deadline);
/// The name is taken on the other host.
[[nodiscard]] Result<Producer> open_remote_producer(std::string_view name, ProducerOptions options,
                                                    std::shared_ptr<Engine> engine);
[[nodiscard]] Result<Client> open_remote_client(std::string_view name, ClientOptions options,
                                                std::shared_ptr<Engine> engine, Deadline deadline);

}  // namespace gantry
