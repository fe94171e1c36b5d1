#include "net/remote/bridge/remote_ends.hpp"

#include "core/base/assert.hpp"
#include "core/base/result.hpp"
#include "core/channel/wire/far_sides.hpp"
#include "core/channel/wire/notice.hpp"
#include "core/runtime/components.hpp"
#include "net/fabric/registrar.hpp"
#include "net/remote/bridge/home.hpp"
#include "net/remote/bridge/relay.hpp"
#include "net/remote/session/calls.hpp"
#include "net/remote/session/receiving_side.hpp"
#include "net/remote/session/sending_side.hpp"

namespace gantry {
namespace {

// A relay's own end of the channel within this process.
EndOptions end_within(std::shared_ptr<Acceptor> acceptor, const std::string& directory) {
  EndOptions options;
  options.directory = directory;
  options.acceptor = std::move(acceptor);
  return options;
}

Result<Relay::Setup> setup_for(std::string_view name, const EndOptions& options,
                               std::shared_ptr<Engine> engine, RemoteRole role) {
  GANTRY_ASSIGN(auto parsed, parse_remote_name(name));
  GANTRY_ASSERT(parsed.has_value());  // the runtime asks for names with an '@' only
  Relay::Setup setup;
  setup.engine = std::move(engine);
  setup.name = *std::move(parsed);
  setup.options = options.remote;
  setup.request.role = role;
  setup.interrupt = options.interrupt_descriptor;
  setup.spin = options.spin;
  setup.parent = options.directory;
  if (options.notices) setup.notice = say_notice;
  return setup;
}

Result<Producer> open_sending_end(std::string_view name, ProducerOptions options,
                                  std::shared_ptr<Engine> engine, RemoteRole role,
                                  Deadline deadline) {
  GANTRY_ASSIGN(Relay::Setup setup, setup_for(name, options, engine, role));
  const std::string channel = setup.name.channel;
  setup.is_side_first = false;
  setup.request.slots = options.slots;
  setup.request.consumers = options.consumers;
  setup.make_side = [acceptor = options.acceptor, channel](const std::string& directory) {
    ConsumerOptions within{end_within(acceptor, directory)};
    return Consumer::open(channel, within, Deadline::after(std::chrono::seconds(5)))
        .map([](Consumer consumer) -> std::unique_ptr<RemoteSide> {
          return std::make_unique<SendingSide>(std::move(consumer));
        });
  };
  GANTRY_ASSIGN(auto relay, Relay::make(std::move(setup), deadline));
  options.directory = relay->directory();
  options.consumers = 1;
  options.access = {};
  GANTRY_ASSIGN(Producer producer, Producer::open(channel, options, std::move(engine)));
  GANTRY_TRY(relay->start());
  FarSides::attach(producer, std::move(relay));
  return producer;
}

// The server within this process, whose only client is the user's.
Result<std::unique_ptr<RemoteSide>> serve_within(const std::string& channel, EndOptions options,
                                                 const std::shared_ptr<Engine>& engine) {
  ServerOptions within{{std::move(options)}, {}, {}, 1};
  within.replies.slots = PayloadOptions::kMaxSlots;  // the client's calls, all of them
  GANTRY_ASSIGN(Pool pool, Pool::create());
  within.replies.memory = pool;
  GANTRY_ASSIGN(Server server, Server::open(channel, within, engine));
  return std::make_unique<CallsSide>(
      std::make_shared<CallsTaken>(std::move(server), std::move(pool)));
}

}  // namespace

Result<Consumer> open_remote_consumer(std::string_view name, ConsumerOptions options,
                                      std::shared_ptr<Engine> engine, Deadline deadline) {
  GANTRY_ASSIGN(Relay::Setup setup, setup_for(name, options, engine, RemoteRole::consume));
  const std::string channel = setup.name.channel;
  setup.request.when_slow = options.when_slow;
  setup.request.depth = options.depth;
  setup.make_side = [acceptor = options.acceptor, engine = std::move(engine), channel,
                     depth = options.depth](const std::string& directory) {
    ProducerOptions within{end_within(acceptor, directory), {}};
    within.slots = std::max(within.slots, depth);
    return Producer::open(channel, within, engine)
        .map([](Producer producer) -> std::unique_ptr<RemoteSide> {
          return std::make_unique<ReceivingSide>(std::move(producer));
        });
  };
  GANTRY_ASSIGN(auto relay, Relay::make(std::move(setup), deadline));
  GANTRY_TRY(relay->start());
  options.directory = relay->directory();
  options.access = {};
  GANTRY_ASSIGN(Consumer consumer, Consumer::open(channel, options, deadline));
  FarSides::attach(consumer, std::move(relay));
  return consumer;
}

Result<Producer> connect_remote_inbox(std::string_view name, ProducerOptions options,
                                      std::shared_ptr<Engine> engine, Deadline deadline) {
  return open_sending_end(name, std::move(options), std::move(engine), RemoteRole::deliver,
                          deadline);
}

Result<Producer> open_remote_producer(std::string_view name, ProducerOptions options,
                                      std::shared_ptr<Engine> engine) {
  return open_sending_end(name, std::move(options), std::move(engine), RemoteRole::publish,
                          Deadline::never());
}

Result<Client> open_remote_client(std::string_view name, ClientOptions options,
                                  std::shared_ptr<Engine> engine, Deadline deadline) {
  GANTRY_ASSIGN(Relay::Setup setup, setup_for(name, options, engine, RemoteRole::call));
  const std::string channel = setup.name.channel;
  setup.request.slots = options.slots;
  setup.make_side = [acceptor = options.acceptor, engine, channel](const std::string& directory) {
    return serve_within(channel, end_within(acceptor, directory), engine);
  };
  GANTRY_ASSIGN(auto relay, Relay::make(std::move(setup), deadline));
  GANTRY_TRY(relay->start());
  options.directory = relay->directory();
  options.access = {};
  auto client = Client::connect(channel, options, std::move(engine), deadline);
  if (!client) return tl::unexpected(relay->reason(std::move(client).error()));
  FarSides::attach(*client, std::move(relay));
  return client;
}

namespace {

// What the component net adds to the core.
void add_net() {
  add_handed_callers(make_handed_callers);
  const MakeRegistrar fabric = [](const RegistrarSetup& setup) {
    return make_fabric_registrar({setup.limits, setup.fabric_domain, setup.fabric_provider});
  };
  add_component(*new Component{.remote = RemoteOpeners{open_remote_producer, open_remote_consumer,
                                                       connect_remote_inbox, open_remote_client},
                               .registrars = {{RegistrarKind::fabric, fabric}}});
}

}  // namespace
}  // namespace gantry

GANTRY_COMPONENT(net, gantry::add_net())
