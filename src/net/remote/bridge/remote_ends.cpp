#include "net/remote/bridge/remote_ends.hpp"

#include <sys/socket.h>

#include "core/base/assert.hpp"
#include "core/base/result.hpp"
#include "core/base/text_lines.hpp"
#include "core/channel/naming/access.hpp"
#include "core/channel/naming/rendezvous.hpp"
#include "core/channel/wire/far_sides.hpp"
#include "core/channel/wire/notice.hpp"
#include "core/engine/inline/inline_engine.hpp"
#include "core/runtime/components.hpp"
#include "net/fabric/registrar.hpp"
#include "net/remote/bridge/hand_over.hpp"
#include "net/remote/bridge/home.hpp"
#include "net/remote/bridge/relay.hpp"
#include "net/remote/bridge/sessions.hpp"
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

/// The line to the bridge whose producer's connection this process has.
struct TakenLine {
  std::mutex mutex;
  Fd line;  // under the lock; empty: nothing comes over it any more

  [[nodiscard]] int get() {
    const std::lock_guard lock(mutex);
    return line.get();
  }
};

/// Looks out for a newer connection, too: its caller may know of a broken link before this end
/// does.
class TakenReceivingSide final : public ReceivingSide {
 public:
  TakenReceivingSide(Producer producer, std::shared_ptr<TakenLine> line)
      : ReceivingSide(std::move(producer)), line_(std::move(line)) {}
  [[nodiscard]] Result<Turn> turn(Link& link) override {
    GANTRY_ASSIGN(const Turn taken, ReceivingSide::turn(link));
    if (taken != Turn::idle || !is_watched_) return taken;
    const int line = line_->get();
    if (!is_readable(line)) return taken;
    std::byte first{};
    is_watched_ = ::recv(line, &first, 1, MSG_PEEK | MSG_DONTWAIT) > 0;  // or the bridge is gone
    if (!is_watched_) return taken;
    link.close();
    return fail(Code::peer_gone, "its caller has come with another connection");
  }
  [[nodiscard]] int event(const Link&) override { return is_watched_ ? line_->get() : -1; }

 private:
  const std::shared_ptr<TakenLine> line_;
  bool is_watched_ = true;
};

// The next connection that the bridge offers over the line.
Result<BridgeCall> take_offered(int line, const RemoteRequest& request,
                                const std::shared_ptr<Engine>& engine, int interrupt,
                                Deadline deadline) {
  GANTRY_ASSIGN(const HandOffer offer, hear_offer(line, interrupt, deadline));
  BridgeCall made;
  made.answer.session = offer.request.session;
  made.answer.received = request.received;
  made.patience = patience_with(offer.request, offer.patience);
  made.answer.served = "taken over by its reader's process";
  GANTRY_TRY(answer_offer(line, made.answer));
  GANTRY_ASSIGN(Fd socket, take_connection(line, interrupt));
  GANTRY_ASSIGN(made.link, link_over(RemotePath::stream, std::move(socket), engine,
                                     {offer.peer, offer.stall_limit}));
  made.answer.received = offer.request.received;
  return made;
}

// An offer that its bridge has given up leaves packets out of their order: the next one counts.
Result<BridgeCall> await_offer(const TakenLine& taken, const RemoteRequest& request,
                               const std::shared_ptr<Engine>& engine, int interrupt,
                               Deadline deadline) {
  for (;;) {
    auto made = take_offered(taken.line.get(), request, engine, interrupt, deadline);
    if (made || made.error().code != Code::peer_misbehaved || deadline.passed()) return made;
  }
}

// Says which producer's connection it wants. Errors: `unsupported` where there is none to take.
Result<Fd> want_connection(const std::string& directory, const std::string& name,
                           const ConsumerOptions& options) {
  GANTRY_ASSIGN(Fd line, find_producer(directory, name, -1, Deadline::now()));
  GANTRY_TRY(admit_peer(line.get(), options.access));
  GANTRY_TRY(send_hello(line.get(), Purpose::hand, wire_token(options.access)));
  accept_rights(line.get(), true);
  HandOffer want;
  want.kind = HandOffer::Kind::want;
  want.request.channel = name;
  GANTRY_ASSIGN(HandOver heard, HandOver::offer_over(std::move(line), want));
  if (heard.answer().refusal) return prefixed(*heard.answer().refusal, "channel '{}'", name);
  return heard.take_line();
}

Result<Consumer> take_over(std::string_view name, const ConsumerOptions& given, Deadline deadline) {
  ConsumerOptions options = given;
  const std::string channel(name);
  GANTRY_ASSIGN(options.directory, channel_directory(given.directory, given.access));
  GANTRY_ASSIGN(auto engine, make_inline_engine());
  auto wanted = want_connection(options.directory, channel, options);
  if (!wanted && wanted.error().code != Code::already_exists)
    return fail(Code::unsupported, wanted.error().message);
  const auto taken = std::make_shared<TakenLine>();
  GANTRY_ASSIGN(taken->line, std::move(wanted));
  Relay::Setup setup;
  setup.engine = engine;
  setup.name.channel = channel;
  setup.options = options.remote;
  setup.interrupt = options.interrupt_descriptor;
  setup.spin = options.spin;
  setup.parent = options.directory;
  setup.access = options.access;
  setup.await_call = [taken, engine](const RemoteRequest& request, int interrupt, Deadline until) {
    return await_offer(*taken, request, engine, interrupt, until);
  };
  setup.ended = [taken](const Error& why) {
    const std::lock_guard lock(taken->mutex);
    if (why.code == Code::closed) say_finished(taken->line.get());
    taken->line.reset();
  };
  setup.make_side = [acceptor = options.acceptor, engine, channel, depth = options.depth,
                     taken](const std::string& directory) {
    ProducerOptions within{end_within(acceptor, directory), {}};
    within.slots = std::max(within.slots, depth);
    return Producer::open(channel, within, engine)
        .map([&](Producer producer) -> std::unique_ptr<RemoteSide> {
          return std::make_unique<TakenReceivingSide>(std::move(producer), taken);
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
  add_handing(*new HandingMakers{make_handed_callers, take_over});
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
