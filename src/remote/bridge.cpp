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

namespace gantry {
namespace {

// An end here is opened by waiting that long again and again, so that the link is served meanwhile.
constexpr std::chrono::milliseconds kOpeningSlice{50};
// A channel may be full because of a consumer that is leaving, or of a call that was given up.
constexpr std::chrono::milliseconds kPlaceTime{500};
constexpr std::chrono::milliseconds kBetweenReaps{500};

Error bridge_ended() {
  return {Code::peer_gone, "the bridge there was ended by its user",
          "start it again: gantry bridge"};
}

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
  GANTRY_ASSIGN(BridgeListener listener, BridgeListener::open(where));
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
  std::string caller = peer_address(connection.socket.get());
  const auto of_caller = [&](Error error) {
    error.message = fmt::format("{}: {}", caller, error.message);
    return error;
  };
  Admission admission(connection.socket.get(), options_.token);
  auto request = admission.hear(Deadline::after(kAdmissionTime));
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
  caller += fmt::format(" {} '{}'", verb_of(request->role), request->channel);
  if (request->session != SessionId{}) {
    auto went_on = go_on(std::move(socket), admission, *request);
    if (!went_on) return tl::unexpected(of_caller(std::move(went_on).error()));
    return {};
  }
  say(caller);
  auto served = serve_session(std::move(socket), admission, *request);
  if (!served) return tl::unexpected(of_caller(std::move(served).error()));
  say(caller + ": has left");
  return {};
}

Result<void> Bridge::Impl::show(int socket, Admission& admission) const {
  const Deadline soon = Deadline::after(kAdmissionTime);
  GANTRY_TRY(admission.answer({}, soon));
  return send_listing(socket, options_.directory, soon);
}

// ---- sessions ------------------------------------------------------------------------------

Result<void> Bridge::Impl::serve_session(Fd socket, Admission& admission,
                                         const RemoteRequest& request) {
  const Deadline soon = Deadline::after(kAdmissionTime);
  auto session = std::make_shared<Session>();
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
    answer_path(request.paths, socket.get(), welcome);
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

// Waits until there is a channel to join. Null: the caller has left, or was told why not.
Result<std::unique_ptr<RemoteSide>> Bridge::Impl::open_side(Link& link,
                                                            const RemoteRequest& request) {
  const Deadline place = Deadline::after(kPlaceTime);
  for (;;) {
    auto side = open_end(request, Deadline::after(kOpeningSlice));
    if (side) return side;
    const Code code = side.error().code;
    const bool is_full = (request.role == RemoteRole::consume && code == Code::already_exists) ||
                         (request.role == RemoteRole::call && code == Code::busy);
    if (is_full && (!place.passed() || keeps_places())) {
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
    GANTRY_REMOTE_STEP(session_broken);
    do {
      auto socket = await_next(session, side.received(), received);
      if (!socket) return end;
      auto next = make_link(session, *std::move(socket));
      link = next ? *std::move(next) : nullptr;  // null: that one broke, too
      GANTRY_REMOTE_STEP(session_went_on);
    } while (link == nullptr);
  }
}

std::optional<Fd> Bridge::Impl::await_next(Session& session, std::uint64_t received_here,
                                           std::uint64_t& received_there) {
  std::unique_lock lock(mutex_);
  session.received = received_here;
  session.waits = true;
  session.changed.wait_for(lock, options_.patience,
                           [&] { return session.next.has_value() || is_readable(stop_.get()); });
  session.waits = false;
  received_there = session.next_received;
  return std::exchange(session.next, std::nullopt);
}

// The caller may know of a broken link before this end does; then the old one is given up, and the
// caller asks again.
Result<void> Bridge::Impl::go_on(Fd socket, Admission& admission, const RemoteRequest& request) {
  RemoteAnswer answer;
  answer.session = request.session;
  std::uint64_t claim = 0;
  const std::shared_ptr<Session> session = claim_waiting(request.session, answer, claim);
  if (session) answer_path(request.paths, socket.get(), answer);
  GANTRY_TRY(admission.answer(answer, Deadline::after(kAdmissionTime)));
  if (answer.refusal) return {};
  GANTRY_REMOTE_STEP(session_claimed);
  const std::lock_guard lock(mutex_);
  if (session->claim != claim) return {};  // a later connection came for it meanwhile
  session->next = std::move(socket);
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
  const std::string peer = peer_address(socket.get());
  Fd copy(::fcntl(socket.get(), F_DUPFD_CLOEXEC, 0));
  if (!copy) return fail_errno("dup");
  RemotePath path{};
  {
    const std::lock_guard lock(mutex_);
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
