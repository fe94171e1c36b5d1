#include "channel/doorman.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>

#include "base/clock.hpp"
#include "base/event.hpp"
#include "base/memfd.hpp"
#include "channel/access.hpp"
#include "channel/metrics_page.hpp"
#include "channel/status_wire.hpp"
#include "channel/step.hpp"
#include "channel/worker_thread.hpp"

namespace gantry {
namespace {

constexpr std::size_t kMaxCallers = 16;
constexpr std::chrono::seconds kHandshakeTime{5};
constexpr std::chrono::milliseconds kClosedTime{100};
// Places of the poll set before the callers'.
constexpr std::size_t kWake = 0, kListener = 1, kBell = 2,
                      kCallers = 3;  // then the consumers', in pairs

// The consumer's page, its bell's pull and metrics, each checked before it is believed.
Result<std::unique_ptr<Attached>> examine(Received& received) {
  std::vector<Fd>& fds = received.fds;
  auto consumer = std::make_unique<Attached>();
  if (received.packet.held > static_cast<std::uint32_t>(SlowReader::drop_oldest))
    return fail(Code::peer_misbehaved, "a joining consumer asked for an unknown policy");
  consumer->policy = static_cast<SlowReader>(received.packet.held);
  consumer->depth = received.packet.slots;
  GANTRY_ASSIGN(consumer->memory,
                Region::import(fds[0].release(), shared_size(sizeof(ConsumerPage))));
  GANTRY_ASSIGN(consumer->pull, BellPull::adopt(std::move(fds[1])));
  GANTRY_ASSIGN(consumer->metrics, Metrics::adopt(fds[2].release(), false));
  if (consumer->page().magic != kConsumerMagic || consumer->page().version != kFormatVersion)
    return fail(Code::peer_misbehaved, "the consumer's page is of another format");
  return consumer;
}

// Who fails to get in by no doing of its own is to hear why.
void tell_own_trouble(const Connection& caller, Code code) noexcept {
  if (is_own_trouble(code)) refuse(caller.mouth(), code);
}

}  // namespace

Result<void> Doorman::start() {
  GANTRY_ASSIGN(wake_, make_event());
  GANTRY_ASSIGN(thread_, start_thread([this] { serve(); }));
  return {};
}

void Doorman::stop() {
  if (!thread_.joinable()) return;
  if (!maker_.is_this()) return disown(thread_);
  stopping_.store(true, std::memory_order_relaxed);  // the bell orders
  ring(wake_.get());
  thread_.join();
}

void Doorman::call(Connection connection) {
  {
    const std::lock_guard lock(called_mutex_);
    called_.push_back(std::move(connection));
  }
  ring(wake_.get());
}

void Doorman::greet_called() {
  std::vector<Connection> called;
  {
    const std::lock_guard lock(called_mutex_);
    called.swap(called_);
  }
  for (Connection& one : called)
    if (auto greeted = greet(std::move(one)); !greeted) household_.call_failed(greeted.error());
}

// Whoever is at the other end is held to the same rules as whoever comes, and hears our token only
// then.
Result<void> Doorman::greet(Connection connection) {
  const int mouth = connection.mouth();
  GANTRY_ASSIGN(const PeerIdentity identity, peer_of(mouth));
  GANTRY_TRY(admit_peer(mouth, access_));
  GANTRY_TRY(send_hello(mouth, Purpose::deliver, wire_token(access_)));
  callers_.push_back(
      {std::move(connection), identity, Deadline::after(kHandshakeTime), {}, {}, true});
  GANTRY_STEP(inbox_called);
  return {};
}

void Doorman::look_again() noexcept {
  if (maker_.is_this()) ring(wake_.get());
}

void Doorman::serve() {
  while (!stopping_.load(std::memory_order_relaxed)) {
    wait_for_events();
    if (events_[kWake].revents != 0) drain(wake_.get());
    if (events_[kBell].revents != 0) household_.credits_came();
    watch_consumers();  // first: their places in events_ are behind the callers as they were
    // Callers from behind: hear() may drop one, accept_callers() adds.
    for (std::size_t i = callers_.size(); i-- > 0;)
      if (events_[kCallers + i].revents != 0) hear(i);
    if (events_[kListener].revents != 0) accept_callers();
    forget_late_callers();
    if (events_[kWake].revents != 0) greet_called();
  }
}

void Doorman::wait_for_events() {
  events_.assign(
      {{wake_.get(), POLLIN, 0},
       {callers_.size() < kMaxCallers && closed_until_.passed() ? listener_ : -1, POLLIN, 0},
       {household_.bells(), POLLIN, 0}});
  for (const Caller& caller : callers_) events_.push_back({caller.connection.ears(), POLLIN, 0});
  for (const Watched& one : watched_) {
    events_.push_back({one.ears, POLLIN, 0});
    events_.push_back({one.pidfd.get(), POLLIN, 0});
  }
  if (::poll(events_.data(), events_.size(), poll_timeout_ms(next_deadline())) < 0)
    for (pollfd& event : events_) event.revents = 0;  // a signal: just look again
}

Deadline Doorman::next_deadline() const {
  Deadline next = closed_until_.passed() ? Deadline::never() : closed_until_;
  for (const Caller& caller : callers_)
    if (caller.until.left() < next.left()) next = caller.until;
  return next;
}

void Doorman::accept_callers() {
  while (callers_.size() < kMaxCallers) {
    Fd socket(::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) {
      // Out of descriptors, say: the caller stays in the queue and would wake us at once again.
      if (errno != EAGAIN) closed_until_ = Deadline::after(kClosedTime);
      return;
    }
    const auto identity = peer_of(socket.get());
    if (!identity) continue;
    callers_.push_back(
        {Connection(std::move(socket)), *identity, Deadline::after(kHandshakeTime), {}, {}, false});
    GANTRY_STEP(caller_accepted);
  }
}

// Whatever goes wrong with a caller costs it its place here and nobody anything else.
void Doorman::hear(std::size_t index) {
  Caller& caller = callers_[index];
  auto received = receive_wire(caller.connection.ears(), Deadline::now());
  if (!received) tell_own_trouble(caller.connection, received.error().code);
  const bool stays = received && !received->closed && answer(caller, *received);
  if (!stays && caller.is_called) {
    auto said = received ? expect(std::move(*received), PacketKind::hello, 0) : std::move(received);
    household_.call_failed(
        said ? Error{Code::permission_denied, "the inbox does not know the token", ""}
             : said.error());
  }
  if (!stays) callers_.erase(callers_.begin() + static_cast<std::ptrdiff_t>(index));
}

// True while the caller is to be heard again.
bool Doorman::answer(Caller& caller, Received& received) {
  const WirePacket& packet = received.packet;
  const bool welcomed = caller.ring.data() != nullptr;
  if (packet.kind == PacketKind::join && welcomed) {
    auto in = let_in(caller, received);
    if (!in && caller.is_called) household_.call_failed(in.error());
    caller.is_called = false;
    return false;
  }
  if (packet.kind != PacketKind::hello || welcomed) return false;
  // The socket's mode may admit fewer; this holds where modes are not honoured, too. Answered only
  // now: a refusal before the caller spoke would be lost with the reset that its words then meet.
  if (!admit_peer(caller.connection.mouth(), access_)) {
    refuse(caller.connection.mouth(), Code::permission_denied);
    return false;
  }
  if (packet.purpose == Purpose::inspect) {
    static_cast<void>(send_status(caller.connection.mouth(), household_.status()));
    return false;
  }
  if (!is_same_token(access_, packet.token)) {
    refuse(caller.connection.mouth(), Code::permission_denied);
    return false;
  }
  if (packet.purpose != Purpose::join) {
    refuse(caller.connection.mouth(), Code::invalid_argument);
    return false;
  }
  if (!household_.has_place()) {
    refuse(caller.connection.mouth(), Code::already_exists);
    return false;
  }
  if (household_.holds_too_much(caller.identity.pid)) {
    refuse(caller.connection.mouth(), Code::busy);
    return false;
  }
  const auto told = welcome(caller);
  if (!told) tell_own_trouble(caller.connection, told.error().code);
  if (!told && std::exchange(caller.is_called, false)) household_.call_failed(told.error());
  return told.has_value();
}

Result<void> Doorman::welcome(Caller& caller) {
  GANTRY_ASSIGN(caller.ring, household_.make_ring());
  WirePacket packet;
  packet.kind = PacketKind::welcome;
  GANTRY_ASSIGN(Bell::Made made, Bell::make());
  caller.bell = std::move(made.bell);
  const auto [page, metrics] = household_.welcome_descriptors();
  const std::array<int, 4> fds{page, caller.ring.descriptor(), made.pull.descriptor(), metrics};
  GANTRY_TRY(send_wire(caller.connection.mouth(), packet, fds));
  GANTRY_STEP(caller_welcomed);
  return {};
}

Result<void> Doorman::let_in(Caller& caller, Received& received) {
  if (!household_.has_place()) {
    refuse(caller.connection.mouth(), Code::already_exists);
    return fail(Code::already_exists, "there is a consumer already");
  }
  if (received.fds.size() != 3)
    return fail(Code::peer_misbehaved, "a joining consumer sent the wrong descriptors");
  auto examined = examine(received);
  if (!examined) tell_own_trouble(caller.connection, examined.error().code);
  GANTRY_ASSIGN(auto consumer, std::move(examined));
  GANTRY_STEP(join_examined);
  consumer->pid = caller.identity.pid;
  consumer->uid = caller.identity.uid;
  consumer->joined_ns = monotonic_ns();
  consumer->pidfd = peer_pidfd(caller.connection.mouth(), caller.identity.pid);
  consumer->connection = std::move(caller.connection);
  consumer->bell = std::move(caller.bell);
  Watched watched;
  watched.ears = consumer->connection.ears();
  if (consumer->pidfd) watched.pidfd = Fd(::fcntl(consumer->pidfd.get(), F_DUPFD_CLOEXEC, 0));
  GANTRY_ASSIGN(watched.consumer, household_.admit(std::move(consumer), std::move(caller.ring)));
  watched_.push_back(std::move(watched));
  return {};
}

// After joining a consumer has nothing more to say: any event is its end. Its hang-up comes a
// moment before its death, or without it.
void Doorman::watch_consumers() {
  const std::size_t first = events_.size() - 2 * watched_.size();
  std::size_t i = 0;
  std::erase_if(watched_, [&](Watched& one) {
    const bool hung_up = events_[first + 2 * i].revents != 0;
    const bool died = events_[first + 2 * i + 1].revents != 0;
    ++i;
    if (!hung_up && !died) return false;
    if (one.ears >= 0)
      household_.consumer_left(one.consumer, died);
    else
      household_.departed_died();
    GANTRY_STEP(consumer_left);
    one.ears = -1;
    return died || !one.pidfd;
  });
}

void Doorman::forget_late_callers() {
  std::erase_if(callers_, [this](const Caller& caller) {
    if (!caller.until.passed()) return false;
    if (caller.is_called)
      household_.call_failed(
          {Code::timed_out, "the inbox does not answer",
           "it is stopped or has no time: let it go on (kill -CONT), or end it"});
    return true;
  });
}

}  // namespace gantry
