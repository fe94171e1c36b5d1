#include "base/assert.hpp"
#include "base/result.hpp"
#include "registrar/fabric/registrar.hpp"
#include "remote/bridge/remote_ends.hpp"
#include "runtime/components.hpp"

// What the component net adds to the core: channels of other hosts, the registrar of libfabric.
namespace gantry {
namespace {

Result<RemoteName> remote_name(std::string_view name) {
  GANTRY_ASSIGN(auto parsed, parse_remote_name(name));
  GANTRY_ASSERT(parsed.has_value());  // the runtime asks for names with an '@' only
  return std::move(*parsed);
}

Result<Producer> open_producer(std::string_view name, ProducerOptions options,
                               std::shared_ptr<Engine> engine) {
  GANTRY_ASSIGN(const RemoteName remote, remote_name(name));
  return open_remote_producer(remote, std::move(options), std::move(engine));
}

Result<Consumer> open_consumer(std::string_view name, ConsumerOptions options,
                               std::shared_ptr<Engine> engine, Deadline deadline) {
  GANTRY_ASSIGN(const RemoteName remote, remote_name(name));
  return open_remote_consumer(remote, std::move(options), std::move(engine), deadline);
}

Result<Producer> connect_inbox(std::string_view inbox, ProducerOptions options,
                               std::shared_ptr<Engine> engine, Deadline deadline) {
  GANTRY_ASSIGN(const RemoteName remote, remote_name(inbox));
  return connect_remote_inbox(remote, std::move(options), std::move(engine), deadline);
}

Result<Client> open_client(std::string_view server, ClientOptions options,
                           std::shared_ptr<Engine> engine, Deadline deadline) {
  GANTRY_ASSIGN(const RemoteName remote, remote_name(server));
  return open_remote_client(remote, std::move(options), std::move(engine), deadline);
}

void add_net() {
  components().remote = RemoteOpeners{open_producer, open_consumer, connect_inbox, open_client};
  components().registrars[RegistrarKind::fabric] = [](const RegistrarSetup& setup) {
    return make_fabric_registrar({setup.limits, setup.fabric_domain, setup.fabric_provider});
  };
}

}  // namespace
}  // namespace gantry

GANTRY_COMPONENT(net, gantry::add_net())
