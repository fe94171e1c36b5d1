// The gateway behind Bridge: who is let in, over which link, what end is opened for it.

#include <poll.h>
#include <sys/socket.h>

#include <atomic>
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
#include "net/remote/bridge/hand_over.hpp"
#include "net/remote/bridge/sessions.hpp"
#include "net/remote/listing.hpp"
#include "net/remote/remote_step.hpp"
#include "net/remote/tls.hpp"

namespace gantry {
namespace {

constexpr std::chrono::milliseconds kBetweenReaps{500};
constexpr std::chrono::seconds kSilence{1};

Error bridge_ended() {
  return {Code::peer_gone, "the bridge there was ended by its user",
          "start it again: gantry bridge"};
}

}  // namespace

/// Listens, admits and serves. A thread a connection, which admits it first. Of a stranger nothing
/// is kept but a socket and a thread, for a few seconds; of too many strangers the oldest goes.
/// A caller's connection then goes to the process whose channel it is, if that takes it (HandOver);
/// otherwise the session is served here.
///   I1  strangers_ counts the connections that are not admitted yet; at most kMostStrangers.
class GANTRY_LOCAL Bridge::Impl {
 public:
  static constexpr std::size_t kMostStrangers = 32;

  [[nodiscard]] static Result<std::unique_ptr<Impl>> make(const BridgeOptions& options,
                                                          std::shared_ptr<Engine> engine);
  ~Impl();
  [[nodiscard]] std::string address() const { return listener_.address(); }
  [[nodiscard]] Result<void> serve();

 private:
  struct Connection {
    Fd socket;
    std::thread thread;
    std::atomic<bool> is_over = false;
    bool is_stranger = true;  // under the lock
  };
  explicit Impl(const BridgeOptions& options, std::unique_ptr<Sessions> sessions,
                BridgeListener listener);
  void take_connection(Fd socket);
  void drop_oldest_stranger();
  void reap();
  void serve_connection(Connection& connection) noexcept;
  [[nodiscard]] Result<void> admit_and_serve(Connection& connection);
  [[nodiscard]] Result<void> show(int socket, Admission& admission) const;
  /// The connection's socket, under whatever it is encrypted with. Errors: those of
  /// TlsSession::as_bridge().
  [[nodiscard]] Result<void> encrypt(Connection& connection, Deadline deadline);
  [[nodiscard]] Result<void> begin(Fd socket, const std::string& peer, const std::string& caller,
                                   Admission& admission, const RemoteRequest& request);
  [[nodiscard]] Result<void> go_on(Fd socket, const std::string& peer, Admission& admission,
                                   const RemoteRequest& request);
  [[nodiscard]] HandOffer offer_of(const RemoteRequest& request, const std::string& peer) const;
  /// Why a caller is served here; empty: its channel's process may take it.
  [[nodiscard]] std::string_view why_here(const RemoteRequest& request, RemotePath path) const;
  /// Errors: the connection has ended.
  [[nodiscard]] Result<void> hand_over(const HandOver& to, Fd socket, Admission& admission,
                                       RemoteAnswer answer) const;
  void say(const std::string& line) const {
    if (options_.on_event) options_.on_event(line);
  }

  const BridgeOptions options_;
  const std::shared_ptr<DetachedThreads> carriers_ = std::make_shared<DetachedThreads>();
  const std::unique_ptr<Sessions> sessions_;
  BridgeListener listener_;

  std::mutex mutex_;  // guards what follows
  std::list<Connection> connections_;
  std::size_t strangers_ = 0;
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
  Sessions::Setup setup;
  setup.directory = checked.directory;
  GANTRY_ASSIGN(setup.acceptor, make_acceptor());
  setup.engine = std::move(engine);
  setup.most = checked.sessions;
  setup.on_event = checked.on_event;
  setup.when_stopped = bridge_ended();
  GANTRY_ASSIGN(auto sessions, Sessions::make(std::move(setup)));
  return std::unique_ptr<Impl>(new Impl(checked, std::move(sessions), std::move(listener)));
}

Bridge::Impl::Impl(const BridgeOptions& options, std::unique_ptr<Sessions> sessions,
                   BridgeListener listener)
    : options_(options), sessions_(std::move(sessions)), listener_(std::move(listener)) {}

Bridge::Impl::~Impl() {
  sessions_->stop();
  {
    const std::lock_guard lock(mutex_);
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
    ++strangers_;  // I1
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
  auto served = begin(std::move(socket), peer, caller, admission, *request);
  if (!served) return of_caller(std::move(served).error());
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

std::string_view Bridge::Impl::why_here(const RemoteRequest& request, RemotePath path) const {
  if (listener_.is_encrypted()) return "it encrypts";
  if (path != RemotePath::stream) return "payload does not take the path stream";
  if (request.role == RemoteRole::publish) return "it has the name of a producer of another host";
  return {};
}

HandOffer Bridge::Impl::offer_of(const RemoteRequest& request, const std::string& peer) const {
  HandOffer offer;
  offer.request = request;
  const Nonce random = make_nonce();
  std::copy_n(random.begin(), offer.session.size(), offer.session.begin());
  offer.peer = peer;
  offer.patience = options_.patience;
  offer.stall_limit = options_.stall_limit;
  return offer;
}

Result<void> Bridge::Impl::hand_over(const HandOver& to, Fd socket, Admission& admission,
                                     RemoteAnswer answer) const {
  answer.served = "served by the channel's process";
  auto told = admission.answer(answer, Deadline::after(kAdmissionTime));
  if (told && answer.refusal) return tl::unexpected(*answer.refusal);
  if (!told) {
    static_cast<void>(to.give({}));
    return told;
  }
  GANTRY_REMOTE_STEP(session_welcomed);
  return to.give(std::move(socket));
}

Result<void> Bridge::Impl::begin(Fd socket, const std::string& peer, const std::string& caller,
                                 Admission& admission, const RemoteRequest& request) {
  const Deadline soon = Deadline::after(kAdmissionTime);
  RemoteAnswer welcome;
  answer_path(request.paths, {socket.get(), listener_.is_encrypted()}, welcome);
  HandOffer offer = offer_of(request, peer);
  welcome.session = offer.session;
  std::string why(why_here(request, welcome.path));
  bool is_absent = false;
  if (why.empty() && !welcome.refusal) {
    const auto to = HandOver::offer(options_.directory, offer);
    if (to && !to->answer().refusal) {
      GANTRY_TRY(hand_over(*to, std::move(socket), admission, welcome));
      say(fmt::format("{}: handed over to process {}", caller, to->process()));
      return {};
    }
    is_absent = !to && to.error().code == Code::timed_out;
    why = to ? to->answer().refusal->message : to.error().message;
  }
  welcome.served = "served by the bridge: " + why;
  auto session = sessions_->add(offer.session, request, options_.patience, options_.stall_limit);
  if (!session) welcome.refusal = session.error();
  if (welcome.refusal) {
    auto refused = admission.answer(welcome, soon);
    if (session) sessions_->forget(*session);
    GANTRY_TRY(std::move(refused));
    if (!session) welcome.refusal->message = "refused: " + welcome.refusal->message;
    return tl::unexpected(*std::move(welcome.refusal));
  }
  (*session)->peer = peer;
  (*session)->caller = caller;
  (*session)->path = welcome.path;
  (*session)->served = welcome.served;
  if (auto told = admission.answer(welcome, soon); !told) {
    sessions_->forget(*session);
    return told;
  }
  GANTRY_REMOTE_STEP(session_welcomed);
  // A name that nobody had when its caller came: its process takes it now.
  Sessions::MayCallAgain may_call_again;
  if (is_absent)
    may_call_again = [&] {
      offer.kind = HandOffer::Kind::question;
      return HandOver::offer(options_.directory, offer).has_value();
    };
  GANTRY_TRY(sessions_->serve(*session, std::move(socket), request, may_call_again));
  say(caller + ": has left");
  return {};
}

// A session that was handed over goes on where it is, also when this bridge did not hand it over.
Result<void> Bridge::Impl::go_on(Fd socket, const std::string& peer, Admission& admission,
                                 const RemoteRequest& request) {
  RemoteAnswer answer;
  answer.session = request.session;
  if (!sessions_->knows(request.session) && why_here(request, RemotePath::stream).empty()) {
    const auto to = HandOver::offer(options_.directory, offer_of(request, peer));
    if (to) return hand_over(*to, std::move(socket), admission, to->answer());
    const Code code = to.error().code;
    if (code == Code::timed_out)
      answer.refusal = Error{Code::permission_denied,
                             fmt::format("nobody has channel '{}' there any more: its process "
                                         "ended it, or is gone",
                                         request.channel),
                             {}};
    else if (code != Code::unsupported && code != Code::permission_denied)
      answer.refusal = Error{Code::busy, to.error().message, {}};  // the session may be there
    if (answer.refusal) {
      GANTRY_TRY(admission.answer(answer, Deadline::after(kAdmissionTime)));
      if (answer.refusal->code == Code::busy) return {};  // its caller comes again
      return tl::unexpected(*std::move(answer.refusal));
    }
  }
  std::uint64_t claim = 0;
  const auto session = sessions_->claim(request.session, answer, claim);
  if (session) answer_path(request.paths, {socket.get(), listener_.is_encrypted()}, answer);
  if (session) answer.served = session->served;
  GANTRY_TRY(admission.answer(answer, Deadline::after(kAdmissionTime)));
  if (answer.refusal) return {};
  sessions_->go_on(*session, claim, std::move(socket), peer, answer.path, request.received);
  return {};
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
