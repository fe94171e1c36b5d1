// Ranks of one machine: each calls rank 0, which has the group's name, and gets a socket for each
// other rank when all have called.

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <gantry/channel.hpp>

#include "base/result.hpp"
#include "base/socket.hpp"
#include "channel/naming/rendezvous.hpp"
#include "group/group.hpp"
#include "remote/words.hpp"

namespace gantry {
namespace {

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

// ---- rank 0 ----------------------------------------------------------------------------------

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
    std::vector<pollfd> entries{{options_.interrupt_descriptor, POLLIN, 0},
                                {claim_.listener(), POLLIN, 0}};
    for (const Fd& caller : callers_) entries.push_back({caller.get(), POLLIN, 0});
    for (const Fd& member : members_) entries.push_back({member.get(), POLLIN, 0});
    const int ready = ::poll(entries.data(), entries.size(), poll_timeout_ms(deadline));
    if (ready < 0 && errno != EINTR) return fail_errno("poll");
    if (ready > 0 && entries.front().revents != 0)
      return fail(Code::interrupted, title_of(options_) + ": interrupted while the others join");
    if (ready > 0 || !deadline.passed()) return {};
    return fail(Code::timed_out,
                fmt::format("{}: {}{}{}", title_of(options_), not_joined(missing()),
                            turned_away_.empty() ? "" : "; one was turned away: ", turned_away_),
                "start them, or allow more time");
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
    for (;;) {
      Fd caller(::accept4(claim_.listener(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!caller) return;
      accept_rights(caller.get(), false);
      const auto who = peer_of(caller.get());
      if (who && (who->uid == ::geteuid() || who->uid == 0) && callers_.size() < kMostGroupCallers)
        callers_.push_back(std::move(caller));
    }
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

// ---- the others ------------------------------------------------------------------------------

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
  for (;;) {
    std::array<pollfd, 2> entries{pollfd{options.interrupt_descriptor, POLLIN, 0},
                                  pollfd{socket, POLLIN, 0}};
    const int ready = ::poll(entries.data(), entries.size(), poll_timeout_ms(deadline));
    if (ready < 0 && errno != EINTR) return fail_errno("poll");
    if (ready > 0 && entries[0].revents != 0)
      return fail(Code::interrupted, title_of(options) + ": interrupted while the others join");
    if (ready > 0) return {};
    if (deadline.passed())
      return fail(Code::timed_out, title_of(options) + ": not all ranks have joined",
                  "rank 0 says which; start them, or allow more time");
  }
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
    return fail(Code::timed_out, title_of(options) + ": rank 0 has not come",
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
  Links links(options.ranks);
  for (unsigned peer = 0; peer < options.ranks; ++peer) {
    if (peer == options.rank) continue;
    GANTRY_ASSIGN(links[peer],
                  make_shared_link(sockets[peer].release(), engine,
                                   {.peer = fmt::format("rank {} of '{}'", peer, options.name),
                                    .stall_limit = options.stall_limit}));
  }
  return links;
}

}  // namespace gantry
