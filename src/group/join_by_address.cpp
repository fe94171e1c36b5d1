// Ranks of several machines: each listens at its address and calls the ranks before it.
//
// caller -> callee: nothing. callee -> caller: magic, a nonce. caller -> callee: magic, ranks, its
// rank, whom it calls, a nonce, a proof of knowing the token that covers all this and the group's
// name and addresses. callee -> caller: a proof that covers the same. docs/formats/group.md

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>

#include "base/result.hpp"
#include "base/socket.hpp"
#include "group/group.hpp"
#include "remote/remote_name.hpp"
#include "remote/tcp.hpp"
#include "remote/token.hpp"
#include "remote/words.hpp"

namespace gantry {
namespace {

constexpr std::string_view kCaller = "gantry group caller";
constexpr std::string_view kCallee = "gantry group callee";
constexpr std::chrono::seconds kPatience{5};
constexpr std::chrono::milliseconds kRetry{20};
constexpr std::size_t kGreetingBytes = 8 + sizeof(Nonce);
constexpr std::size_t kHelloBytes = std::size_t{4} * 8 + sizeof(Nonce) + sizeof(Proof);

/// What both ends know of the group before they meet; the proofs cover it.
std::vector<std::byte> said_by(const GroupOptions& options, std::uint64_t caller,
                               std::uint64_t callee) {
  WordWriter out;
  out.number(options.ranks);
  out.number(caller);
  out.number(callee);
  out.text(options.name, 200);
  for (const std::string& address : options.addresses) out.text(address, 300);
  return out.take();
}

/// Turns of all ranks, one after another, in bounded time each.
class Joiner {
 public:
  Joiner(const GroupOptions& options, std::string token, Deadline deadline, RankReport& report)
      : options_(options),
        report_(report),
        token_(std::move(token)),
        deadline_(deadline),
        sockets_(options.ranks) {}

  Result<std::vector<Fd>> join() {
    for (const std::string& address : options_.addresses) GANTRY_TRY(check_address(address));
    GANTRY_ASSIGN(const HostPort own, parse_host(options_.addresses[options_.rank]));
    GANTRY_ASSIGN(listener_, listen_tcp(own, options_.interrupt_descriptor, deadline_));
    for (unsigned callee = 0; callee < options_.rank; ++callee) GANTRY_TRY(call(callee));
    while (!missing_after_own().empty()) GANTRY_TRY(take_one());
    return std::move(sockets_);
  }

 private:
  struct Caller {
    Fd socket;
    Nonce nonce;
    std::vector<std::byte> said;
    Deadline until = Deadline::now();
  };

  [[nodiscard]] Result<void> check_address(const std::string& address) const {
    GANTRY_ASSIGN(const HostPort parsed, parse_host(address));
    if (!parsed.is_encrypted && parsed.path.empty()) return {};
    return fail(Code::unsupported,
                fmt::format("{}: address '{}': it must be HOST:PORT", title_of(options_), address),
                "ranks of a group are joined by TCP in clear: leave out tls:, or name a host for "
                "unix:");
  }

  [[nodiscard]] std::vector<unsigned> missing_after_own() const {
    std::vector<unsigned> missing;
    for (unsigned peer = options_.rank + 1; peer < options_.ranks; ++peer)
      if (!sockets_[peer]) missing.push_back(peer);
    return missing;
  }

  // Until the rank there listens.
  Result<void> call(unsigned callee) {
    report_.show_missing(std::array{callee});
    GANTRY_ASSIGN(const HostPort there, parse_host(options_.addresses[callee]));
    for (;;) {
      auto socket = connect_tcp(there, options_.interrupt_descriptor, deadline_);
      if (socket) {
        auto met = greet(socket->get(), callee);
        if (met) return sockets_[callee] = std::move(*socket), Result<void>{};
        // A rank that is ending its listener, or another one's.
        if (met.error().code != Code::peer_gone) return met;
      } else if (socket.error().code == Code::interrupted) {
        return tl::unexpected(socket.error());
      }
      if (deadline_.passed())
        return fail(Code::timed_out,
                    fmt::format("{}: rank {} has not come to {}", title_of(options_), callee,
                                options_.addresses[callee]),
                    "start it, check the address, or allow more time");
      pollfd entry{options_.interrupt_descriptor, POLLIN, 0};
      ::poll(&entry, 1, static_cast<int>(kRetry.count()));
    }
  }

  Result<void> greet(int socket, unsigned callee) {
    std::array<std::byte, kGreetingBytes> greeting{};
    GANTRY_TRY(receive_exactly(socket, greeting, options_.interrupt_descriptor, deadline_));
    WordReader in(greeting);
    if (in.number() != kGroupMagic)
      return fail(Code::peer_misbehaved,
                  fmt::format("{}: no rank of a group answers at {}", title_of(options_),
                              options_.addresses[callee]));
    Nonce theirs;
    in.bytes(theirs);
    const Nonce own = make_nonce();
    const auto said = said_by(options_, options_.rank, callee);
    WordWriter out;
    out.number(kGroupMagic);
    out.number(options_.ranks);
    out.number(options_.rank);
    out.number(callee);
    out.bytes(own);
    out.bytes(prove(token_, kCaller, theirs, own, said));
    GANTRY_TRY(send_exactly(socket, out.take(), deadline_));
    Proof proof{};
    auto answered = receive_exactly(socket, proof, options_.interrupt_descriptor, deadline_);
    if (!answered && answered.error().code == Code::peer_gone)
      return fail(Code::permission_denied,
                  fmt::format("{}: rank {} does not let this one in", title_of(options_), callee),
                  "all ranks need the same token, name, addresses and number of ranks, and each "
                  "its own rank");
    GANTRY_TRY(std::move(answered));
    if (is_same_proof(proof, prove(token_, kCallee, theirs, own, said))) return {};
    return fail(Code::permission_denied,
                fmt::format("{}: who answers at {} does not know the token", title_of(options_),
                            options_.addresses[callee]));
  }

  // ---- those after this rank
  Result<void> take_one() {
    report_.show_missing(missing_after_own());
    std::vector<pollfd> entries{{options_.interrupt_descriptor, POLLIN, 0},
                                {listener_.get(), POLLIN, 0}};
    Deadline next = deadline_;
    for (const Caller& caller : callers_) {
      entries.push_back({caller.socket.get(), POLLIN, 0});
      if (caller.until.left() < next.left()) next = caller.until;
    }
    const int ready = ::poll(entries.data(), entries.size(), poll_timeout_ms(next));
    if (ready < 0 && errno != EINTR) return fail_errno("poll");
    if (ready > 0 && entries.front().revents != 0)
      return fail(Code::interrupted, title_of(options_) + ": interrupted while the others join");
    accept_callers();
    std::erase_if(callers_, [this](Caller& caller) { return !hear(caller); });
    return deadline_.passed() && !missing_after_own().empty() ? fail_late() : Result<void>{};
  }
  Result<void> fail_late() const {
    return fail(Code::timed_out,
                fmt::format("{}: {}", title_of(options_), not_joined(missing_after_own())),
                "start them, with this token, or allow more time");
  }

  void accept_callers() {
    for (;;) {
      Fd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!socket) return;
      if (callers_.size() >= kMostGroupCallers) callers_.erase(callers_.begin());
      set_up_tcp(socket.get());
      Caller caller{std::move(socket), make_nonce(), {}, Deadline::after(kPatience)};
      WordWriter out;
      out.number(kGroupMagic);
      out.bytes(caller.nonce);
      if (send_exactly(caller.socket.get(), out.take(), Deadline::now()))
        callers_.push_back(std::move(caller));
    }
  }

  // False: it is a rank now, or was turned away.
  bool hear(Caller& caller) {
    std::array<std::byte, kHelloBytes> bytes{};
    const auto got =
        ::recv(caller.socket.get(), bytes.data(), kHelloBytes - caller.said.size(), MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return !caller.until.passed();
    if (got <= 0) return false;
    caller.said.insert(caller.said.end(), bytes.begin(), bytes.begin() + got);
    if (caller.said.size() < kHelloBytes) return !caller.until.passed();
    admit(caller);
    return false;
  }
  void admit(Caller& caller) {
    WordReader in(caller.said);
    const bool speaks = in.number() == kGroupMagic && in.number() == options_.ranks;
    const auto rank = in.number();
    const bool is_for_this = in.number() == options_.rank;
    Nonce theirs;
    Proof proof;
    in.bytes(theirs);
    in.bytes(proof);
    if (!speaks || !is_for_this || rank <= options_.rank || rank >= options_.ranks) return;
    const auto said = said_by(options_, rank, options_.rank);
    if (!is_same_proof(proof, prove(token_, kCaller, caller.nonce, theirs, said))) return;
    if (sockets_[rank] && is_alive(sockets_[rank].get())) return;
    if (!send_exactly(caller.socket.get(), prove(token_, kCallee, caller.nonce, theirs, said),
                      Deadline::now()))
      return;
    sockets_[rank] = std::move(caller.socket);
  }
  // A rank that died while the group formed may come again.
  static bool is_alive(int socket) noexcept {
    std::byte byte{};
    const auto got = ::recv(socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
  }

  const GroupOptions& options_;
  RankReport& report_;
  const std::string token_;
  const Deadline deadline_;
  Fd listener_;
  std::vector<Caller> callers_;
  std::vector<Fd> sockets_;  // by rank
};

}  // namespace

Result<Links> join_by_address(const GroupOptions& options, Deadline deadline, RankReport& report) {
  auto token = token_or_file(options.token);
  if (!token && options.token.empty() && token.error().code == Code::permission_denied)
    return fail(Code::permission_denied,
                title_of(options) + ": ranks that find each other by addresses need a token",
                "set GroupOptions::token, or name a file of the same bytes for all ranks in "
                "$GANTRY_TOKEN_FILE: (umask 077; head -c 32 /dev/urandom | base64 >FILE)");
  if (!token) return tl::unexpected(std::move(token).error());
  GANTRY_ASSIGN(auto sockets, Joiner(options, std::move(*token), deadline, report).join());
  Links links(options.ranks);
  for (unsigned peer = 0; peer < options.ranks; ++peer) {
    if (peer == options.rank) continue;
    GANTRY_ASSIGN(
        links[peer],
        make_stream_link(sockets[peer].release(),
                         {.peer = fmt::format("rank {} at {}", peer, options.addresses[peer]),
                          .stall_limit = options.stall_limit}));
  }
  return links;
}

}  // namespace gantry
