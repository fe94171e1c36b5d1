#include "core/channel/inbox/producer_listener.hpp"

#include <algorithm>

#include "core/base/event.hpp"
#include "core/channel/consumer/consumer.hpp"
#include "core/channel/naming/access.hpp"
#include "core/channel/status/status_wire.hpp"
#include "core/channel/status/time_scale.hpp"
#include "core/channel/wire/step.hpp"

namespace gantry {

ProducerListener::ProducerListener(std::shared_ptr<Acceptor> acceptor, Rules rules, int listener)
    : PeerListener(std::move(acceptor), listener, rules.options.access), rules_(std::move(rules)) {}

ProducerListener::ProducerListener(std::shared_ptr<Acceptor> acceptor, Rules rules,
                                   ControlConnection control)
    : PeerListener(std::move(acceptor), -1, rules.options.access),
      rules_(std::move(rules)),
      control_(std::move(control)) {}

// A peer that is awaited over a control connection comes when it is ready, not within a handshake's
// five seconds.
Result<void> ProducerListener::start() {
  opened_ns_ = monotonic_ns();
  GANTRY_ASSIGN(news_, make_event());
  if (control_) {
    auto caller = std::make_unique<Caller>();
    caller->is_called = true;
    caller->is_awaited = true;
    caller->life = std::move(control_->life);
    GANTRY_TRY(add(std::move(caller), Connection(std::move(control_->receive_fd)), control_->whom,
                   std::chrono::nanoseconds::max()));
  }
  return PeerListener::start();
}

std::vector<Newcomer> ProducerListener::take() {
  drain(news_.get());  // before the look: whoever comes after it rings again
  const std::lock_guard lock(mutex_);
  return std::exchange(newcomers_, {});
}

ProducerListener::UnderWay::~UnderWay() {
  listener_.under_way_.fetch_sub(1, std::memory_order_release);  // [U]: after announce()
  ring(listener_.news_.get());
}

std::unique_ptr<PeerListener::Peer> ProducerListener::make_peer() const {
  return std::make_unique<Caller>();
}

void ProducerListener::accepted() noexcept {
  GANTRY_STEP(producer_accepted);
}

// Over a control connection nobody else will come.
void ProducerListener::failed(Peer& peer, const Error& why) {
  tell_own_trouble(peer.connection.send_fd(), why.code);
  if (static_cast<Caller&>(peer).is_awaited) announce({peer.identity, nullptr, why});
}

bool ProducerListener::hear(Peer& peer, Received& received) {
  auto& caller = static_cast<Caller&>(peer);
  const auto more = go_on(caller, received);
  if (more && *more) return true;
  const bool is_inside = caller.end != nullptr && caller.end->has_joined();
  if (!more)
    failed(peer, more.error());
  else if (!is_inside)
    failed(peer, {Code::peer_gone, "it did not join as a producer does", ""});
  return false;
}

// False: it has joined, or is not wanted.
Result<bool> ProducerListener::go_on(Caller& caller, Received& received) {
  if (caller.is_awaited && !caller.connection.is_pair()) return hear_control(caller, received);
  if (!caller.end) return begin(caller, received.packet);
  GANTRY_ASSIGN(const bool joined,
                caller.end->handshake().hear(caller.connection.send_fd(), received));
  if (joined) GANTRY_TRY(let_in(caller));
  return !joined;
}

// The peer of a control connection answers with one, and speaks through ours.
bool ProducerListener::hear_control(Caller& caller, Received& received) {
  if (received.packet.kind != PacketKind::control || received.fds.size() != 1) return false;
  auto send_fd = adopt_control_end(std::move(received.fds[0]), caller.identity);
  if (send_fd) caller.connection.send_through(std::move(*send_fd));
  return send_fd.has_value();
}

bool ProducerListener::has_room() {
  const auto joining = std::count_if(peers().begin(), peers().end(), [](const auto& peer) {
    return static_cast<const Caller&>(*peer).end != nullptr;
  });
  const std::lock_guard lock(mutex_);
  return inside_.size() + static_cast<std::size_t>(joining) < rules_.producers;
}

// The order of ConsumerListener::answer(). Checks who made a control connection.
Result<bool> ProducerListener::begin(Caller& caller, const WirePacket& hello) {
  const int socket = caller.connection.send_fd();
  const auto turn_away = [this, socket](Code reason) {
    refuse(socket, reason, rules_.purpose);
    return false;
  };
  if (hello.kind != PacketKind::hello) return false;
  if (caller.is_awaited && !admit_peer(socket, access())) return turn_away(Code::permission_denied);
  if (hello.purpose == Purpose::inspect) {
    static_cast<void>(send_status(socket, encode_status(describe())));
    return false;
  }
  if (hello.purpose != said_for(rules_.purpose)) return turn_away(Code::invalid_argument);
  if (!is_same_token(access(), hello.token)) return turn_away(Code::permission_denied);
  if (!has_room()) return turn_away(Code::busy);
  auto end = Consumer::Impl::make_called(
      rules_.name, rules_.options, std::make_shared<SenderQuota>(rules_.quota), rules_.is_protocol);
  if (!end && !is_own_trouble(end.error().code)) return turn_away(end.error().code);
  if (!end) return tl::unexpected(end.error());
  // those of the welcome, then slabs at any time
  accept_rights(caller.connection.receive_fd(), true);
  caller.under_way.emplace(*this);
  GANTRY_TRY((*end)->handshake().ask(socket));
  caller.end = std::move(*end);
  GANTRY_STEP(producer_greeted);
  return true;
}

Result<void> ProducerListener::let_in(Caller& caller) {
  if (!caller.is_awaited) {
    GANTRY_ASSIGN(caller.life, peer_pidfd(caller.connection.send_fd(), caller.identity.pid));
  }
  caller.connection.watch_with({});  // from here on the receiving thread looks
  GANTRY_TRY(caller.end->settle(std::move(caller.connection), caller.identity,
                                acceptor().share(std::move(caller.life))));
  {
    const std::lock_guard lock(mutex_);
    inside_.push_back({caller.identity, monotonic_ns(), caller.end.get(), caller.end});
  }
  GANTRY_STEP(producer_let_in);
  announce({caller.identity, caller.end});
  return {};
}

void ProducerListener::announce(Newcomer newcomer) {
  {
    const std::lock_guard lock(mutex_);
    newcomers_.push_back(std::move(newcomer));
  }
  ring(news_.get());
  GANTRY_STEP(newcomer_announced);
}

void ProducerListener::forget(std::shared_ptr<Consumer::Impl> end) {
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(inside_, [&end](const Inside& one) { return one.which == end.get(); });
    left_.push_back(std::move(end));
  }
  acceptor().rouse(*this);
}

void ProducerListener::other_roused() {
  std::vector<std::shared_ptr<Consumer::Impl>> left;
  const std::lock_guard lock(mutex_);
  left.swap(left_);
}

// A sender's counters are those of its end here, which is ours.
ChannelStatus ProducerListener::describe() {
  ChannelStatus status;
  status.is_inbox = true;
  status.is_server = rules_.is_protocol != nullptr;
  const std::uint64_t now = monotonic_ns();
  const MetricsPage& counters = *MetricsMaker::page(*rules_.counters);
  const double scale = lasting_ns_per_tick();
  status.age = std::chrono::nanoseconds(now - opened_ns_);
  status.producer = MetricsMaker::report(counters, scale);
  ConsumerStatus& receiver = status.consumers.emplace_back();
  receiver.who = name_of(rules_.options);
  receiver.handoffs = MetricsMaker::handoffs(counters);
  status.senders_limit = rules_.producers;
  const std::lock_guard lock(mutex_);
  for (const Inside& one : inside_) {
    const auto end = one.end.lock();
    if (end == nullptr) continue;
    const MetricsReport report = MetricsMaker::report(end->counters(), scale);
    SenderStatus& sender = status.senders.emplace_back();
    sender.pid = one.identity.pid;
    sender.who = end->producer_name();
    sender.uid = one.identity.uid;
    sender.joined = std::chrono::nanoseconds(now - one.joined_ns);
    sender.idle = sender.joined;  // it cannot be longer ago, whatever a tick is
    if (report.messages != 0)
      sender.idle = std::min(sender.idle, std::chrono::nanoseconds(report.idle_ns));
    sender.messages = report.messages;
    sender.bytes = report.bytes;
    end->tell_credits(sender);
  }
  return status;
}

}  // namespace gantry
