#include "rank_start.hpp"

#include <fmt/format.h>

#include "../support/system/cpus.hpp"

namespace gantry::bench {
namespace {

constexpr std::chrono::seconds kMeetingPatience{60};

Plan meeting_of(unsigned ranks) {
  Plan plan{.ranks = ranks, .about = "all begin at once"};
  for (unsigned rank = 0; rank < ranks; ++rank)
    plan.steps.push_back({PlanVerb::barrier, rank, 0, {}, {}, {}, false, {}});
  return plan;
}

}  // namespace

Result<std::vector<Child>> start_ranks(unsigned ranks, RankCpus cpus, const OpenRank& open) {
  const auto allowed = allowed_cpus();
  if (!allowed) return Unexpected(allowed.error());
  const bool is_bound = cpus == RankCpus::own && allowed->size() >= ranks;
  std::vector<Child> children;
  for (unsigned rank = 0; rank < ranks; ++rank) {
    auto child = Child::start(fmt::format("rank {}", rank), (*allowed)[rank % allowed->size()],
                              [&, rank](Link& link) {
                                if (!is_bound) static_cast<void>(pin(*allowed));
                                const auto obey = open(rank);
                                if (obey)
                                  obey_commands(link, *obey);
                                else
                                  link.send(Answer::failure(to_string(obey.error())));
                              });
    if (!child) return Unexpected(child.error());
    children.push_back(std::move(*child));
  }
  return children;
}

Result<void> RankMeeting::wait(Group& group) {
  if (!executor_) {
    auto made = PlanExecutor::prepare(group, meeting_of(group.ranks()), {}, {},
                                      Deadline::after(kMeetingPatience));
    if (!made) return Unexpected(made.error());
    executor_.emplace(std::move(*made));
  }
  if (auto met = executor_->run(Deadline::after(kMeetingPatience)); !met)
    return Unexpected(met.error());
  return {};
}

}  // namespace gantry::bench
