#include "schedule/product/agreement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/result.hpp"
#include "group/group.hpp"

namespace gantry {
namespace {

RankMessage message_of(const Group::Impl& group, const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {RankMessage::Kind::text, group.operation(), 0, {bytes.begin(), bytes.end()}};
}

Result<void> say(Group::Impl& group, const std::string& text) {
  if (text.size() > RankMessage::kMostPayload)
    return fail(Code::too_large, fmt::format("a text of {} bytes for all ranks", text.size()));
  return group.say_to_all(message_of(group, text));
}

Result<std::string> hear(Group::Impl& group, unsigned rank, Deadline deadline) {
  for (;;) {
    const auto has_moved = group.serve(rank);
    GANTRY_ASSIGN(const auto message, group.take(rank, RankMessage::Kind::text));
    if (message)
      return std::string(reinterpret_cast<const char*>(message->payload.data()),
                         message->payload.size());
    // It may have said so and left.
    if (!has_moved) return tl::unexpected(has_moved.error());
    if (deadline.passed())
      return fail(Code::timed_out, fmt::format("rank {} did not say what it found in time", rank));
    if (!*has_moved) group.sleep(-1, deadline);
  }
}

}  // namespace

Result<std::string> agree_on(Group& group, const std::string& text, Deadline deadline) {
  Group::Impl& ranks = group.impl();
  const auto held = ranks.hold();
  ranks.begin_operation();
  if (ranks.rank() != 0) return hear(ranks, 0, deadline);
  GANTRY_TRY(say(ranks, text));
  return text;
}

Result<std::vector<std::string>> exchange(Group& group, const std::string& text,
                                          Deadline deadline) {
  Group::Impl& ranks = group.impl();
  const auto held = ranks.hold();
  ranks.begin_operation();
  GANTRY_TRY(say(ranks, text));
  std::vector<std::string> all(ranks.ranks());
  for (unsigned rank = 0; rank < ranks.ranks(); ++rank) {
    if (rank == ranks.rank()) {
      all[rank] = text;
      continue;
    }
    GANTRY_ASSIGN(all[rank], hear(ranks, rank, deadline));
  }
  return all;
}

Result<double> slowest_of(Group& group, double seconds, Deadline deadline) {
  GANTRY_ASSIGN(const auto all, exchange(group, fmt::format("{}", seconds), deadline));
  double slowest = 0;
  for (unsigned rank = 0; rank < all.size(); ++rank) {
    double its = 0;
    const std::string_view text = all[rank];
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), its);
    if (error != std::errc() || end != text.data() + text.size() || !(its >= 0))
      return fail(Code::peer_misbehaved,
                  fmt::format("rank {} says no time of what it measured", rank));
    slowest = std::max(slowest, its);
  }
  return slowest;
}

Result<void> Meeting::wait(Deadline deadline) {
  if (!executor_) {
    Plan plan;
    plan.ranks = group_.ranks();
    for (unsigned rank = 0; rank < plan.ranks; ++rank)
      plan.steps.push_back({PlanVerb::barrier, rank, 0, {}, {}, {}, false, {}});
    GANTRY_ASSIGN(PlanExecutor made, PlanExecutor::prepare(group_, plan, {}, {}, deadline));
    executor_.emplace(std::move(made));
  }
  GANTRY_TRY(executor_->run(deadline));
  return {};
}

}  // namespace gantry
