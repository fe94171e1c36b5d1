#include "process_group.hpp"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>

#include "../report/statistics.hpp"

namespace gantry::bench {
namespace {

constexpr std::chrono::seconds kFarewell{5};              // for ends to close their channels
constexpr std::chrono::milliseconds kPartnerEnding{100};  // from "its socket closed" to "it ended"
constexpr std::chrono::seconds kPeerPatience{30};         // a peer that says nothing is stuck

}  // namespace

ProcessGroup::~ProcessGroup() {
  members_.clear();  // the ends go before their company
}

// By value: what the roles share goes with the party, and the descriptors in it with that. Who is
// forked later does not have them.
Result<void> ProcessGroup::add(Result<Party> party, MayFail may_fail) {
  parties_.push_back({members_.size(), 0, may_fail});
  auto spawned = party ? spawn(*party) : Unexpected(party.error());
  if (spawned || may_fail != MayFail::in_any_way) return spawned;
  lose(parties_.size() - 1, spawned.error());
  return {};
}

Result<void> ProcessGroup::spawn(const Party& party) {
  parties_.back().company = party.company;
  for (const Role& role : party.roles) {
    auto child = Child::start(role.name, role.cpu, role.body);
    if (!child) return Unexpected(child.error());
    members_.push_back({std::move(*child), parties_.size() - 1});
    ++parties_.back().count;
  }
  return {};
}

Result<void> ProcessGroup::await_ready() {
  for (std::size_t member = 0; member < members_.size(); ++member) {
    const auto ready = answer_of(member);
    if (!ready && !parties_[members_[member].party].loss) return Unexpected(ready.error());
  }
  return {};
}

Result<RoundFigures> ProcessGroup::run(std::size_t party, const Command& command) {
  const Place& place = parties_[party];
  if (place.loss) return Unexpected(*place.loss);
  // A send to a process that is gone fails; answer_of() then says how it ended.
  for (std::size_t i = place.count; i-- > 0;) {
    members_[place.first + i].wants_stamps = command.stamped;
    members_[place.first + i].child.link().send(command);
  }
  Answer requester;
  double cpu_ns = 0;
  for (std::size_t i = 0; i < place.count; ++i) {
    const auto answer = answer_of(place.first + i);
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
                       requester.compute_speed,
                       requester.peak_bytes,
                       requester.text.data()};
  if (!command.stamped) return figures;
  const auto one_way = one_way_of(place, command.trips);
  if (!one_way) return Unexpected(one_way.error());
  figures.one_way_ns = *one_way;
  return figures;
}

/// From the beginning of a trip until the first reader has read all.
Result<double> ProcessGroup::one_way_of(const Place& place, std::uint64_t trips) {
  std::array<std::optional<Stamps>, 2> stamps;
  for (std::size_t i = 0; i < place.count; ++i) {
    const auto come = stamps_of(place.first + i);
    if (!come) return Unexpected(come.error());
    if (i < stamps.size()) stamps[i] = *come;
  }
  if (!stamps[1]) return 0;
  std::vector<double> times;
  for (std::size_t i = 0; i < trips; ++i)
    times.push_back(static_cast<double>(stamps[1]->ns[i] - stamps[0]->ns[i]));
  return median(times);
}

const Error* ProcessGroup::loss_of(std::size_t party) const noexcept {
  const auto& loss = parties_[party].loss;
  return loss ? &*loss : nullptr;
}

void ProcessGroup::dismiss() {
  for (Member& member : members_) member.child.link().hang_up();
  for (Member& member : members_) member.child.wait(kFarewell);
  members_.clear();
  parties_.clear();
}

Result<Answer> ProcessGroup::answer_of(std::size_t member) {
  return come(member, &Member::answer);
}

Result<Stamps> ProcessGroup::stamps_of(std::size_t member) {
  return come(member, &Member::stamps);
}

template <class Record>
Result<Record> ProcessGroup::come(std::size_t member, std::optional<Record> Member::* record) {
  const std::size_t party = members_[member].party;
  const bool has_limit = parties_[party].may_fail == MayFail::in_any_way;
  const auto until = std::chrono::steady_clock::now() + kPeerPatience;
  while (!(members_[member].*record)) {
    if (parties_[party].loss) return Unexpected(*parties_[party].loss);
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        until - std::chrono::steady_clock::now());
    if (has_limit && left.count() <= 0) {
      lose(party, {Code::timed_out,
                   fmt::format("{}: no answer within {} s", members_[member].child.role(),
                               kPeerPatience.count()),
                   ""});
      continue;
    }
    const auto heard = listen(has_limit ? left : std::chrono::milliseconds(-1));
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
    if (sources[member].revents == 0 || parties_[members_[member].party].loss) continue;
    if (auto taken = take(member); !taken) return taken;
  }
  return {};
}

Result<void> ProcessGroup::take(std::size_t member) {
  Member& from = members_[member];
  auto& link = from.child.link();
  if (std::exchange(from.stamps_next, false)) {
    from.stamps = link.receive<Stamps>();
    return from.stamps ? Result<void>{}
                       : blame(from.party, MayFail::in_any_way, death_of(from.child));
  }
  const auto answer = link.receive<Answer>();
  if (!answer) return blame(from.party, MayFail::in_any_way, death_of(from.child));
  if (answer->kind == Answer::Kind::failed)
    return blame(from.party, MayFail::by_giving_up, failure_of(member, *answer));
  from.answer = *answer;
  from.stamps_next = std::exchange(from.wants_stamps, false);
  return {};
}

/// An error that ends the run, unless the party may fail so: then it goes, and the run goes on.
Result<void> ProcessGroup::blame(std::size_t party, MayFail least, Error error) {
  if (parties_[party].may_fail < least) return Unexpected(std::move(error));
  lose(party, std::move(error));
  return {};
}

void ProcessGroup::lose(std::size_t party, Error error) {
  Place& lost = parties_[party];
  lost.loss = std::move(error);
  for (std::size_t i = 0; i < lost.count; ++i) members_[lost.first + i].child.end();
  lost.company.reset();
}

Error ProcessGroup::death_of(Child& child) const {
  const bool ended = child.wait(kFarewell);
  const bool killed = ended && child.was_killed();
  return {Code::peer_gone,
          fmt::format("{} died: {}", child.role(), ended ? child.ending() : "closed its link"),
          killed ? "see dmesg whether the kernel ran out of memory, and run again" : ""};
}

/// One end often fails because another has died: that is the news then.
Error ProcessGroup::failure_of(std::size_t member, const Answer& answer) {
  const Place& place = parties_[members_[member].party];
  for (std::size_t i = place.first; i < place.first + place.count; ++i) {
    Child& partner = members_[i].child;
    if (i != member && partner.wait(kPartnerEnding) && partner.was_killed())
      return death_of(partner);
  }
  const auto* const text = answer.text.data();
  if (place.may_fail == MayFail::by_giving_up) return {Code::system, text, ""};
  return {Code::system, fmt::format("{}: {}", members_[member].child.role(), text), ""};
}

}  // namespace gantry::bench
