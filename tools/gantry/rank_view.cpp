#include "rank_view.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "output.hpp"
#include "tools/status/channel_json.hpp"

namespace gantry::cli {
namespace {

using nlohmann::json;

std::string hash_text(std::uint64_t hash) {
  return hash == 0 ? "" : fmt::format("{:016x}", hash);
}

// Whoever is stopped does nothing, whatever it did last.
std::string state_text(const RankStatus& rank) {
  const std::string state(to_string(rank.state));
  return rank.process == ProcessState::stopped ? state + ", stopped" : state;
}

json rank_step_json(const std::optional<RankStep>& step) {
  if (!step) return {};
  return {{"step", step->step},
          {"verb", to_string(step->verb)},
          {"rank", step->peer ? json(*step->peer) : json()}};
}

json rank_json(const RankStatus& rank) {
  json operations = json::array();
  for (const RankOperation& one : rank.operations)
    operations.push_back({{"absent", one.absent ? json(*one.absent) : json()},
                          {"own", rank_step_json(one.own)},
                          {"awaited", rank_step_json(one.awaited)},
                          {"text", one.text()}});
  return {{"group", rank.group},
          {"rank", rank.rank},
          {"ranks", rank.ranks},
          {"pid", rank.pid},
          {"process", to_string(rank.process)},
          {"state", to_string(rank.state)},
          {"why", rank.why},
          {"in_state_ns", rank.in_state.count()},
          {"epoch", rank.epoch},
          {"operation", rank.operation},
          {"plan_hash", hash_text(rank.plan_hash)},
          {"plan", rank.plan},
          {"runs", rank.runs},
          {"steps", rank.steps},
          {"ended", rank.ended},
          {"handed_over", rank_step_json(rank.handed_over)},
          {"operations", operations}};
}

}  // namespace

std::string ranks_table(const std::vector<RankStatus>& ranks) {
  if (ranks.empty()) return {};
  using enum Table::Align;
  Table table({{"GROUP", left},
               {"RANK", right},
               {"PID", right},
               {"STATE", left},
               {"FOR", right},
               {"AT", left},
               {"PLAN", left}});
  for (const RankStatus& rank : ranks)
    table.add({rank.group, fmt::format("{} of {}", rank.rank, rank.ranks),
               rank.pid == 0 ? "?" : fmt::to_string(rank.pid), state_text(rank),
               format_time(rank.in_state), rank.text(), rank.plan});
  return table.text(page_width());  // plans and steps have hundreds of characters
}

json to_json(const std::vector<RankStatus>& ranks) {
  json list = json::array();
  for (const RankStatus& rank : ranks) list.push_back(rank_json(rank));
  return list;
}

std::string ranks_json(const std::vector<RankStatus>& ranks) {
  return dump({{"ranks", to_json(ranks)}}, 2);
}

}  // namespace gantry::cli
