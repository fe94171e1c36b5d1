#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <gantry/channel.hpp>

#include "core/base/assert.hpp"
#include "core/base/os/socket.hpp"
#include "core/base/result.hpp"
#include "core/channel/naming/rendezvous.hpp"
#include "net/remote/remote_name.hpp"
#include "net/remote/tcp.hpp"
#include "net/remote/token.hpp"
#include "net/remote/words.hpp"
#include "ranks/group/group.hpp"

// How ranks find each other, and get a socket for each other rank.
//
// On one machine, by name: each rank calls rank 0, which has the group's name and hands the sockets
// out when all have called.
//
// On several machines, by address: each rank listens at its own and calls the ranks before it.
// caller -> callee: nothing. callee -> caller: magic, a nonce. caller -> callee: magic, ranks, its
// rank, whom it calls, a nonce, a proof of knowing the token that covers all this and the group's
// name and addresses. callee -> caller: a proof that covers the same. docs/formats/group.md
namespace gantry {
namespace {

/// Waits for what is behind the first of `entries`, which becomes the interrupt's. False: time is
/// up. Errors: `interrupted`, `system`.
Result<bool> await_any(const GroupOptions& options, std::span<pollfd> entries, Deadline deadline) {
  entries.front() = {options.interrupt_descriptor, POLLIN, 0};
  const int ready = ::poll(entries.data(), entries.size(), poll_timeout_ms(deadline));
  if (ready < 0 && errno != EINTR) return fail_errno("poll");
  if (ready > 0 && entries.front().revents != 0)
    return fail(Code::interrupted, title_of(options) + ": interrupted while the others join");
  return ready > 0 || !deadline.passed();
}

tl::unexpected<Error> late(const GroupOptions& options, std::string_view what,
                           std::string hint = "start them, or allow more time") {
  return fail(Code::timed_out, fmt::format("{}: {}", title_of(options), what), std::move(hint));
}

/// Takes all that call at the moment.
template <class Take>
void accept_all(int listener, Take take) {
  for (;;) {
    Fd caller(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!caller) return;
    take(std::move(caller));
  }
}

/// A link over each rank's socket; `make` makes one.
template <class Make>
Result<Links> links_over(const GroupOptions& options, std::vector<Fd>& sockets, Make make) {
  Links links(options.ranks);
  for (unsigned peer = 0; peer < options.ranks; ++peer) {
    if (peer == options.rank) continue;
    GANTRY_ASSERT(sockets[peer]);
    GANTRY_ASSIGN(links[peer], make(peer, sockets[peer].release()));
  }
  return links;
}

// ---- by name ---------------------------------------------------------------------------------

constexpr std::size_t kMostText = 400;
constexpr std::size_t kMostPacket = 1024;

// What rank 0 says: a word, then a text, or the ranks to which the packet's descriptors lead.
enum class Word : std::uint8_t { refused = 1, links };

std::vector<std::byte> hello_of(const GroupOptions& options) {
  WordWriter out;
  out.number(kGroupMagic);
  out.number(options.ranks);
  out.number(options.rank);
  return out.take();
}

Result<std::array<Fd, 2>> make_pair() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
    return fail_errno("socketpair");
  return std::array<Fd, 2>{Fd(ends[0]), Fd(ends[1])};
}

// Rank 0.
class Leader {
 public:
  Leader(const GroupOptions& options, Claim claim, RankReport& report)
      : options_(options),
        claim_(std::move(claim)),
        report_(report),
        members_(options.ranks),
        has_come_(options.ranks) {}

  Result<std::vector<Fd>> gather(Deadline deadline) {
    while (present_ + 1 < options_.ranks) {
      GANTRY_TRY(await(deadline));
      accept_callers();
      std::erase_if(callers_, [this](Fd& caller) { return !hear(caller); });
      drop_the_dead();
    }
    return hand_out();
  }

 private:
  Result<void> await(Deadline deadline) const {
    report_.show_missing(missing());
    std::vector<pollfd> entries{{}, {claim_.listener(), POLLIN, 0}};
    for (const Fd& caller : callers_) entries.push_back({caller.get(), POLLIN, 0});
    for (const Fd& member : members_) entries.push_back({member.get(), POLLIN, 0});
    GANTRY_ASSIGN(const bool is_in_time, await_any(options_, entries, deadline));
    if (is_in_time) return {};
    const std::string_view away = turned_away_.empty() ? "" : "; one was turned away: ";
    return late(options_, fmt::format("{}{}{}", not_joined(missing()), away, turned_away_));
  }

  // Those that never came; if there are none, those that came and left.
  std::vector<unsigned> missing() const {
    std::vector<unsigned> never;
    std::vector<unsigned> left;
    for (unsigned rank = 1; rank < options_.ranks; ++rank)
      if (!members_[rank]) (has_come_[rank] ? left : never).push_back(rank);
    return never.empty() ? left : never;
  }

  // Nothing of another user's is read.
  void accept_callers() {
    accept_all(claim_.listener(), [this](Fd caller) {
      accept_rights(caller.get(), false);
      const auto who = peer_of(caller.get());
      if (who && (who->uid == ::geteuid() || who->uid == 0) && callers_.size() < kMostGroupCallers)
        callers_.push_back(std::move(caller));
    });
  }

  // False: the caller has become a member, or was turned away.
  bool hear(Fd& caller) {
    std::array<std::byte, kMostPacket> bytes{};
    const auto packet = receive_packet(caller.get(), bytes, Deadline::now());
    if (!packet && packet.error().code == Code::timed_out) return true;
    if (!packet || packet->size == 0) return false;
    WordReader in(ConstByteSpan(bytes).first(packet->size));
    const bool speaks = in.number() == kGroupMagic;
    const auto ranks = in.number();
    const auto rank = in.number();
    if (!in.is_fine() || !speaks)
      refuse(caller, Code::invalid_argument, "this is a group of another version");
    else if (ranks != options_.ranks)
      refuse(caller, Code::invalid_argument,
             fmt::format("the group has {} ranks at rank 0, and {} at rank {}", options_.ranks,
                         ranks, rank));
    else if (rank == 0 || rank >= options_.ranks || members_[rank])
      refuse(caller, Code::already_exists, fmt::format("another process is rank {} already", rank));
    else
      take_in(static_cast<unsigned>(rank), std::move(caller));
    return false;
  }
  void take_in(unsigned rank, Fd caller) {
    ++present_;
    has_come_[rank] = true;
    members_[rank] = std::move(caller);
  }
  void refuse(const Fd& caller, Code code, const std::string& why) {
    turned_away_ = why;
    WordWriter out;
    out.number(static_cast<std::uint64_t>(Word::refused), 1);
    out.number(static_cast<std::uint64_t>(code), 1);
    out.text(why, kMostText);
    static_cast<void>(send_packet(caller.get(), out.take()));
  }

  // Who comes again gets its place back.
  void drop_the_dead() {
    for (Fd& member : members_) {
      pollfd entry{member.get(), POLLIN, 0};
      if (!member || ::poll(&entry, 1, 0) != 1) continue;
      member.reset();
      --present_;
    }
  }

  Result<std::vector<Fd>> hand_out() {
    std::vector<std::vector<Fd>> sockets(options_.ranks);
    for (auto& of_rank : sockets) of_rank.resize(options_.ranks);
    for (unsigned one = 0; one < options_.ranks; ++one)
      for (unsigned other = one + 1; other < options_.ranks; ++other) {
        GANTRY_ASSIGN(auto pair, make_pair());
        sockets[one][other] = std::move(pair[0]);
        sockets[other][one] = std::move(pair[1]);
      }
    for (unsigned rank = 1; rank < options_.ranks; ++rank)
      if (!send_to(members_[rank], sockets[rank]))
        return fail(Code::peer_gone, fmt::format("{}: rank {} is gone", title_of(options_), rank));
    return std::move(sockets[0]);
  }
  static bool send_to(const Fd& member, const std::vector<Fd>& sockets) {
    for (std::size_t first = 0; first < sockets.size(); first += kMaxPacketFds) {
      WordWriter out;
      out.number(static_cast<std::uint64_t>(Word::links), 1);
      std::vector<int> descriptors;
      const std::size_t last = std::min(first + kMaxPacketFds, sockets.size());
      for (std::size_t peer = first; peer < last; ++peer) {
        if (!sockets[peer]) continue;
        out.number(peer);
        descriptors.push_back(sockets[peer].get());
      }
      if (!descriptors.empty() && !send_packet(member.get(), out.take(), descriptors)) return false;
    }
    return true;
  }

  const GroupOptions& options_;
  const Claim claim_;
  RankReport& report_;
  std::vector<Fd> callers_;
  std::vector<Fd> members_;  // by rank; rank 0's place stays empty
  std::vector<bool> has_come_;
  std::string turned_away_;  // why the last one was
  unsigned present_ = 0;
};

// The others.
Result<void> take_links(WordReader& in, Packet& packet, std::vector<Fd>& sockets) {
  for (std::size_t i = 0; i < packet.fds.size(); ++i) {
    const auto peer = in.number(8, sockets.size() - 1);
    if (!in.is_fine() || sockets[peer] || !is_unix_socket(packet.fds[i].get(), SOCK_STREAM))
      return fail(Code::peer_misbehaved, "rank 0 hands out what is no link to a rank");
    sockets[peer] = std::move(packet.fds[i]);
  }
  return {};
}

Result<void> await_packet(const GroupOptions& options, int socket, Deadline deadline) {
  std::array<pollfd, 2> entries{pollfd{}, pollfd{socket, POLLIN, 0}};
  while (entries[1].revents == 0) {
    GANTRY_ASSIGN(const bool is_in_time, await_any(options, entries, deadline));
    if (!is_in_time)
      return late(options, "not all ranks have joined",
                  "rank 0 says which; start them, or allow more time");
  }
  return {};
}

tl::unexpected<Error> refused(const GroupOptions& options, WordReader& in) {
  const bool is_taken = in.number(1) == static_cast<std::uint64_t>(Code::already_exists);
  return fail(is_taken ? Code::already_exists : Code::invalid_argument,
              title_of(options) + ": " + in.text(kMostText));
}

Result<std::vector<Fd>> call_leader(const GroupOptions& options, const std::string& directory,
                                    Deadline deadline, RankReport& report) {
  report.show_missing(std::array{0u});
  auto leader =
      find_producer(directory, options.name, options.interrupt_descriptor, deadline, "rank 0");
  if (!leader && leader.error().code == Code::timed_out)
    return late(options, "rank 0 has not come",
                "start it, with the same name and directory, or allow more time; or the group has "
                "formed without this process");
  if (!leader) return tl::unexpected(leader.error());
  GANTRY_TRY(send_packet(leader->get(), hello_of(options)));
  report.show({});  // it knows whom it waits for
  std::vector<Fd> sockets(options.ranks);
  const auto is_missing = [&](const Fd& socket) {
    return !socket && &socket != &sockets[options.rank];
  };
  while (std::ranges::any_of(sockets, is_missing)) {
    GANTRY_TRY(await_packet(options, leader->get(), deadline));
    std::array<std::byte, kMostPacket> bytes{};
    GANTRY_ASSIGN(Packet packet, receive_packet(leader->get(), bytes, deadline));
    if (packet.size == 0)
      return fail(Code::peer_gone, title_of(options) + ": rank 0 is gone, or gave up joining");
    WordReader in(ConstByteSpan(bytes).first(packet.size));
    if (in.number(1) == static_cast<std::uint64_t>(Word::refused)) return refused(options, in);
    GANTRY_TRY(take_links(in, packet, sockets));
  }
  return sockets;
}

// ---- by address ------------------------------------------------------------------------------

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
        return late(options_,
                    fmt::format("rank {} has not come to {}", callee, options_.addresses[callee]),
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
    std::vector<pollfd> entries{{}, {listener_.get(), POLLIN, 0}};
    Deadline next = deadline_;
    for (const Caller& caller : callers_) {
      entries.push_back({caller.socket.get(), POLLIN, 0});
      if (caller.until.left() < next.left()) next = caller.until;
    }
    GANTRY_TRY(await_any(options_, entries, next));
    accept_callers();
    std::erase_if(callers_, [this](Caller& caller) { return !hear(caller); });
    if (!deadline_.passed() || missing_after_own().empty()) return {};
    return late(options_, not_joined(missing_after_own()),
                "start them, with this token, or allow more time");
  }

  void accept_callers() {
    accept_all(listener_.get(), [this](Fd socket) {
      if (callers_.size() >= kMostGroupCallers) callers_.erase(callers_.begin());
      set_up_tcp(socket.get());
      Caller caller{std::move(socket), make_nonce(), {}, Deadline::after(kPatience)};
      WordWriter out;
      out.number(kGroupMagic);
      out.bytes(caller.nonce);
      if (send_exactly(caller.socket.get(), out.take(), Deadline::now()))
        callers_.push_back(std::move(caller));
    });
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

Result<std::string> group_directory(const GroupOptions& options) {
  GANTRY_ASSIGN(const std::string channels, channel_directory(options.directory));
  std::string path = channels + "/groups";
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return fail_errno(path);
  struct stat facts{};
  if (::lstat(path.c_str(), &facts) != 0) return fail_errno(path);
  if (!S_ISDIR(facts.st_mode) || (facts.st_uid != ::geteuid() && facts.st_uid != 0))
    return fail(Code::permission_denied, path + ": no folder of this user", "remove it");
  return path;
}

Result<Links> join_by_name(const GroupOptions& options, const std::shared_ptr<Engine>& engine,
                           Deadline deadline, RankReport& report) {
  if (engine == nullptr) return fail(Code::invalid_argument, title_of(options) + ": no engine");
  GANTRY_ASSIGN(const std::string directory, group_directory(options));
  std::vector<Fd> sockets;
  if (options.rank == 0) {
    auto claim = Claim::take(directory, options.name, options.interrupt_descriptor);
    if (!claim && claim.error().code == Code::already_exists)
      return fail(Code::already_exists,
                  title_of(options) + ": another process is rank 0 of a group of that name",
                  "choose another name, or end that process");
    if (!claim) return tl::unexpected(std::move(claim).error());
    GANTRY_ASSIGN(sockets, Leader(options, std::move(*claim), report).gather(deadline));
  } else {
    GANTRY_ASSIGN(sockets, call_leader(options, directory, deadline, report));
  }
  return links_over(options, sockets, [&](unsigned peer, int socket) {
    return make_shared_link(socket, engine,
                            {.peer = fmt::format("rank {} of '{}'", peer, options.name),
                             .stall_limit = options.stall_limit});
  });
}

Result<Links> join_by_address(const GroupOptions& options, Deadline deadline, RankReport& report) {
  auto token = token_or_file(options.token);
  if (!token && options.token.empty() && token.error().code == Code::permission_denied)
    return fail(Code::permission_denied,
                title_of(options) + ": ranks that find each other by addresses need a token",
                "set GroupOptions::token, or name a file of the same bytes for all ranks in "
                "$GANTRY_TOKEN_FILE: (umask 077; head -c 32 /dev/urandom | base64 >FILE)");
  if (!token) return tl::unexpected(std::move(token).error());
  GANTRY_ASSIGN(auto sockets, Joiner(options, std::move(*token), deadline, report).join());
  return links_over(options, sockets, [&](unsigned peer, int socket) {
    return make_stream_link(socket,
                            {.peer = fmt::format("rank {} at {}", peer, options.addresses[peer]),
                             .stall_limit = options.stall_limit});
  });
}

}  // namespace gantry
