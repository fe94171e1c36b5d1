#include "remote/bridge.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include "base/event.hpp"
#include "base/moved_from.hpp"
#include "base/result.hpp"
#include "base/worker_thread.hpp"
#include "remote/call_ends.hpp"
#include "remote/calls_side.hpp"
#include "remote/listing.hpp"
#include "remote/receiving_side.hpp"
#include "remote/remote_step.hpp"
#include "remote/sending_side.hpp"
#include "remote/tls.hpp"

namespace gantry {
namespace {

constexpr std::chrono::milliseconds kBetweenReaps{500};
constexpr std::chrono::seconds kSilence{1};

}  // namespace

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
  const auto of_caller = [&](Error error) {
    error.message = fmt::format("{}: {}", caller, error.message);
    return error;
  };
  const Deadline soon = Deadline::after(kAdmissionTime);
  if (listener_.is_encrypted()) {
    auto encrypted = encrypt(connection, soon);
    if (!encrypted) return tl::unexpected(of_caller(std::move(encrypted).error()));
  }
  Admission admission(connection.socket.get(), options_.token);
  auto request = admission.hear(soon);
  if (!request) return tl::unexpected(of_caller(std::move(request).error()));
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
    if (!went_on) return tl::unexpected(of_caller(std::move(went_on).error()));
    return {};
  }
  say(caller);
  auto served = serve_session(std::move(socket), peer, caller, admission, *request);
  if (!served) return tl::unexpected(of_caller(std::move(served).error()));
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
