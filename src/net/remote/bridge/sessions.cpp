#include "net/remote/bridge/sessions.hpp"

#include <fcntl.h>
#include <sys/socket.h>

#include <gantry/call.hpp>

#include "core/base/event.hpp"
#include "core/base/result.hpp"
#include "core/channel/naming/rendezvous.hpp"
#include "net/remote/remote_step.hpp"
#include "net/remote/session/calls.hpp"
#include "net/remote/session/receiving_side.hpp"
#include "net/remote/session/sending_side.hpp"

namespace gantry {
namespace {

// An end here is opened by waiting that long again and again, so that the link is served meanwhile.
constexpr std::chrono::milliseconds kOpeningSlice{50};
// A channel may be full because of a consumer that is leaving, or of a call that was given up.
constexpr std::chrono::milliseconds kPlaceTime{500};
// What a caller takes to call again once it has noticed that its link broke.
constexpr std::chrono::milliseconds kCallingAgain{1000};

// How long a session's next connection may take: its caller may be the only one that has not
// noticed a cut. `patience`: the bridge's.
std::chrono::milliseconds patience_with(const RemoteRequest& request,
                                        std::chrono::milliseconds patience) noexcept {
  if (request.stall_limit.count() == 0) return patience;
  return std::max(request.stall_limit + kCallingAgain, patience);
}

}  // namespace

Result<std::unique_ptr<Sessions>> Sessions::make(Setup setup) {
  GANTRY_ASSIGN(Fd stop, make_event());
  return std::unique_ptr<Sessions>(new Sessions(std::move(setup), std::move(stop)));
}

void Sessions::stop() noexcept {
  ring(stop_.get());
  const std::lock_guard lock(mutex_);
  for (const auto& session : sessions_) session->changed.notify_all();
}

Result<std::shared_ptr<ServedSession>> Sessions::add(const SessionId& id,
                                                     const RemoteRequest& request,
                                                     std::chrono::milliseconds patience,
                                                     std::chrono::milliseconds stall_limit) {
  Fd ring;
  if (setup_.is_at_home) {
    GANTRY_ASSIGN(ring, make_event());
  }
  auto session = std::make_shared<ServedSession>(stop_.get(), std::move(ring), setup_.is_at_home);
  session->id = id;
  session->patience = patience;
  session->stall_limit = stall_limit;
  session->longer = patience_with(request, patience) - patience;
  const std::lock_guard lock(mutex_);
  if (sessions_.size() >= setup_.most)
    return fail(Code::busy, fmt::format("it has {} sessions", sessions_.size()),
                "start it with more: --sessions");
  sessions_.push_back(session);  // I1
  GANTRY_REMOTE_STEP(session_stored);
  return session;
}

void Sessions::forget(const std::shared_ptr<ServedSession>& session) noexcept {
  const std::lock_guard lock(mutex_);
  std::erase(sessions_, session);
  has_lost_ |= is_closing_ && session->is_lost;
  ended_.notify_all();
  GANTRY_REMOTE_STEP(session_erased);
}

Result<void> Sessions::serve(const std::shared_ptr<ServedSession>& session, Fd socket,
                             const RemoteRequest& request, const MayCallAgain& may_call) {
  auto served = guarded([&]() -> Result<void> {
    GANTRY_ASSIGN(auto link, make_link(*session, std::move(socket)));
    GANTRY_ASSIGN(auto side, open_side(*link, request, may_call));
    if (side == nullptr) return {};
    side->say_when_stopped(setup_.when_stopped);
    GANTRY_REMOTE_STEP(end_opened);
    GANTRY_TRY(
        link->send_control(say_number(RemoteKind::joined, 0), Deadline::after(kAdmissionTime)));
    GANTRY_REMOTE_STEP(session_joined);
    RemoteEnd end = carry(*session, *side, std::move(link));
    if (end.why.code == Code::closed) return {};
    return tl::unexpected(std::move(end.why));
  });
  forget(session);
  if (!served) return served;
  const std::lock_guard lock(mutex_);
  finished_.push_back(session->id);  // its last word may be lost with its link: its caller asks
  if (finished_.size() > kMostFinished) finished_.pop_front();
  return {};
}

// ---- opening ---------------------------------------------------------------------------------

// The place of a caller whose connection broke comes free when its patience is spent.
bool Sessions::keeps_places() {
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(sessions_, [](const auto& session) { return session->waits; });
}

/// Counts who waits for a place that a broken session may have.
class Sessions::Successor {
 public:
  explicit Successor(Sessions& sessions) : sessions_(sessions) {}
  Successor(const Successor&) = delete;
  Successor& operator=(const Successor&) = delete;
  ~Successor() { count(-1); }

  void waits() {
    if (!waits_) count(1);
  }

 private:
  void count(int more) {
    if (more < 0 && !waits_) return;
    const std::lock_guard lock(sessions_.mutex_);
    waits_ = more > 0;
    sessions_.successors_ += more;
    for (const auto& session : sessions_.sessions_) session->changed.notify_all();
  }

  Sessions& sessions_;
  bool waits_ = false;
};

// Waits a little for it.
bool Sessions::has_owner(const std::string& name) const {
  const auto owner = find_producer(setup_.directory, name, -1, Deadline::after(kOpeningSlice));
  return owner || owner.error().code != Code::timed_out;
}

// Waits until there is a channel to join. Null: the caller has left, or was told why not.
Result<std::unique_ptr<RemoteSide>> Sessions::open_side(Link& link, const RemoteRequest& request,
                                                        const MayCallAgain& may_call) {
  const Deadline place = Deadline::after(kPlaceTime);
  const auto say_to_caller = [&link](ConstByteSpan record) {
    static_cast<void>(link.send_control(record, Deadline::after(kAdmissionTime)));
    link.close();
    return nullptr;
  };
  Successor successor(*this);
  for (bool was_absent = may_call != nullptr;;) {
    Result<std::unique_ptr<RemoteSide>> side = fail(Code::timed_out, {});
    if (!was_absent || has_owner(request.channel)) {
      if (std::exchange(was_absent, false) && may_call())
        return say_to_caller(say_number(RemoteKind::again, 0));
      side = open_end(request, Deadline::after(kOpeningSlice));
    }
    if (side) return side;
    const Code code = side.error().code;
    const bool is_full = (request.role == RemoteRole::consume && code == Code::already_exists) ||
                         (request.role == RemoteRole::call && code == Code::busy);
    if (is_full && (!place.passed() || keeps_places())) {
      successor.waits();
      sleep_on({link.descriptor(), stop_.get()}, kOpeningSlice);
    } else if (code != Code::timed_out) {
      return say_to_caller(say_error(RemoteKind::stopped, side.error()));
    } else if (setup_.is_at_home) {
      return say_to_caller(say_number(RemoteKind::again, 0));
    }
    link.poll();
    if (!link.state()) return nullptr;
    if (is_readable(stop_.get())) {
      end_session(link, RemoteKind::stopped, setup_.when_stopped);
      return nullptr;
    }
  }
}

Result<std::unique_ptr<RemoteSide>> Sessions::open_end(const RemoteRequest& request,
                                                       Deadline deadline) {
  EndOptions shared;
  shared.directory = setup_.directory;
  shared.acceptor = setup_.acceptor;
  shared.acts_for = request.who;
  if (request.role == RemoteRole::consume) {
    ConsumerOptions options{shared};
    options.when_slow = request.when_slow;
    options.depth = request.depth;
    GANTRY_ASSIGN(Consumer consumer, Consumer::open(request.channel, options, deadline));
    return std::make_unique<SendingSide>(std::move(consumer));
  }
  if (request.role == RemoteRole::call) {
    ClientOptions options{shared, {}};
    options.slots = std::max(request.slots, 1u);
    GANTRY_ASSIGN(Pool pool, Pool::create());
    options.memory = pool;
    GANTRY_ASSIGN(Client client,
                  Client::connect(request.channel, options, setup_.engine, deadline));
    return std::make_unique<CallsSide>(
        std::make_shared<CallsMade>(std::move(client), std::move(pool)));
  }
  ProducerOptions options{shared, {}};
  options.slots = std::max(request.slots, 1u);
  options.consumers = std::max(request.consumers, 1u);
  auto producer = request.role == RemoteRole::deliver
                      ? Producer::connect(request.channel, options, setup_.engine, deadline)
                      : Producer::open(request.channel, options, setup_.engine);
  if (!producer) return tl::unexpected(std::move(producer).error());
  return std::make_unique<ReceivingSide>(*std::move(producer));
}

// ---- one link after the other ------------------------------------------------------------------

RemoteEnd Sessions::carry(ServedSession& session, RemoteSide& side, std::unique_ptr<Link> link) {
  for (std::uint64_t received = 0;;) {
    RemoteEnd end = session.turns.run(side, std::move(link), received);
    if (end.kind != RemoteEnd::Kind::broken) return end;
    say(fmt::format("{}: a connection broke: {}", session.caller, end.why.message));
    GANTRY_REMOTE_STEP(session_broken);
    const auto broke = std::chrono::steady_clock::now();
    do {
      auto socket = await_next(session, side.received(), received);
      if (!socket) {
        session.is_lost = !is_readable(stop_.get()) && side.time_to_settle().count() != 0;
        return end;
      }
      auto next = make_link(session, *std::move(socket));
      link = next ? *std::move(next) : nullptr;  // null: that one broke, too
      GANTRY_REMOTE_STEP(session_went_on);
    } while (link == nullptr);
    const std::chrono::duration<double> away = std::chrono::steady_clock::now() - broke;
    say(fmt::format("{}: is back again, after {:.1f} s", session.caller, away.count()));
  }
}

std::optional<Fd> Sessions::await_next(ServedSession& session, std::uint64_t received_here,
                                       std::uint64_t& received_there) {
  std::unique_lock lock(mutex_);
  session.received = received_here;
  session.waits = true;
  const auto is_over = [&] { return session.next.has_value() || is_readable(stop_.get()); };
  // Beyond the patience for a caller that may not have noticed yet, unless its place is wanted. A
  // caller may give itself more time than the bridge does: close() does not wait for that.
  const auto is_wanted = [&] { return is_over() || successors_ > 0; };
  const auto usual = std::min(session.longer, session.stall_limit);
  if (!session.changed.wait_for(lock, session.patience, is_over) &&
      !session.changed.wait_for(lock, usual, is_wanted))
    session.changed.wait_for(lock, session.longer - usual,
                             [&] { return is_wanted() || is_closing_; });
  session.waits = false;
  received_there = session.next_received;
  return std::exchange(session.next, std::nullopt);
}

bool Sessions::knows(const SessionId& id) {
  const std::lock_guard lock(mutex_);
  return std::ranges::find(finished_, id) != finished_.end() ||
         std::ranges::any_of(sessions_, [&](const auto& session) { return session->id == id; });
}

// The caller may know of a broken link before this end does; then the old one is given up, and the
// caller asks again.
std::shared_ptr<ServedSession> Sessions::claim(const SessionId& id, RemoteAnswer& answer,
                                               std::uint64_t& claim) {
  const std::lock_guard lock(mutex_);
  const auto found =
      std::ranges::find_if(sessions_, [&](const auto& session) { return session->id == id; });
  if (std::ranges::find(finished_, id) != finished_.end()) {
    answer.refusal = Error{Code::closed, "all of it has been received", {}};
  } else if (found == sessions_.end()) {
    answer.refusal =
        Error{Code::permission_denied, "it knows of no such session (any more)",
              fmt::format("the {} was started anew, or the connection was broken for too long",
                          setup_.is_at_home ? "channel's process" : "bridge")};
  } else if (!(*found)->waits) {
    ::shutdown((*found)->socket.get(), SHUT_RDWR);
    answer.refusal = Error{Code::busy, "it had not noticed that the connection broke", {}};
  } else {
    (*found)->next.reset();  // I2
    claim = ++(*found)->claim;
    answer.received = (*found)->received;
    return *found;
  }
  return nullptr;
}

void Sessions::go_on(ServedSession& session, std::uint64_t claim, Fd socket,
                     const std::string& peer, RemotePath path, std::uint64_t received) {
  GANTRY_REMOTE_STEP(session_claimed);
  const std::lock_guard lock(mutex_);
  if (session.claim != claim) return;  // I2: a later connection came for it meanwhile
  session.next = std::move(socket);
  session.peer = peer;
  session.path = path;
  session.next_received = received;
  session.changed.notify_all();
  GANTRY_REMOTE_STEP(link_handed_over);
}

Result<std::unique_ptr<Link>> Sessions::make_link(ServedSession& session, Fd socket) {
  Fd copy(::fcntl(socket.get(), F_DUPFD_CLOEXEC, 0));
  if (!copy) return fail_errno("dup");
  RemotePath path{};
  std::string peer;
  {
    const std::lock_guard lock(mutex_);
    peer = session.peer;
    session.socket = std::move(copy);
    path = session.path;
  }
  return link_over(path, std::move(socket), setup_.engine, {peer, session.stall_limit});
}

// ---- at home -----------------------------------------------------------------------------------

void Sessions::has_sent(Bytes bytes) noexcept {
  const std::lock_guard lock(mutex_);
  for (const auto& session : sessions_) session->turns.has_sent(bytes <= kMostDriven);
}

Result<void> Sessions::await_present(Deadline deadline, int interrupt) {
  constexpr std::chrono::milliseconds kLook{20};  // whether the caller was interrupted
  std::unique_lock lock(mutex_);
  is_closing_ = true;
  for (const auto& session : sessions_) session->changed.notify_all();
  std::vector<SessionId> awaited;  // others come meanwhile, and hear the end at once
  for (const auto& session : sessions_) awaited.push_back(session->id);
  const auto is_awaited = [&](const auto& session) {
    return std::ranges::find(awaited, session->id) != awaited.end();
  };
  while (std::ranges::any_of(sessions_, is_awaited)) {
    if (is_readable(interrupt)) return fail(Code::interrupted, "interrupted");
    if (deadline.passed())
      return fail(Code::timed_out, "not all of it has been received on other hosts");
    ended_.wait_for(lock, std::min<std::chrono::nanoseconds>(deadline.left(), kLook));
  }
  if (has_lost_)
    return fail(Code::peer_gone, "a caller of another host is gone, and has not received all");
  return {};
}

}  // namespace gantry
