#include "process_group.hpp"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>

#include "../report/statistics.hpp"
#include "ends.hpp"

namespace gantry::bench {
namespace {

constexpr std::chrono::seconds kFarewell{5};              // for ends to close their channels
constexpr std::chrono::milliseconds kPartnerEnding{100};  // from "its socket closed" to "it ended"
constexpr std::chrono::seconds kPeerPatience{30};         // a peer that says nothing is stuck

}  // namespace

Result<ProcessGroup> ProcessGroup::start(std::span<const SubjectKind> kinds, const Case& size,
                                         const CpuPair& cpus, int interrupt_descriptor) {
  ProcessGroup group(size.name, interrupt_descriptor);
  for (const SubjectKind& kind : kinds) {
    if (auto spawned = group.spawn(kind, size, cpus); !spawned) return Unexpected(spawned.error());
  }
  for (std::size_t member = 0; member < group.members_.size(); ++member) {
    const auto ready = group.answer_of(member);
    if (!ready && !group.teams_[group.members_[member].team].loss) return Unexpected(ready.error());
  }
  return group;
}

ProcessGroup::~ProcessGroup() {
  members_.clear();  // the ends go before their company
}

Result<void> ProcessGroup::spawn(const SubjectKind& kind, const Case& size, const CpuPair& cpus) {
  teams_.push_back({members_.size(), 0, kind.is_peer});
  auto spawned = spawn_team(kind, size, cpus);
  if (spawned || !kind.is_peer) return spawned;
  lose(teams_.size() - 1, spawned.error());
  return {};
}

Result<void> ProcessGroup::spawn_team(const SubjectKind& kind, const Case& size,
                                      const CpuPair& cpus) {
  auto subject = kind.make(size);
  if (!subject) return Unexpected(subject.error());
  teams_.back().company = (*subject)->company();
  const auto become = [&](Link& link, const Post& post) {
    const auto stayed = (*subject)->become(post, link.descriptor());
    if (!stayed) link.send(Answer::failure(to_string(stayed.error())));
    return stayed.has_value();
  };
  auto spawned =
      spawn(fmt::format("the requester of {}", kind.name), cpus.requester, [&](Link& link) {
        if (!become(link, {Post::kAsks, cpus.requester})) return;
        run_requester(link, [&] { return (*subject)->open_requester(); }, size);
      });
  const int readers = kind.has_responder ? static_cast<int>(size.readers) : 0;
  for (int reader = 0; spawned && reader < readers; ++reader) {
    const int cpu = reader_cpu(cpus, reader);
    spawned = spawn(fmt::format("the responder of {}", kind.name), cpu, [&](Link& link) {
      if (!become(link, {reader, cpu})) return;
      run_responder(link, [&] { return (*subject)->open_responder(reader); });
    });
  }
  return spawned;
}

Result<void> ProcessGroup::spawn(const std::string& role, int cpu, const Child::Body& body) {
  auto child = Child::start(role, cpu, body);
  if (!child) return Unexpected(child.error());
  members_.push_back({std::move(*child), teams_.size() - 1});
  ++teams_.back().count;
  return {};
}

Result<RoundFigures> ProcessGroup::run(std::size_t subject, const Command& command) {
  const Team& team = teams_[subject];
  if (team.loss) return Unexpected(*team.loss);
  // A send to a process that is gone fails; answer_of() then says how it ended.
  for (std::size_t i = team.count; i-- > 0;) {
    members_[team.first + i].wants_stamps = command.stamped;
    members_[team.first + i].child.link().send(command);
  }
  Answer requester;
  double cpu_ns = 0;
  for (std::size_t i = 0; i < team.count; ++i) {
    const auto answer = answer_of(team.first + i);
    if (!answer) return Unexpected(answer.error());
    if (i == 0) requester = *answer;
    cpu_ns += answer->cpu_ns / static_cast<double>(command.trips);
  }
  RoundFigures figures{requester.p50_ns,
                       requester.p99_ns,
                       requester.p999_ns,
                       requester.send,
                       0,
                       requester.prepare_ns,
                       std::max(0.0, cpu_ns - requester.prepare_ns),
                       requester.compute_speed};
  if (!command.stamped) return figures;
  const auto one_way = one_way_of(team, command.trips);
  if (!one_way) return Unexpected(one_way.error());
  figures.one_way_ns = *one_way;
  return figures;
}

/// From the beginning of a trip until the first reader has read all.
Result<double> ProcessGroup::one_way_of(const Team& team, std::uint64_t trips) {
  std::array<std::optional<Stamps>, 2> stamps;
  for (std::size_t i = 0; i < team.count; ++i) {
    const auto come = stamps_of(team.first + i);
    if (!come) return Unexpected(come.error());
    if (i < stamps.size()) stamps[i] = *come;
  }
  if (!stamps[1]) return 0;
  std::vector<double> times;
  for (std::size_t i = 0; i < trips; ++i)
    times.push_back(static_cast<double>(stamps[1]->ns[i] - stamps[0]->ns[i]));
  return median(times);
}

const Error* ProcessGroup::loss_of(std::size_t subject) const noexcept {
  const auto& loss = teams_[subject].loss;
  return loss ? &*loss : nullptr;
}

void ProcessGroup::dismiss() {
  for (Member& member : members_) member.child.link().hang_up();
  for (Member& member : members_) member.child.wait(kFarewell);
  members_.clear();
  teams_.clear();
}

Result<Answer> ProcessGroup::answer_of(std::size_t member) {
  return come(member, &Member::answer);
}

Result<Stamps> ProcessGroup::stamps_of(std::size_t member) {
  return come(member, &Member::stamps);
}

template <class Record>
Result<Record> ProcessGroup::come(std::size_t member, std::optional<Record> Member::* record) {
  const std::size_t team = members_[member].team;
  const auto until = std::chrono::steady_clock::now() + kPeerPatience;
  while (!(members_[member].*record)) {
    if (teams_[team].loss) return Unexpected(*teams_[team].loss);
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        until - std::chrono::steady_clock::now());
    if (teams_[team].is_peer && left.count() <= 0) {
      lose(team, {Code::timed_out,
                  fmt::format("{}: {}: no answer within {} s", where_,
                              members_[member].child.role(), kPeerPatience.count()),
                  ""});
      continue;
    }
    const auto heard = listen(teams_[team].is_peer ? left : std::chrono::milliseconds(-1));
    if (!heard) return Unexpected(heard.error());
  }
  return *std::exchange(members_[member].*record, std::nullopt);
}

/// Sleeps until somebody answers or ends, idle ones included, and takes what there is.
Result<void> ProcessGroup::listen(std::chrono::milliseconds patience) {
  std::vector<pollfd> sources;
  sources.reserve(members_.size() + 1);
  for (Member& member : members_) sources.push_back({member.child.link().descriptor(), POLLIN, 0});
  sources.push_back({interrupt_descriptor_, POLLIN, 0});
  if (::poll(sources.data(), sources.size(), static_cast<int>(patience.count())) < 0 &&
      errno != EINTR) {
    return Unexpected(system_error("poll"));
  }
  if (sources.back().revents != 0) return Unexpected({Code::interrupted, "interrupted", ""});
  for (std::size_t member = 0; member < members_.size(); ++member) {
    if (sources[member].revents == 0 || teams_[members_[member].team].loss) continue;
    if (auto taken = take(member); !taken) return taken;
  }
  return {};
}

Result<void> ProcessGroup::take(std::size_t member) {
  Member& from = members_[member];
  auto& link = from.child.link();
  if (std::exchange(from.stamps_next, false)) {
    from.stamps = link.receive<Stamps>();
    return from.stamps ? Result<void>{} : blame(from.team, death_of(from.child));
  }
  const auto answer = link.receive<Answer>();
  if (!answer) return blame(from.team, death_of(from.child));
  if (answer->kind == Answer::Kind::failed) return blame(from.team, failure_of(member, *answer));
  from.answer = *answer;
  from.stamps_next = std::exchange(from.wants_stamps, false);
  return {};
}

/// An error that ends the run, unless it is that of a peer: that goes, and the run goes on.
Result<void> ProcessGroup::blame(std::size_t team, Error error) {
  if (!teams_[team].is_peer) return Unexpected(std::move(error));
  lose(team, std::move(error));
  return {};
}

void ProcessGroup::lose(std::size_t team, Error error) {
  Team& lost = teams_[team];
  lost.loss = std::move(error);
  for (std::size_t i = 0; i < lost.count; ++i) members_[lost.first + i].child.end();
  lost.company.reset();
}

Error ProcessGroup::death_of(Child& child) const {
  const bool ended = child.wait(kFarewell);
  const bool killed = ended && child.was_killed();
  return {Code::peer_gone,
          fmt::format("{}: {} died: {}", where_, child.role(),
                      ended ? child.ending() : "closed its link"),
          killed ? "see dmesg whether the kernel ran out of memory, and run again" : ""};
}

/// One end often fails because another has died: that is the news then.
Error ProcessGroup::failure_of(std::size_t member, const Answer& answer) {
  const Team& team = teams_[members_[member].team];
  for (std::size_t i = team.first; i < team.first + team.count; ++i) {
    Child& partner = members_[i].child;
    if (i != member && partner.wait(kPartnerEnding) && partner.was_killed())
      return death_of(partner);
  }
  const auto* const text = answer.text.data();
  return {Code::system, fmt::format("{}: {}: {}", where_, members_[member].child.role(), text), ""};
}

}  // namespace gantry::bench
