#include "channel/porter.hpp"

#include <sys/socket.h>

#include <algorithm>

#include "base/event.hpp"
#include "channel/access.hpp"
#include "channel/incoming.hpp"
#include "channel/status_wire.hpp"
#include "channel/step.hpp"
#include "channel/worker_thread.hpp"

namespace gantry {
namespace {

constexpr std::chrono::seconds kHandshakeTime{5};
constexpr std::chrono::milliseconds kTimeWhileFull{100};
constexpr std::chrono::milliseconds kClosedTime{100};
// Places of the poll set before the callers'.
constexpr std::size_t kWake = 0, kListener = 1, kCallers = 2;

}  // namespace

// It comes when its time has come: that is not a matter of a handshake's five seconds.
Porter::Porter(Rules rules, Line line)
    : rules_(std::move(rules)), listener_(-1), awaited_(line.whom) {
  callers_.push_back({Connection(std::move(line.ears)), line.whom, std::move(line.life),
                      Deadline::never(), Deadline::never(), nullptr});
}

Result<void> Porter::start() {
  opened_ns_ = monotonic_ns();
  GANTRY_ASSIGN(wake_, make_event());
  GANTRY_ASSIGN(news_, make_event());
  GANTRY_ASSIGN(thread_, start_thread([this] { serve(); }));
  return {};
}

void Porter::stop() {
  if (!thread_.joinable()) return;
  if (!maker_.is_this()) return disown(thread_);
  ring(wake_.get());
  thread_.join();
}

std::vector<Newcomer> Porter::take() {
  drain(news_.get());  // before the look: whoever comes after it rings again
  const std::lock_guard lock(mutex_);
  return std::exchange(newcomers_, {});
}

void Porter::serve() {
  while (!is_done()) {
    wait_for_events();
    if (events_[kWake].revents != 0) return;
    for (std::size_t i = callers_.size(); i-- > 0;)  // from behind: one may go
      if (events_[kCallers + i].revents != 0 && !hear(callers_[i]))
        callers_.erase(callers_.begin() + static_cast<std::ptrdiff_t>(i));
    forget_late_callers();
    if (events_[kListener].revents != 0) accept_callers();
  }
  callers_.clear();
  if (listener_ < 0 && !has_come_) announce({awaited_, nullptr});
}

void Porter::wait_for_events() {
  events_.assign({{wake_.get(), POLLIN, 0},
                  {!is_full() && closed_until_.passed() ? listener_ : -1, POLLIN, 0}});
  for (const Caller& caller : callers_) events_.push_back({caller.connection.ears(), POLLIN, 0});
  if (::poll(events_.data(), events_.size(), poll_timeout_ms(next_deadline())) < 0)
    for (pollfd& event : events_) event.revents = 0;  // a signal: just look again
}

// They all have the same time, so the first that came is the first that is late.
Deadline Porter::next_deadline() const {
  Deadline next = closed_until_.passed() ? Deadline::never() : closed_until_;
  if (callers_.empty()) return next;
  const Caller& first = callers_.front();
  const Deadline late = is_full() ? first.while_full : first.until;
  return late.left() < next.left() ? late : next;
}

void Porter::forget_late_callers() {
  const bool full = is_full();
  std::erase_if(callers_, [full](const Caller& caller) {
    return caller.until.passed() || (full && caller.while_full.passed());
  });
}

void Porter::accept_callers() {
  while (!is_full()) {
    Fd socket(::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) {
      // Out of descriptors, say: the caller stays in the queue and would wake us at once again.
      if (errno != EAGAIN) closed_until_ = Deadline::after(kClosedTime);
      return;
    }
    const auto identity = peer_of(socket.get());
    if (!identity) continue;
    Fd life = peer_pidfd(socket.get(), identity->pid);
    callers_.push_back({Connection(std::move(socket)), *identity, std::move(life),
                        Deadline::after(kHandshakeTime), Deadline::after(kTimeWhileFull), nullptr});
    GANTRY_STEP(producer_accepted);
  }
}

// Whatever goes wrong with a caller costs it its place here and nobody anything else. False: it
// has none any more.
bool Porter::hear(Caller& caller) {
  auto received = receive_wire(caller.connection.ears(), Deadline::now());
  if (!received || received->closed) return false;
  if (listener_ < 0 && !caller.connection.is_line()) return hear_line(caller, *received);
  if (!caller.end) return begin(caller, received->packet);
  const auto joined = caller.end->hear(caller.connection.mouth(), *received);
  if (joined && *joined) let_in(caller);
  return joined && !*joined;
}

// Who was given a line answers with one, and speaks through ours.
bool Porter::hear_line(Caller& caller, Received& received) {
  if (received.packet.kind != PacketKind::line || received.fds.size() != 1) return false;
  auto mouth = adopt_line(std::move(received.fds[0]), caller.identity);
  if (mouth) caller.connection.speak_through(std::move(*mouth));
  return mouth.has_value();
}

bool Porter::has_room() {
  const auto joining = std::count_if(callers_.begin(), callers_.end(),
                                     [](const Caller& caller) { return caller.end != nullptr; });
  const std::lock_guard lock(mutex_);
  return inside_.size() + static_cast<std::size_t>(joining) < rules_.producers;
}

// The order of a doorman's questions, and its reasons: Doorman::answer().
bool Porter::begin(Caller& caller, const WirePacket& hello) {
  const int socket = caller.connection.mouth();
  const auto turn_away = [socket](Code reason) {
    refuse(socket, reason);
    return false;
  };
  const Access& access = rules_.options.access;
  if (hello.kind != PacketKind::hello) return false;
  if (!admit_peer(socket, access)) return turn_away(Code::permission_denied);
  if (hello.purpose == Purpose::inspect) {
    static_cast<void>(send_status(socket, encode_status(describe())));
    return false;
  }
  if (hello.purpose != Purpose::deliver) return turn_away(Code::invalid_argument);
  if (!is_same_token(access, hello.token)) return turn_away(Code::permission_denied);
  if (!has_room()) return turn_away(Code::busy);
  auto end = Consumer::Impl::make_called(rules_.name, rules_.options);
  if (!end) return turn_away(end.error().code);
  if (!(*end)->ask_to_join(socket)) return false;
  caller.end = std::move(*end);
  GANTRY_STEP(producer_greeted);
  return true;
}

void Porter::let_in(Caller& caller) {
  if (!caller.end->settle(std::move(caller.connection), caller.identity, std::move(caller.life)))
    return;
  has_come_ = true;
  {
    const std::lock_guard lock(mutex_);
    inside_.push_back({caller.identity, monotonic_ns(), caller.end.get(), caller.end});
  }
  GANTRY_STEP(producer_let_in);
  announce({caller.identity, std::move(caller.end)});
}

void Porter::announce(Newcomer newcomer) {
  {
    const std::lock_guard lock(mutex_);
    newcomers_.push_back(std::move(newcomer));
  }
  ring(news_.get());
  GANTRY_STEP(newcomer_announced);
}

void Porter::forget(const Consumer::Impl& end) {
  const std::lock_guard lock(mutex_);
  std::erase_if(inside_, [&end](const Inside& one) { return one.which == &end; });
}

// The counters of a sender are those of its end here, which is ours.
ChannelStatus Porter::describe() {
  ChannelStatus status;
  status.is_inbox = true;
  const std::uint64_t now = monotonic_ns();
  const MetricsPage& counters = *MetricsMaker::page(*rules_.counters);
  const ClockPair start = counters.start;
  const double scale = ns_per_tick(start);
  status.age = std::chrono::nanoseconds(now - opened_ns_);
  status.producer = MetricsMaker::report(counters, scale);
  status.senders_limit = rules_.producers;
  const std::lock_guard lock(mutex_);
  for (const Inside& one : inside_) {
    const auto end = one.end.lock();
    if (end == nullptr) continue;
    const MetricsReport report = MetricsMaker::report(end->counters(), scale);
    SenderStatus& sender = status.senders.emplace_back();
    sender.pid = one.identity.pid;
    sender.uid = one.identity.uid;
    sender.joined = std::chrono::nanoseconds(now - one.joined_ns);
    sender.idle = sender.joined;  // which is as far back as it can have been, whatever a tick is
    if (report.messages != 0)
      sender.idle = std::min(sender.idle, std::chrono::nanoseconds(report.idle_ns));
    sender.messages = report.messages;
    sender.bytes = report.bytes;
  }
  return status;
}

}  // namespace gantry
