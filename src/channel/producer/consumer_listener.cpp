#include "channel/producer/consumer_listener.hpp"

#include <array>

#include "base/clock.hpp"
#include "base/event.hpp"
#include "base/memfd.hpp"
#include "channel/naming/access.hpp"
#include "channel/status/status_wire.hpp"
#include "channel/wire/metrics_page.hpp"
#include "channel/wire/step.hpp"

namespace gantry {
namespace {

constexpr std::chrono::seconds kHandshakeTime{5};

// Memory of an unexpected size stays among what is closed elsewhere, since freeing it can take
// long. Importing checks the rest.
Result<void> check_size(const Fd& given, Bytes size) {
  constexpr Bytes kLargestPage = Bytes{64} << 10;
  GANTRY_ASSIGN(const Bytes held, check_sealed(given.get(), 0));
  if (held < size || held - size >= kLargestPage)
    return fail(Code::peer_misbehaved,
                fmt::format("the other process sent {} bytes of memory, not {}", held, size));
  return {};
}

Result<Region> import_page(Fd& given, Bytes size) {
  GANTRY_TRY(check_size(given, size));
  return Region::import(given.release(), size);
}

// The consumer's page, its wake-up sender and metrics, each checked before use.
Result<std::unique_ptr<ConsumerResources>> examine(Received& received) {
  ReceivedFds& fds = received.fds;
  auto consumer = std::make_unique<ConsumerResources>();
  if (received.packet.held > static_cast<std::uint32_t>(SlowConsumer::drop_oldest))
    return fail(Code::peer_misbehaved, "a joining consumer asked for an unknown policy");
  consumer->policy = static_cast<SlowConsumer>(received.packet.held);
  consumer->depth = received.packet.slots;
  GANTRY_ASSIGN(consumer->memory, import_page(fds[0], shared_size(sizeof(ConsumerPage))));
  GANTRY_ASSIGN(consumer->wake_sender, WakeSender::adopt(std::move(fds[1])));
  GANTRY_TRY(check_size(fds[2], kMetricsBytes));
  GANTRY_ASSIGN(consumer->metrics, Metrics::adopt(fds[2].release(), false));
  consumer->memory.close_descriptor();
  MetricsMaker::close_descriptor(consumer->metrics);
  if (consumer->page().magic != kConsumerMagic || consumer->page().version != kFormatVersion)
    return fail(Code::peer_misbehaved, "the consumer's page is of another format");
  return consumer;
}

}  // namespace

// ---- any thread ----------------------------------------------------------------------------

// Peers that were called and not yet greeted see the hang-up, too: they may wait for us.
void ConsumerListener::stop() noexcept {
  PeerListener::stop();
  inside_.clear();
  std::vector<Connection> called;
  const std::lock_guard lock(called_mutex_);
  called.swap(called_);
  is_stopped_ = true;
}

void ConsumerListener::call(Connection connection) {
  {
    const std::lock_guard lock(called_mutex_);
    if (is_stopped_) return;
    called_.push_back(std::move(connection));
  }
  acceptor().rouse(*this);
}

void ConsumerListener::look_again() noexcept {
  acceptor().rouse(*this);
}

// ---- the acceptor's thread -----------------------------------------------------------------

void ConsumerListener::other_roused() {
  look_after_the_dead();
  watch_wakes();
  greet_called();
}

// What cannot be watched now is tried again with the next credit or call.
void ConsumerListener::watch_wakes() {
  host_.watch_wakes([this](int descriptor) {
    return watch(descriptor, wakes_serial_, false, Acceptor::Tell::always);
  });
}

void ConsumerListener::greet_called() {
  std::vector<Connection> called;
  {
    const std::lock_guard lock(called_mutex_);
    called.swap(called_);
  }
  for (Connection& one : called)
    if (auto greeted = greet(std::move(one)); !greeted) host_.call_failed(greeted.error());
}

// The peer that we call must follow the same rules as a caller, and hears our token only then.
Result<void> ConsumerListener::greet(Connection connection) {
  const int send_fd = connection.send_fd();
  GANTRY_ASSIGN(const PeerIdentity identity, peer_of(send_fd));
  GANTRY_TRY(admit_peer(send_fd, access()));
  accept_rights(connection.receive_fd(), false);
  GANTRY_TRY(send_hello(connection, Purpose::deliver, wire_token(access())));
  auto caller = make_peer();
  caller->is_called = true;
  GANTRY_TRY(add(std::move(caller), std::move(connection), identity, kHandshakeTime));
  GANTRY_STEP(inbox_called);
  return {};
}

std::unique_ptr<PeerListener::Peer> ConsumerListener::make_peer() const {
  return std::make_unique<Caller>();
}

void ConsumerListener::accepted() noexcept {
  GANTRY_STEP(caller_accepted);
}

void ConsumerListener::failed(Peer& peer, const Error& why) {
  tell_own_trouble(peer.connection.send_fd(), why.code);
  if (!peer.is_called) return;
  Error told = why;
  if (told.code == Code::timed_out) told.message = "the inbox does not answer";
  host_.call_failed(told);
}

// True while the caller is to be heard again.
bool ConsumerListener::hear(Peer& peer, Received& received) {
  auto& caller = static_cast<Caller&>(peer);
  const bool welcomed = caller.ring.data() != nullptr;
  if (received.packet.kind == PacketKind::join && welcomed) {
    auto in = let_in(caller, received);
    if (!in && caller.is_called) host_.call_failed(in.error());
    return false;
  }
  if (received.packet.kind == PacketKind::hello && !welcomed)
    return answer(caller, received.packet);
  if (caller.is_called) {
    const auto said = expect(std::move(received), PacketKind::hello, 0);
    host_.call_failed(said ? Error{Code::peer_misbehaved, "the inbox broke the handshake", ""}
                           : said.error());
  }
  return false;
}

// True if it is welcome.
bool ConsumerListener::answer(Caller& caller, const WirePacket& hello) {
  if (hello.purpose == Purpose::inspect && !caller.is_called) {
    static_cast<void>(send_status(caller.connection.send_fd(), host_.status()));
    return false;
  }
  if (const Code reason = reason_to_refuse(caller, hello); reason != Code::closed) {
    refuse(caller.connection.send_fd(), reason);
    if (caller.is_called)
      host_.call_failed({Code::permission_denied, "the inbox does not know the token", ""});
    return false;
  }
  const auto told = welcome(caller);
  if (told) return true;
  tell_own_trouble(caller.connection.send_fd(), told.error().code);
  if (caller.is_called) host_.call_failed(told.error());
  return false;
}

// `closed`: there is no reason.
Code ConsumerListener::reason_to_refuse(const Caller& caller, const WirePacket& hello) const {
  if (!is_same_token(access(), hello.token)) return Code::permission_denied;
  if (hello.purpose != Purpose::join) return Code::invalid_argument;
  if (!host_.has_place()) return Code::already_exists;
  if (host_.holds_too_much(caller.identity)) return Code::busy;
  return Code::closed;
}

Result<void> ConsumerListener::welcome(Caller& caller) {
  GANTRY_ASSIGN(caller.ring, host_.make_ring());
  WirePacket packet;
  packet.kind = PacketKind::welcome;
  GANTRY_ASSIGN(WakeReceiver::Made made, WakeReceiver::make());
  caller.wake_receiver = std::move(made.wake_receiver);
  const std::array<int, 3> fds{host_.page_descriptor(), caller.ring.descriptor(),
                               made.wake_sender.descriptor()};
  accept_rights(caller.connection.receive_fd(), true);  // those of its join; see PeerListener, I3
  GANTRY_TRY(send_wire(caller.connection.send_fd(), packet, fds));
  caller.ring.close_descriptor();
  GANTRY_STEP(caller_welcomed);
  return {};
}

Result<void> ConsumerListener::let_in(Caller& caller, Received& received) {
  accept_rights(caller.connection.receive_fd(), false);  // it has nothing more to say
  const auto refused = [&caller](Code code, const char* why) {
    refuse(caller.connection.send_fd(), code);
    return fail(code, why);
  };
  if (!host_.has_place()) return refused(Code::already_exists, "there is a consumer already");
  if (received.fds.size() != 3)
    return fail(Code::peer_misbehaved, "a joining consumer sent the wrong descriptors");
  auto examined = examine(received);
  if (!examined) tell_own_trouble(caller.connection.send_fd(), examined.error().code);
  GANTRY_ASSIGN(auto consumer, std::move(examined));
  GANTRY_STEP(join_examined);
  if (!host_.allows(consumer->policy))
    return refused(Code::unsupported, "the consumer wants to hold up the producer, who forbids it");
  auto life = peer_pidfd(caller.connection.send_fd(), caller.identity.pid);
  if (!life) tell_own_trouble(caller.connection.send_fd(), life.error().code);
  GANTRY_ASSIGN(Fd pidfd, std::move(life));
  consumer->pid = caller.identity.pid;
  consumer->uid = caller.identity.uid;
  consumer->joined_ns = monotonic_ns();
  consumer->pidfd = acceptor().share(std::move(pidfd));
  if (consumer->pidfd) {
    GANTRY_ASSIGN(consumer->life_watch,
                  watch(consumer->pidfd.get(), caller.serial, true, Acceptor::Tell::once));
  }
  caller.connection.watch_with({});  // replaces a watch that always tells
  GANTRY_ASSIGN(auto end_watch,
                watch(caller.connection.receive_fd(), caller.serial, false, Acceptor::Tell::once));
  caller.connection.watch_with(std::move(end_watch));
  consumer->connection = std::move(caller.connection);
  consumer->wake_receiver = std::move(caller.wake_receiver);
  GANTRY_ASSIGN(const unsigned id, host_.admit(std::move(consumer), std::move(caller.ring)));
  inside_.emplace(caller.serial, id);
  watch_wakes();  // its own may be among them
  return {};
}

// After joining a consumer sends nothing: any event is its end. Its hang-up comes a moment before
// its death, or without it.
void ConsumerListener::other_ready(std::uint64_t serial, bool is_second) {
  if (serial == wakes_serial_) {
    host_.credits_came();
    return watch_wakes();
  }
  const auto consumer = inside_.find(serial);
  if (consumer != inside_.end())
    leave(consumer);
  else if (is_second)
    host_.departed_died();
}

void ConsumerListener::leave(std::map<std::uint64_t, unsigned>::iterator consumer) {
  const unsigned id = consumer->second;
  inside_.erase(consumer);
  host_.consumer_left(id);
  GANTRY_STEP(consumer_left);
  if (has_listener()) return;
  looks_left_ = kLooks;
  next_look_ = Deadline::after(std::chrono::milliseconds(1));
}

void ConsumerListener::look_after_the_dead() {
  if (looks_left_ == 0 || !next_look_.passed()) return;
  --looks_left_;
  next_look_ = Deadline::after(std::chrono::milliseconds(1) * (1 << (kLooks - looks_left_)));
  host_.departed_died();
}

}  // namespace gantry
