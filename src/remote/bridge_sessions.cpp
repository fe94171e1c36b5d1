// The bridge's sessions: who is let in, over which link, what end is opened for it.
#include "base/event.hpp"
#include "base/result.hpp"
#include "remote/bridge.hpp"
#include "remote/call_ends.hpp"
#include "remote/calls_side.hpp"
#include "remote/receiving_side.hpp"
#include "remote/remote_step.hpp"
#include "remote/sending_side.hpp"

namespace gantry {
namespace {

// An end here is opened by waiting that long again and again, so that the link is served meanwhile.
constexpr std::chrono::milliseconds kOpeningSlice{50};
// A channel may be full because of a consumer that is leaving, or of a call that was given up.
constexpr std::chrono::milliseconds kPlaceTime{500};
// What a caller takes to call again once it has noticed that its link broke.
constexpr std::chrono::milliseconds kCallingAgain{1000};

Error bridge_ended() {
  return {Code::peer_gone, "the bridge there was ended by its user",
          "start it again: gantry bridge"};
}

}  // namespace

Result<void> Bridge::Impl::serve_session(Fd socket, const std::string& peer,
                                         const std::string& caller, Admission& admission,
                                         const RemoteRequest& request) {
  const Deadline soon = Deadline::after(kAdmissionTime);
  auto session = std::make_shared<Session>();
  session->peer = peer;
  session->caller = caller;
  if (request.stall_limit.count() > 0)  // a cut that only this end notices
    session->longer = std::max(request.stall_limit + kCallingAgain - options_.patience,
                               std::chrono::milliseconds(0));
  {
    const std::lock_guard lock(mutex_);
    if (sessions_.size() >= options_.sessions) {
      RemoteAnswer refused;
      refused.refusal = Error{Code::busy, fmt::format("it has {} sessions", sessions_.size()),
                              "start it with more: --sessions"};
      GANTRY_TRY(admission.answer(refused, soon));
      refused.refusal->message = "refused: " + refused.refusal->message;
      return tl::unexpected(*std::move(refused.refusal));
    }
    const Nonce random = make_nonce();
    std::copy_n(random.begin(), session->id.size(), session->id.begin());
    sessions_.push_back(session);  // I1
    GANTRY_REMOTE_STEP(session_stored);
  }
  const auto served = guarded([&]() -> Result<void> {
    RemoteAnswer welcome;
    welcome.session = session->id;
    answer_path(request.paths, {socket.get(), listener_.is_encrypted()}, welcome);
    GANTRY_TRY(admission.answer(welcome, soon));
    if (welcome.refusal) return tl::unexpected(*welcome.refusal);
    session->path = welcome.path;
    GANTRY_REMOTE_STEP(session_welcomed);
    GANTRY_ASSIGN(auto link, make_link(*session, std::move(socket)));
    GANTRY_ASSIGN(auto side, open_side(*link, request));
    if (side == nullptr) return {};
    side->say_when_stopped(bridge_ended());
    GANTRY_REMOTE_STEP(end_opened);
    GANTRY_TRY(link->send_control(say_number(RemoteKind::joined, 0), soon));
    GANTRY_REMOTE_STEP(session_joined);
    RemoteEnd end = carry(*session, *side, std::move(link), 0);
    if (end.why.code == Code::closed) return {};
    return tl::unexpected(std::move(end.why));
  });
  const std::lock_guard lock(mutex_);
  std::erase(sessions_, session);
  GANTRY_REMOTE_STEP(session_erased);
  if (served) note_finished(session->id);
  return served;
}

// The place of a caller whose connection broke comes free when its patience is spent.
bool Bridge::Impl::keeps_places() {
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(sessions_, [](const auto& session) { return session->waits; });
}

/// Counts who waits for a place that a broken session may have.
class Bridge::Impl::Successor {
 public:
  explicit Successor(Impl& bridge) : bridge_(bridge) {}
  Successor(const Successor&) = delete;
  Successor& operator=(const Successor&) = delete;
  ~Successor() { count(-1); }

  void waits() {
    if (!waits_) count(1);
  }

 private:
  void count(int more) {
    if (more < 0 && !waits_) return;
    const std::lock_guard lock(bridge_.mutex_);
    waits_ = more > 0;
    bridge_.successors_ += more;
    for (const auto& session : bridge_.sessions_) session->changed.notify_all();
  }

  Impl& bridge_;
  bool waits_ = false;
};

// Waits until there is a channel to join. Null: the caller has left, or was told why not.
Result<std::unique_ptr<RemoteSide>> Bridge::Impl::open_side(Link& link,
                                                            const RemoteRequest& request) {
  const Deadline place = Deadline::after(kPlaceTime);
  Successor successor(*this);
  for (;;) {
    auto side = open_end(request, Deadline::after(kOpeningSlice));
    if (side) return side;
    const Code code = side.error().code;
    const bool is_full = (request.role == RemoteRole::consume && code == Code::already_exists) ||
                         (request.role == RemoteRole::call && code == Code::busy);
    if (is_full && (!place.passed() || keeps_places())) {
      successor.waits();
      sleep_on({link.descriptor(), stop_.get()}, kOpeningSlice);
    } else if (code != Code::timed_out) {
      static_cast<void>(link.send_control(say_error(RemoteKind::stopped, side.error()),
                                          Deadline::after(kAdmissionTime)));
      link.close();
      return nullptr;
    }
    link.poll();
    if (!link.state()) return nullptr;
    if (is_readable(stop_.get())) {
      end_session(link, RemoteKind::stopped, bridge_ended());
      return nullptr;
    }
  }
}

Result<std::unique_ptr<RemoteSide>> Bridge::Impl::open_end(const RemoteRequest& request,
                                                           Deadline deadline) {
  EndOptions shared;
  shared.directory = options_.directory;
  shared.acceptor = acceptor_;
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
    GANTRY_ASSIGN(Client client, Client::connect(request.channel, options, engine_, deadline));
    return std::make_unique<CallsSide>(
        std::make_shared<CallsMade>(std::move(client), std::move(pool)));
  }
  ProducerOptions options{shared, {}};
  options.slots = std::max(request.slots, 1u);
  options.consumers = std::max(request.consumers, 1u);
  auto producer = request.role == RemoteRole::deliver
                      ? Producer::connect(request.channel, options, engine_, deadline)
                      : Producer::open(request.channel, options, engine_);
  if (!producer) return tl::unexpected(std::move(producer).error());
  return std::make_unique<ReceivingSide>(*std::move(producer));
}

RemoteEnd Bridge::Impl::carry(Session& session, RemoteSide& side, std::unique_ptr<Link> link,
                              std::uint64_t received) {
  for (;;) {
    RemoteEnd end = SharedTurns(stop_.get()).run(side, std::move(link), received);
    if (end.kind != RemoteEnd::Kind::broken) return end;
    say(fmt::format("{}: a connection broke: {}", session.caller, end.why.message));
    GANTRY_REMOTE_STEP(session_broken);
    const auto broke = std::chrono::steady_clock::now();
    do {
      auto socket = await_next(session, side.received(), received);
      if (!socket) return end;
      auto next = make_link(session, *std::move(socket));
      link = next ? *std::move(next) : nullptr;  // null: that one broke, too
      GANTRY_REMOTE_STEP(session_went_on);
    } while (link == nullptr);
    const std::chrono::duration<double> away = std::chrono::steady_clock::now() - broke;
    say(fmt::format("{}: is back again, after {:.1f} s", session.caller, away.count()));
  }
}

std::optional<Fd> Bridge::Impl::await_next(Session& session, std::uint64_t received_here,
                                           std::uint64_t& received_there) {
  std::unique_lock lock(mutex_);
  session.received = received_here;
  session.waits = true;
  const auto is_over = [&] { return session.next.has_value() || is_readable(stop_.get()); };
  // Beyond the patience for a caller that may not have noticed yet, unless its place is wanted.
  if (!session.changed.wait_for(lock, options_.patience, is_over))
    session.changed.wait_for(lock, session.longer, [&] { return is_over() || successors_ > 0; });
  session.waits = false;
  received_there = session.next_received;
  return std::exchange(session.next, std::nullopt);
}

// The caller may know of a broken link before this end does; then the old one is given up, and the
// caller asks again.
Result<void> Bridge::Impl::go_on(Fd socket, const std::string& peer, Admission& admission,
                                 const RemoteRequest& request) {
  RemoteAnswer answer;
  answer.session = request.session;
  std::uint64_t claim = 0;
  const std::shared_ptr<Session> session = claim_waiting(request.session, answer, claim);
  if (session) answer_path(request.paths, {socket.get(), listener_.is_encrypted()}, answer);
  GANTRY_TRY(admission.answer(answer, Deadline::after(kAdmissionTime)));
  if (answer.refusal) return {};
  GANTRY_REMOTE_STEP(session_claimed);
  const std::lock_guard lock(mutex_);
  if (session->claim != claim) return {};  // a later connection came for it meanwhile
  session->next = std::move(socket);
  session->peer = peer;
  session->path = answer.path;
  session->next_received = request.received;
  session->changed.notify_all();
  GANTRY_REMOTE_STEP(link_handed_over);
  return {};
}

std::shared_ptr<Bridge::Impl::Session> Bridge::Impl::claim_waiting(const SessionId& id,
                                                                   RemoteAnswer& answer,
                                                                   std::uint64_t& claim) {
  const std::lock_guard lock(mutex_);
  const auto found =
      std::ranges::find_if(sessions_, [&](const auto& session) { return session->id == id; });
  if (std::ranges::find(finished_, id) != finished_.end()) {
    answer.refusal = Error{Code::closed, "all of it has been received", {}};
  } else if (found == sessions_.end()) {
    answer.refusal =
        Error{Code::permission_denied, "it knows of no such session (any more)",
              "the bridge was started anew, or the connection was broken for too long"};
  } else if (!(*found)->waits) {
    ::shutdown((*found)->socket.get(), SHUT_RDWR);
    answer.refusal = Error{Code::busy, "it had not noticed that the connection broke", {}};
  } else {
    (*found)->next.reset();  // I3
    claim = ++(*found)->claim;
    answer.received = (*found)->received;
    return *found;
  }
  return nullptr;
}

Result<std::unique_ptr<Link>> Bridge::Impl::make_link(Session& session, Fd socket) {
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
  return link_over(path, std::move(socket), engine_, {peer, options_.stall_limit});
}

}  // namespace gantry
