// The gateway behind Bridge: who is let in, over which link, what end is opened for it.

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <condition_variable>
#include <gantry/bridge.hpp>
#include <gantry/runtime.hpp>
#include <list>
#include <mutex>
#include <thread>

#include "core/base/event.hpp"
#include "core/base/moved_from.hpp"
#include "core/base/os/worker_thread.hpp"
#include "core/base/result.hpp"
#include "core/base/text_lines.hpp"
#include "net/remote/admission.hpp"
#include "net/remote/listing.hpp"
#include "net/remote/remote_step.hpp"
#include "net/remote/session/calls.hpp"
#include "net/remote/session/receiving_side.hpp"
#include "net/remote/session/sending_side.hpp"
#include "net/remote/tls.hpp"

namespace gantry {
namespace {

constexpr std::chrono::milliseconds kBetweenReaps{500};
constexpr std::chrono::seconds kSilence{1};

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

/// Listens, admits and serves. A thread a connection, which admits it first. Of a stranger nothing
/// is kept but a socket and a thread, for a few seconds; of too many strangers the oldest goes.
///   I1  A session is in sessions_ while its thread works for it or waits for its next link.
///   I2  strangers_ counts the connections that are not admitted yet; at most kMostStrangers.
///   I3  What a connection was told of a session's progress holds until the session runs over that
///       connection, or another one has come for it.
class GANTRY_LOCAL Bridge::Impl {
 public:
  static constexpr std::size_t kMostStrangers = 32;

  [[nodiscard]] static Result<std::unique_ptr<Impl>> make(const BridgeOptions& options,
                                                          std::shared_ptr<Engine> engine);
  ~Impl();
  [[nodiscard]] std::string address() const { return listener_.address(); }
  [[nodiscard]] Result<void> serve();

 private:
  static constexpr std::size_t kMostFinished = 1024;
  struct Connection {
    Fd socket;
    std::thread thread;
    std::atomic<bool> is_over = false;
    bool is_stranger = true;  // under the lock
  };
  /// A session that a later connection may go on with.
  struct Session {
    SessionId id{};
    Fd socket;                             // a copy of the present link's
    std::string peer;                      // of the next link
    std::string caller;                    // as the lines of on_event call it
    std::optional<Fd> next;                // a socket that came for it
    RemotePath path = RemotePath::stream;  // of the next link
    std::uint64_t next_received = 0;
    std::uint64_t claim = 0;     // of the latest connection that came for it
    std::uint64_t received = 0;  // what the receiving side here has
    bool waits = false;          // its link is broken
    /// What it waits beyond the bridge's patience for its caller to notice.
    std::chrono::milliseconds longer{0};
    std::condition_variable changed;
  };

  class Successor;

  explicit Impl(const BridgeOptions& options, std::shared_ptr<Engine> engine,
                BridgeListener listener, Fd stop);
  void take_connection(Fd socket);
  void drop_oldest_stranger();
  void reap();
  void serve_connection(Connection& connection) noexcept;
  [[nodiscard]] Result<void> admit_and_serve(Connection& connection);
  [[nodiscard]] Result<void> show(int socket, Admission& admission) const;
  /// The connection's socket, under whatever it is encrypted with. Errors: those of
  /// TlsSession::as_bridge().
  [[nodiscard]] Result<void> encrypt(Connection& connection, Deadline deadline);
  [[nodiscard]] Result<void> serve_session(Fd socket, const std::string& peer,
                                           const std::string& caller, Admission& admission,
                                           const RemoteRequest& request);
  [[nodiscard]] Result<void> go_on(Fd socket, const std::string& peer, Admission& admission,
                                   const RemoteRequest& request);
  [[nodiscard]] Result<std::unique_ptr<RemoteSide>> open_side(Link& link,
                                                              const RemoteRequest& request);
  [[nodiscard]] Result<std::unique_ptr<RemoteSide>> open_end(const RemoteRequest& request,
                                                             Deadline deadline);
  [[nodiscard]] RemoteEnd carry(Session& session, RemoteSide& side, std::unique_ptr<Link> link,
                                std::uint64_t received);
  [[nodiscard]] bool keeps_places();
  /// The last word of a session may be lost with its link; its caller then asks.
  void note_finished(const SessionId& id) {
    finished_.push_back(id);
    if (finished_.size() > kMostFinished) finished_.pop_front();
  }
  /// Null: `answer` says why not.
  [[nodiscard]] std::shared_ptr<Session> claim_waiting(const SessionId& id, RemoteAnswer& answer,
                                                       std::uint64_t& claim);
  /// Waits for a socket that goes on with the session; nothing comes once its patience is spent.
  [[nodiscard]] std::optional<Fd> await_next(Session& session, std::uint64_t received_here,
                                             std::uint64_t& received_there);
  [[nodiscard]] Result<std::unique_ptr<Link>> make_link(Session& session, Fd socket);
  void say(const std::string& line) const {
    if (options_.on_event) options_.on_event(line);
  }

  const BridgeOptions options_;
  const std::shared_ptr<Engine> engine_;
  const std::shared_ptr<DetachedThreads> carriers_ = std::make_shared<DetachedThreads>();
  std::shared_ptr<Acceptor> acceptor_;
  BridgeListener listener_;
  Fd stop_;  // an event: readable from the end on

  std::mutex mutex_;  // guards what follows
  std::list<Connection> connections_;
  std::list<std::shared_ptr<Session>> sessions_;
  std::deque<SessionId> finished_;  // the latest that came to their regular end
  std::size_t strangers_ = 0;
  int successors_ = 0;  // callers that wait for a place
};

Result<std::unique_ptr<Bridge::Impl>> Bridge::Impl::make(const BridgeOptions& options,
                                                         std::shared_ptr<Engine> engine) {
  GANTRY_TRY(check_token(options.token));
  if (options.listen.empty())
    return fail(Code::invalid_argument, "a bridge needs an address to listen on",
                "127.0.0.1 for this host alone, 0.0.0.0 for all of its addresses");
  if (options.sessions == 0)
    return fail(Code::invalid_argument, "a bridge for 0 sessions serves nobody");
  BridgeOptions checked = options;
  GANTRY_ASSIGN(checked.directory, channel_directory(options.directory));
  GANTRY_ASSIGN(const HostPort where, parse_host(options.listen));
  GANTRY_ASSIGN(BridgeListener listener, BridgeListener::open(where, options.interrupt_descriptor));
  GANTRY_ASSIGN(Fd stop, make_event());
  std::unique_ptr<Impl> impl(
      new Impl(checked, std::move(engine), std::move(listener), std::move(stop)));
  GANTRY_ASSIGN(impl->acceptor_, make_acceptor());
  return impl;
}

Bridge::Impl::Impl(const BridgeOptions& options, std::shared_ptr<Engine> engine,
                   BridgeListener listener, Fd stop)
    : options_(options),
      engine_(std::move(engine)),
      listener_(std::move(listener)),
      stop_(std::move(stop)) {}

Bridge::Impl::~Impl() {
  ring(stop_.get());
  {
    const std::lock_guard lock(mutex_);
    for (const auto& session : sessions_) session->changed.notify_all();
    for (Connection& connection : connections_)
      if (connection.is_stranger) ::shutdown(connection.socket.get(), SHUT_RDWR);
  }
  for (Connection& connection : connections_) {
    if (connection.thread.joinable()) connection.thread.join();
  }
  carriers_->await_end();
}

// ---- connections ---------------------------------------------------------------------------

Result<void> Bridge::Impl::serve() {
  for (;;) {
    std::array<pollfd, 2> entries{pollfd{listener_.get(), POLLIN, 0},
                                  pollfd{options_.interrupt_descriptor, POLLIN, 0}};
    const int ready =
        ::poll(entries.data(), entries.size(), static_cast<int>(kBetweenReaps.count()));
    if (ready < 0 && errno != EINTR) return fail_errno("poll");
    reap();
    if (entries[1].revents != 0) return {};
    if (ready <= 0 || entries[0].revents == 0) continue;
    Fd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket) {
      take_connection(std::move(socket));
    } else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
      say(fmt::format("cannot take a connection: {}", std::generic_category().message(errno)));
      sleep_on({options_.interrupt_descriptor}, kBetweenReaps);  // until one has ended
    }
  }
}

void Bridge::Impl::take_connection(Fd socket) {
  set_up_tcp(socket.get());
  const auto taken = guarded([&]() -> Result<void> {
    const std::lock_guard lock(mutex_);
    if (strangers_ >= kMostStrangers) drop_oldest_stranger();
    Connection& connection = connections_.emplace_back();
    connection.socket = std::move(socket);
    ++strangers_;  // I2
    auto thread = start_thread("a thread for a connection",
                               [this, &connection] { serve_connection(connection); });
    if (thread) {
      connection.thread = *std::move(thread);
      return {};
    }
    --strangers_;
    connections_.pop_back();
    return tl::unexpected(std::move(thread).error());
  });
  if (!taken) say(to_string(taken.error()));
}

// Its thread sees the end of the connection.
void Bridge::Impl::drop_oldest_stranger() {
  for (Connection& connection : connections_) {
    if (!connection.is_stranger || connection.is_over) continue;
    ::shutdown(connection.socket.get(), SHUT_RDWR);
    connection.is_stranger = false;
    --strangers_;
    return;
  }
}

void Bridge::Impl::reap() {
  std::list<Connection> ended;
  {
    const std::lock_guard lock(mutex_);
    for (auto one = connections_.begin(); one != connections_.end();) {
      const auto next = std::next(one);
      if (one->is_over) ended.splice(ended.end(), connections_, one);
      one = next;
    }
  }
  for (Connection& connection : ended) connection.thread.join();
}

void Bridge::Impl::serve_connection(Connection& connection) noexcept {
  const auto served = guarded([&] { return admit_and_serve(connection); });
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(connection.is_stranger, false)) --strangers_;
    connection.socket.reset();
  }
  if (!served)
    static_cast<void>(guarded([&]() -> Result<void> {
      say(to_string(served.error()));
      return {};
    }));
  connection.is_over = true;
}

Result<void> Bridge::Impl::admit_and_serve(Connection& connection) {
  const std::string peer = peer_address(connection.socket.get());
  std::string caller = peer;
  const auto of_caller = [&](Error error) { return prefixed(std::move(error), "{}", caller); };
  const Deadline soon = Deadline::after(kAdmissionTime);
  if (listener_.is_encrypted()) {
    auto encrypted = encrypt(connection, soon);
    if (!encrypted) return of_caller(std::move(encrypted).error());
  }
  Admission admission(connection.socket.get(), options_.token);
  auto request = admission.hear(soon);
  if (!request) return of_caller(std::move(request).error());
  Fd socket;
  {
    const std::lock_guard lock(mutex_);
    if (!std::exchange(connection.is_stranger, false))
      return fail(Code::busy, fmt::format("{}: too many others called meanwhile", caller));
    --strangers_;
    socket = std::move(connection.socket);
  }
  GANTRY_REMOTE_STEP(caller_admitted);
  if (request->role == RemoteRole::look) return show(socket.get(), admission);
  if (const std::string who = request->who.text(); !who.empty())
    caller += fmt::format(" ({} of {})", who, request->who.host);
  caller += fmt::format(" {} '{}'", verb_of(request->role), request->channel);
  if (request->session != SessionId{}) {
    auto went_on = go_on(std::move(socket), peer, admission, *request);
    if (!went_on) return of_caller(std::move(went_on).error());
    return {};
  }
  say(caller);
  auto served = serve_session(std::move(socket), peer, caller, admission, *request);
  if (!served) return of_caller(std::move(served).error());
  say(caller + ": has left");
  return {};
}

// A caller that speaks TLS says something at once.
Result<void> Bridge::Impl::encrypt(Connection& connection, Deadline deadline) {
  const int socket = connection.socket.get();
  const bool is_silent = !await_socket(socket, POLLIN, -1, Deadline::after(kSilence));
  if (is_silent) say_encrypts(socket);
  auto session = TlsSession::as_bridge(socket, options_.token, deadline);
  if (!session && is_silent)
    return fail(session.error().code, "a caller that does not encrypt: it has to say tls:HOST");
  if (!session && session.error().code == Code::permission_denied)
    return fail(Code::permission_denied, "a caller with another token, or somebody on the way");
  if (!session) return tl::unexpected(std::move(session).error());
  const std::lock_guard lock(mutex_);  // whoever drops it as a stranger takes its socket
  GANTRY_ASSIGN(connection.socket,
                std::move(*session).carry(std::move(connection.socket), carriers_));
  return {};
}

Result<void> Bridge::Impl::show(int socket, Admission& admission) const {
  const Deadline soon = Deadline::after(kAdmissionTime);
  GANTRY_TRY(admission.answer({}, soon));
  return send_listing(socket, options_.directory, soon);
}

// ---- sessions ------------------------------------------------------------------------------

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

// ---- the public face -----------------------------------------------------------------------

Bridge::Bridge(std::unique_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}
Bridge::Bridge(Bridge&&) noexcept = default;
Bridge& Bridge::operator=(Bridge&&) noexcept = default;
Bridge::~Bridge() = default;

Result<Bridge> Bridge::open(const BridgeOptions& options, std::shared_ptr<Engine> engine) {
  return guarded([&]() -> Result<Bridge> {
    GANTRY_ASSIGN(auto impl, Impl::make(options, std::move(engine)));
    return Bridge(std::move(impl));
  });
}

std::string Bridge::address() const {
  return impl_ ? impl_->address() : std::string();
}

Result<void> Bridge::serve() {
  return guarded_on(impl_, "Bridge", [&] { return impl_->serve(); });
}

}  // namespace gantry
