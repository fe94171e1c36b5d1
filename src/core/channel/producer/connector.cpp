#include "core/channel/producer/connector.hpp"

#include <array>

#include "core/base/clock.hpp"
#include "core/base/event.hpp"
#include "core/base/os/memfd.hpp"
#include "core/channel/naming/access.hpp"
#include "core/channel/status/status_text.hpp"
#include "core/channel/status/status_wire.hpp"
#include "core/channel/wire/metrics_page.hpp"
#include "core/channel/wire/protocol.hpp"
#include "core/channel/wire/step.hpp"

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

// ---- the acceptor's thread -----------------------------------------------------------------

void ConsumerListener::other_roused() {
  look_after_the_dead();
  watch_wakes();
  greet_called();
}

// What cannot be watched now is tried again with the next credit or call.
void ConsumerListener::watch_wakes() {
  if (!watches_wakes_ && !gate_.acceptor_watches()) return;  // as long as nothing was passed on
  const ProducerCore::Lock held = core_.lock();
  watches_wakes_ = gate_.watch_wakes([this](int descriptor) {
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
  GANTRY_TRY(send_hello(connection, core_.calls, wire_token(access())));
  auto caller = make_peer();
  caller->is_called = true;
  GANTRY_TRY(add(std::move(caller), std::move(connection), identity, kHandshakeTime));
  GANTRY_STEP(inbox_called);
  return {};
}

void ConsumerListener::failed(Peer& peer, const Error& why) {
  tell_own_trouble(peer.connection.send_fd(), why.code);
  if (!peer.is_called) return;
  Error told = why;
  if (told.code == Code::timed_out) told.message = "the other end does not answer";
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
    host_.call_failed(said ? Error{Code::peer_misbehaved, "the other end broke the handshake", ""}
                           : said.error());
  }
  return false;
}

// True if it is welcome.
bool ConsumerListener::answer(Caller& caller, const WirePacket& hello) {
  if (hello.purpose == Purpose::inspect && !caller.is_called) {
    static_cast<void>(send_status(caller.connection.send_fd(), encode_status(status_.describe())));
    return false;
  }
  if (const Code reason = reason_to_refuse(caller, hello); reason != Code::closed) {
    refuse(caller.connection.send_fd(), reason, Purpose::join);
    if (caller.is_called)
      host_.call_failed({Code::permission_denied, "the other end does not know the token", ""});
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
  ConsumerSet::Gone gone;  // destroyed without the lock
  const ProducerCore::Lock held = core_.lock();
  if (!core_.consumers->has_place()) return Code::already_exists;
  core_.consumers->forget_departed(gone);
  if (core_.consumers->departed().has_full_share(caller.identity.uid)) return Code::busy;
  return Code::closed;
}

Result<void> ConsumerListener::welcome(Caller& caller) {
  GANTRY_ASSIGN(caller.ring, ConsumerState::make_page(core_.options.slots));
  WirePacket packet;
  packet.kind = PacketKind::welcome;
  GANTRY_ASSIGN(WakeReceiver::Made made, WakeReceiver::make());
  caller.wake_receiver = std::move(made.wake_receiver);
  const std::array<int, 3> fds{core_.memory.descriptor(), caller.ring.descriptor(),
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
  if (received.fds.size() != 3)
    return fail(Code::peer_misbehaved, "a joining consumer sent the wrong descriptors");
  auto examined = examine(received);
  if (!examined) tell_own_trouble(caller.connection.send_fd(), examined.error().code);
  GANTRY_ASSIGN(auto consumer, std::move(examined));
  GANTRY_STEP(join_examined);
  if (!core_.options.consumers_may_block && consumer->policy == SlowConsumer::block)
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
    {
      const ProducerCore::Lock held = core_.lock();
      gate_.credits_came();
    }
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

// ---- the connector ---------------------------------------------------------------------------

Result<void> Connector::start(Reach reach) {
  GANTRY_DEBUG_ASSERT(!listener_);
  reach_ = reach;
  if (reach == Reach::listens) {
    GANTRY_TRY(check_reach(core_.options.directory, core_.name, core_.options.access));
    GANTRY_ASSIGN(
        claim_, Claim::take(core_.options.directory, core_.name, core_.options.interrupt_descriptor,
                            file_access(core_.options.access)));
  }
  GANTRY_ASSIGN(core_.options.acceptor, Acceptor::of(core_.options));
  listener_.emplace(*this, core_, gate_, status_, claim_.listener());
  return listener_->start();
}

void Connector::stop() noexcept {
  if (listener_) listener_->stop();
  if (core_.fork_guard.is_this()) claim_.give_up();  // otherwise the name is the parent's
}

Result<void> Connector::wait_for_consumers(Deadline deadline, unsigned count) {
  if (reach_ == Reach::calls) return wait_for_inbox(deadline);
  ProducerCore::Lock held = core_.lock();
  const auto why = [this, count]() -> WaitReason {
    constexpr auto kKind = WaitReason::Kind::consumer;
    const unsigned joined = core_.consumers->count();
    if (joined == 0 && count == 1)
      return {kKind, core_.consumers->lost() ? "for a consumer" : "for a first consumer",
              "no consumer joined in time"};
    return {kKind, fmt::format("for {}: {} joined", count_text(count, "consumer"), joined),
            fmt::format("{} of {} consumers joined in time", joined, count)};
  };
  return gate_.wait_until(
      held, deadline, [this, count] { return core_.consumers->count() >= count; }, why,
      CreditGate::Lost::is_fine);
}

// ---- calling ---------------------------------------------------------------------------------

Result<void> Connector::call(Deadline deadline) {
  {
    const ProducerCore::Lock held = core_.lock();
    if (calling_ || core_.consumers->count() != 0) return {};
  }
  GANTRY_ASSIGN(Fd socket, find_producer(core_.options.directory, core_.name,
                                         core_.options.interrupt_descriptor, deadline, core_.reader,
                                         core_.options.notices));
  GANTRY_STEP(inbox_found);
  GANTRY_ASSIGN(called_, peer_of(socket.get()));
  GANTRY_ASSIGN(called_life_, peer_pidfd(socket.get(), called_.pid));
  begin_call(Connection(std::move(socket)));
  return {};
}

Result<void> Connector::call_over(ReceivedFd& control, const PeerIdentity& whom) {
  GANTRY_ASSIGN(control, adopt_control_end(std::move(control), whom));
  called_ = whom;
  GANTRY_ASSIGN(ControlPair own, make_control_pair());
  // If nobody can be told any more the listener's hello will fail, too.
  static_cast<void>(send_control_end(control.get(), own.theirs.get()));
  Connection connection(std::move(own.ours));
  connection.send_through(std::move(control));
  begin_call(std::move(connection));
  return {};
}

void Connector::begin_call(Connection connection) {
  {
    const ProducerCore::Lock held = core_.lock();
    calling_ = true;
    call_error_.reset();
  }
  listener_->call(std::move(connection));
}

Result<void> Connector::wait_for_inbox(Deadline deadline) {
  constexpr int kTries = 3;  // it may end between our call and its answer; then try its successor
  for (int attempt = 1;; ++attempt) {
    GANTRY_TRY(call(deadline));
    ProducerCore::Lock held = core_.lock();
    GANTRY_TRY(gate_.wait_until(
        held, deadline, [this] { return core_.consumers->count() != 0 || !calling_; },
        [this]() -> WaitReason {
          const std::string whom = fmt::format("the {} (process {})", core_.reader, called_.pid);
          return {WaitReason::Kind::consumer, fmt::format("for {} to answer", whom),
                  fmt::format("{} did not answer in time", whom)};
        },
        CreditGate::Lost::is_fine));
    if (core_.consumers->count() != 0) return {};
    const bool left_again = !call_error_;
    // It took all to the stream's end and left before this thread looked: nobody need be called.
    if (left_again && core_.consumers->has_ended() && core_.credits().all_taken()) return {};
    const auto& lost = core_.consumers->lost();
    if (left_again && lost && is_own_trouble(lost->code)) return tl::unexpected(core_.named(*lost));
    const bool is_gone = left_again || call_error_->code == Code::peer_gone;
    if (is_gone && attempt < kTries && !deadline.passed()) continue;
    if (left_again) return core_.refuse(Code::peer_gone, "the other end left again");
    return tl::unexpected(core_.named(*call_error_));
  }
}

// Under the lock, as everything that uses that socket.
Result<void> Connector::send_control(int control) {
  const ProducerCore::Lock held = core_.lock();
  for (const auto& consumer : core_.consumers->consumers())
    if (!consumer->is_cut)
      return send_control_end(consumer->resources().connection.send_fd(), control);
  return core_.refuse(Code::peer_gone, "the other end left again");
}

bool Connector::is_alone() const {
  const ProducerCore::Lock held = core_.lock();
  return core_.consumers->lost().has_value() || call_error_.has_value();
}

std::optional<Error> Connector::trouble() const {
  const ProducerCore::Lock held = core_.lock();
  return core_.consumers->hear_trouble();
}

Result<void> Connector::finish_handed(Deadline deadline) {
  HandedCallers* const there = handed();
  return there == nullptr ? Result<void>()
                          : there->finish(deadline, core_.options.interrupt_descriptor);
}

void Connector::call_failed(const Error& why) {
  const ProducerCore::Lock held = core_.lock();
  calling_ = false;
  call_error_ = why;
  // A control connection leads to one process: nobody else will come for a waiter to be woken by.
  if (reach_ == Reach::answers)
    core_.consumers->expect_nobody(fmt::format("process {} did not take its control connection: {}",
                                               called_.pid, why.message));
  consumers_changed();
}

// ---- the consumers, as the acceptor tells ---------------------------------------------------

Result<unsigned> Connector::admit(std::unique_ptr<ConsumerResources> consumer, Region ring_memory) {
  consumer->trace = &core_.trace;
  const int socket = consumer->connection.send_fd();
  const ProducerCore::Lock held = core_.lock();
  GANTRY_ASSIGN(const unsigned id,
                core_.consumers->admit(std::move(consumer), std::move(ring_memory)));
  core_.metrics.meter()->connected();
  calling_ = false;
  // Under the lock: who sees the consumer may send to it and die at once, and what was sent counts
  // only for a consumer that was told. The acceptor finds out about one that is gone already; it
  // has joined nevertheless.
  WirePacket ready;
  ready.kind = PacketKind::ready;
  static_cast<void>(send_wire(socket, ready));
  consumers_changed();
  GANTRY_STEP(consumer_admitted);
  return id;
}

void Connector::consumer_left(unsigned consumer) {
  if (reach_ == Reach::calls) sweep_if_stale(core_.options.directory, core_.name, Deadline::now());
  ConsumerSet::Gone gone;  // destroyed without the lock
  const ProducerCore::Lock held = core_.lock();
  for (const auto& one : core_.consumers->consumers())
    if (one->id() == consumer) GANTRY_PROBE(peer_gone, core_.name.c_str(), one->resources().pid);
  core_.consumers->left(consumer, gone);
  consumers_changed();
}

// Waiting threads look at the consumers. Under the lock: a copy of the event beyond that would have
// the acceptor lend another one to whoever sleeps next.
void Connector::consumers_changed() noexcept {
  core_.consumers->wake_producer();
  if (core_.options.consumers_event >= 0) ring(core_.options.consumers_event);
}

void Connector::departed_died() {
  if (reach_ == Reach::calls) sweep_if_stale(core_.options.directory, core_.name, Deadline::now());
  ConsumerSet::Gone gone;  // destroyed without the lock
  const ProducerCore::Lock held = core_.lock();
  core_.consumers->forget_departed(gone);
}

}  // namespace gantry
