#include "crew.hpp"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>

#include "ends.hpp"

namespace gantry::bench {
namespace {

constexpr std::chrono::seconds kFarewell{5};              // for ends to close their channels
constexpr std::chrono::milliseconds kPartnerEnding{100};  // from "its socket closed" to "it ended"

}  // namespace

Result<Crew> Crew::start(std::span<const SubjectKind> kinds, const Case& size, const CpuPair& cpus,
                         int interrupt_descriptor) {
  Crew crew(size.name, interrupt_descriptor);
  for (const SubjectKind& kind : kinds) {
    if (auto hired = crew.hire(kind, size, cpus); !hired) return Unexpected(hired.error());
  }
  for (std::size_t member = 0; member < crew.members_.size(); ++member) {
    if (auto ready = crew.answer_of(member); !ready) return Unexpected(ready.error());
  }
  return crew;
}

Result<void> Crew::hire(const SubjectKind& kind, const Case& size, const CpuPair& cpus) {
  const auto subject = kind.make(size);
  if (!subject) return Unexpected(subject.error());
  Pair pair{members_.size(), std::nullopt};
  auto hired = hire(fmt::format("the requester of {}", kind.name), cpus.requester,
                    [&](Link& link) { run_requester(link, **subject, size.bytes); });
  if (hired && kind.has_responder) {
    pair.responder = members_.size();
    hired = hire(fmt::format("the responder of {}", kind.name), cpus.responder,
                 [&](Link& link) { run_responder(link, **subject); });
  }
  pairs_.push_back(pair);
  return hired;
}

Result<void> Crew::hire(const std::string& role, int cpu, const Child::Body& body) {
  auto child = Child::start(role, cpu, body);
  if (!child) return Unexpected(child.error());
  members_.push_back({std::move(*child), std::nullopt});
  return {};
}

Result<RoundFigures> Crew::run(std::size_t subject, const Command& command) {
  const Pair& pair = pairs_[subject];
  Answer responder;
  // A send to a process that is gone fails; answer_of() then says how it ended.
  if (pair.responder) members_[*pair.responder].child.link().send(command);
  members_[pair.requester].child.link().send(command);
  const auto requester = answer_of(pair.requester);
  if (!requester) return Unexpected(requester.error());
  if (pair.responder) {
    const auto answer = answer_of(*pair.responder);
    if (!answer) return Unexpected(answer.error());
    responder = *answer;
  }
  const double cpu_ns = (requester->cpu_ns + responder.cpu_ns) / static_cast<double>(command.trips);
  return RoundFigures{requester->p50_ns, requester->p99_ns, requester->prepare_ns,
                      std::max(0.0, cpu_ns - requester->prepare_ns)};
}

void Crew::dismiss() {
  for (Member& member : members_) member.child.link().close();
  for (Member& member : members_) member.child.wait(kFarewell);
  members_.clear();
  pairs_.clear();
}

Result<Answer> Crew::answer_of(std::size_t member) {
  while (!members_[member].answer) {
    if (auto heard = listen(); !heard) return Unexpected(heard.error());
  }
  return *std::exchange(members_[member].answer, std::nullopt);
}

/// Sleeps until somebody answers or ends, idle ones included, and takes what there is.
Result<void> Crew::listen() {
  std::vector<pollfd> sources;
  sources.reserve(members_.size() + 1);
  for (Member& member : members_) sources.push_back({member.child.link().descriptor(), POLLIN, 0});
  sources.push_back({interrupt_descriptor_, POLLIN, 0});
  if (::poll(sources.data(), sources.size(), -1) < 0 && errno != EINTR) {
    return Unexpected(system_error("poll"));
  }
  if (sources.back().revents != 0) return Unexpected({Code::interrupted, "interrupted", ""});
  for (std::size_t member = 0; member < members_.size(); ++member) {
    if (sources[member].revents == 0) continue;
    if (auto taken = take(member); !taken) return taken;
  }
  return {};
}

Result<void> Crew::take(std::size_t member) {
  const auto answer = members_[member].child.link().receive<Answer>();
  if (!answer) return Unexpected(death_of(members_[member].child));
  if (answer->kind == Answer::Kind::failed) return Unexpected(failure_of(member, *answer));
  members_[member].answer = *answer;
  return {};
}

Error Crew::death_of(Child& child) const {
  const bool ended = child.wait(kFarewell);
  const bool killed = ended && child.was_killed();
  return {Code::peer_gone,
          fmt::format("{}: {} died: {}", where_, child.role(),
                      ended ? child.ending() : "closed its link"),
          killed ? "see dmesg whether the kernel ran out of memory, and run again" : ""};
}

/// One end often fails because the other has died: that is the news then.
Error Crew::failure_of(std::size_t member, const Answer& answer) {
  Child* const partner = partner_of(member);
  if (partner != nullptr && partner->wait(kPartnerEnding) && partner->was_killed()) {
    return death_of(*partner);
  }
  const auto* const text = answer.text.data();
  return {Code::system, fmt::format("{}: {}: {}", where_, members_[member].child.role(), text), ""};
}

Child* Crew::partner_of(std::size_t member) noexcept {
  for (const Pair& pair : pairs_) {
    if (pair.responder && *pair.responder == member) return &members_[pair.requester].child;
    if (pair.responder && pair.requester == member) return &members_[*pair.responder].child;
  }
  return nullptr;
}

}  // namespace gantry::bench
