#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/event.hpp"
#include "base/result.hpp"
#include "base/socket.hpp"
#include "link/socket/mapped_puller.hpp"
#include "link/socket/session.hpp"
#include "link/socket/socket_link.hpp"
#include "link/turn.hpp"

namespace gantry {
namespace {

constexpr Bytes kMostBytes = std::numeric_limits<std::int64_t>::max();

/// What a user holds. The session may outlive it by the exports.
class SocketLink final : public Link, public LinkInTurns {
 public:
  explicit SocketLink(std::shared_ptr<SocketSession> session) noexcept
      : session_(std::move(session)) {}
  ~SocketLink() override { session_->close(); }
  SocketLink(const SocketLink&) = delete;
  SocketLink& operator=(const SocketLink&) = delete;

  [[nodiscard]] LinkKind kind() const noexcept override { return session_->kind(); }
  [[nodiscard]] const std::string& peer() const noexcept override { return session_->peer(); }
  [[nodiscard]] LinkCapabilities capabilities() const noexcept override {
    return {.one_sided = false,
            .needs_registration = false,
            .pulls = session_->pulls(),
            .max_transfer_bytes = kMostBytes,
            .max_control_bytes = kMaxControlBytes,
            .max_transfers = Transfers::kMost,
            .max_controls = kMaxLinkControls,
            .max_signals = kMaxLinkSignals,
            .max_exports = Exports::kMost};
  }
  [[nodiscard]] Cost cost() const override { return session_->cost(); }
  [[nodiscard]] LinkExplanation explain(const Transfer& transfer) const override {
    return session_->explain(transfer);
  }
  [[nodiscard]] LinkReport report() const override { return session_->report(); }

  [[nodiscard]] Result<Export> export_memory(ByteSpan memory, RemoteAccess access) override {
    return guarded([&] { return session_->add_export(memory, access, -1); });
  }
  [[nodiscard]] Result<Export> export_region(const Region& region, RemoteAccess access) override {
    return guarded([&] {
      return session_->add_export({region.data(), region.size()}, access, region.descriptor());
    });
  }
  [[nodiscard]] Result<Ticket> put(const Transfer& transfer) override {
    return guarded([&] { return session_->begin(transfer, true); });
  }
  [[nodiscard]] Result<Ticket> get(const Transfer& transfer) override {
    return guarded([&] { return session_->begin(transfer, false); });
  }
  [[nodiscard]] Outcome outcome(Ticket ticket) const override { return session_->outcome(ticket); }
  [[nodiscard]] Result<void> wait(Ticket ticket, Deadline deadline) override {
    return guarded([&] { return session_->wait(ticket, deadline); });
  }
  [[nodiscard]] Result<void> send_control(ConstByteSpan message, Deadline deadline) override {
    return guarded([&] { return session_->send_control(message, deadline); });
  }
  [[nodiscard]] Result<Bytes> receive_control(ByteSpan into, Deadline deadline) override {
    return guarded([&] { return session_->receive_control(into, deadline); });
  }
  [[nodiscard]] Result<std::uint64_t> receive_signal(Deadline deadline) override {
    return guarded([&] { return session_->receive_signal(deadline); });
  }
  bool poll() override { return session_->poll(); }
  [[nodiscard]] bool begin_turn() override { return session_->begin_turn(); }
  bool end_turn() noexcept override { return session_->end_turn(); }
  [[nodiscard]] bool has_words_left() const noexcept override { return session_->has_words_left(); }
  [[nodiscard]] int descriptor() const noexcept override { return session_->descriptor(); }
  [[nodiscard]] Result<void> state() const override { return session_->state(); }
  void close() noexcept override { session_->close(); }

 private:
  const std::shared_ptr<SocketSession> session_;
};

// ---- making one ----------------------------------------------------------------------------

int option_of(int socket, int option) noexcept {
  int value = -1;
  socklen_t size = sizeof value;
  return ::getsockopt(socket, SOL_SOCKET, option, &value, &size) == 0 ? value : -1;
}

std::string peer_name(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getpeername(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0) return "nobody";
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address.ss_family == AF_INET) {
    const auto& ipv4 = reinterpret_cast<const sockaddr_in&>(address);
    ::inet_ntop(AF_INET, &ipv4.sin_addr, text.data(), text.size());
    return fmt::format("{}:{}", text.data(), ::ntohs(ipv4.sin_port));
  }
  if (address.ss_family == AF_INET6) {
    const auto& ipv6 = reinterpret_cast<const sockaddr_in6&>(address);
    ::inet_ntop(AF_INET6, &ipv6.sin6_addr, text.data(), text.size());
    return fmt::format("[{}]:{}", text.data(), ::ntohs(ipv6.sin6_port));
  }
  const auto who = peer_of(socket);
  return who ? fmt::format("process {}", who->pid) : "an unknown process";
}

Result<void> watch(int epoll, int descriptor) {
  epoll_event event{};
  event.events = EPOLLIN;
  if (::epoll_ctl(epoll, EPOLL_CTL_ADD, descriptor, &event) == 0) return {};
  return fail_errno("epoll_ctl");
}

}  // namespace

Result<void> check_link_socket(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (option_of(socket, SO_TYPE) == SOCK_STREAM &&
      ::getpeername(socket, reinterpret_cast<sockaddr*>(&address), &size) == 0)
    return {};
  return fail(Code::invalid_argument,
              fmt::format("a link over descriptor {}: no connected stream socket", socket));
}

Result<std::unique_ptr<Link>> make_socket_link(Fd socket, const LinkOptions& options,
                                               std::unique_ptr<Puller> puller) {
  const int domain = option_of(socket.get(), SO_DOMAIN);
  const int yes = 1;  // small records wait for nothing
  if (domain == AF_INET || domain == AF_INET6)
    ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  if (domain == AF_UNIX) accept_rights(socket.get(), puller && puller->takes_descriptors());
  Fd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return fail_errno("epoll");
  GANTRY_TRY(watch(epoll.get(), socket.get()));
  if (puller)
    for (const int descriptor : puller->descriptors()) GANTRY_TRY(watch(epoll.get(), descriptor));
  GANTRY_ASSIGN(Fd ring, make_event());
  std::string peer = options.peer.empty() ? peer_name(socket.get()) : options.peer;
  auto session =
      std::make_shared<SocketSession>(std::move(socket), std::move(epoll), std::move(ring),
                                      std::move(peer), options, std::move(puller));
  session->start();
  return std::make_unique<SocketLink>(std::move(session));
}

Result<std::unique_ptr<Link>> make_stream_link(int socket, const LinkOptions& options) {
  Fd owned(socket);
  return guarded([&]() -> Result<std::unique_ptr<Link>> {
    GANTRY_TRY(check_link_socket(owned.get()));
    return make_socket_link(std::move(owned), options, nullptr);
  });
}

Result<std::unique_ptr<Link>> make_shared_link(int socket, std::shared_ptr<Engine> engine,
                                               const LinkOptions& options) {
  Fd owned(socket);
  return guarded([&]() -> Result<std::unique_ptr<Link>> {
    GANTRY_TRY(check_link_socket(owned.get()));
    if (option_of(owned.get(), SO_DOMAIN) != AF_UNIX)
      return fail(Code::invalid_argument, "a shared link over a socket that is not of this machine",
                  "use a Unix socket, or a stream link");
    GANTRY_ASSIGN(auto puller, MappedPuller::make(std::move(engine)));
    return make_socket_link(std::move(owned), options, std::move(puller));
  });
}

}  // namespace gantry
