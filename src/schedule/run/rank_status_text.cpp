#include <fmt/format.h>

#include <gantry/schedule/rank_status.hpp>

namespace gantry {
namespace {

std::string text_of(const RankStep& step) {
  return fmt::format("step {} ({})", step.step, to_string(step.verb));
}

std::string own_text(const RankStep& step) {
  if (!step.peer) return text_of(step);
  const char* const way = step.verb == PlanVerb::get ? "from" : "to";
  return fmt::format("step {} ({} {} rank {})", step.step, to_string(step.verb), way, *step.peer);
}

std::string far_text(const RankStep& step) {
  return fmt::format("{} of rank {}", text_of(step), step.peer.value_or(0));
}

}  // namespace

std::string_view to_string(RankState state) noexcept {
  switch (state) {
    case RankState::joining:
      return "joining";
    case RankState::idle:
      return "idle";
    case RankState::preparing:
      return "preparing";
    case RankState::running:
      return "running";
    case RankState::broken:
      return "broken";
  }
  return "?";
}

std::string RankOperation::text() const {
  if (absent) return fmt::format("waits for rank {}", *absent);
  if (!own && !awaited) return {};
  if (!awaited) return own_text(*own) + " is under way";
  return fmt::format("{}waits for {}", own ? own_text(*own) + " " : "", far_text(*awaited));
}

std::string RankStatus::text() const {
  if (state == RankState::broken) return why;
  std::string line;
  if (state == RankState::running)
    line = fmt::format("run {}, {} of {} steps ended", runs, ended, steps);
  if (state == RankState::running && operations.empty() && handed_over)
    line += fmt::format(", newest {}", own_text(*handed_over));
  for (const RankOperation& one : operations) line += (line.empty() ? "" : "; ") + one.text();
  return line;
}

}  // namespace gantry
