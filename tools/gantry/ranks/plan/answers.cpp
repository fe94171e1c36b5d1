#include "ranks/plan/answers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "output.hpp"
#include "ranks/plan/inputs.hpp"

namespace gantry::cli {
namespace {

constexpr auto kRight = Table::Align::right;

std::string time_text(double seconds) {
  constexpr double kNsPerSecond = 1e9;
  constexpr double kMostNs = 9e18;
  return format_time(std::chrono::nanoseconds(
      static_cast<std::int64_t>(std::min(seconds * kNsPerSecond, kMostNs))));
}
std::string label_of(const ScheduleCosts& costs, bool is_simulated = true) {
  return (is_simulated ? "simulated/" : "estimated/") + costs.name;
}
std::string sentence_of(const OverlapOperator& op, const Schedule& schedule) {
  return to_string(ScheduleSentence{op.kind, schedule});
}

/// Those that were simulated, or, if none was, estimated, the shortest first.
std::vector<const ChoiceCandidate*> by_time(const Choice& choice) {
  std::vector<const ChoiceCandidate*> all;
  for (const ChoiceCandidate& one : choice.candidates)
    if (one.pruned_by.empty()) all.push_back(&one);
  std::ranges::sort(all, {}, [](const ChoiceCandidate* one) {  // of equals, as they are listed
    return std::pair(one->predicted_s > 0 ? one->predicted_s : one->estimated_s, one);
  });
  return all;
}

std::string pruned_text(const Choice& choice) {
  Table table({{"LEFT OUT", kRight}, {"RULE"}, {"REASON"}});
  const auto count = [&](std::string_view rule) {
    return std::ranges::count(choice.candidates, rule, &ChoiceCandidate::pruned_by);
  };
  const auto add = [&](std::string_view rule, std::string_view reason) {
    if (const auto out = count(rule); out > 0)
      table.add({std::to_string(out), std::string(rule), std::string(reason)});
  };
  for (const ChoiceRule& rule : choice_rules()) add(rule.name, rule.reason);
  add("estimate", "others are nearer by closed forms");
  add("too-large", "a plan of more steps than are allowed");
  return table.text();
}

}  // namespace

std::string facts_text(const Plan& plan, const PlanFacts& facts) {
  std::string text = fmt::format("passes: {} ranks, {} lanes, {} steps\n", plan.ranks, plan.lanes,
                                 plan.steps.size());
  if (!plan.about.empty()) text += plan.about + "\n";
  Table table({{"RANK", kRight},
               {"MEMORY", kRight},
               {"SENT", kRight},
               {"RECEIVED", kRight},
               {"FLOPS", kRight}});
  for (unsigned rank = 0; rank < plan.ranks; ++rank)
    table.add({std::to_string(rank), format_bytes(facts.memory[rank]),
               format_bytes(facts.sent[rank]), format_bytes(facts.received[rank]),
               fmt::format("{:.3g}", facts.flops[rank])});
  return text + table.text();
}

nlohmann::json facts_json(const Plan& plan, const PlanFacts& facts) {
  return {{"about", plan.about},
          {"ranks", plan.ranks},
          {"lanes", plan.lanes},
          {"steps", plan.steps.size()},
          {"memory_bytes", facts.memory},
          {"sent_bytes", facts.sent},
          {"received_bytes", facts.received},
          {"flops", facts.flops}};
}

std::string simulated_text(const Simulated& times, const ScheduleCosts& costs) {
  std::string text = fmt::format("{}: {}\n", label_of(costs), time_text(times.seconds));
  Table table({{"RANK", kRight},
               {"COMPUTES", kRight},
               {"ALONE", kRight},
               {"LINKS", kRight},
               {"EXPOSED", kRight},
               {"ENDS", kRight}});
  for (std::size_t rank = 0; rank < times.ranks.size(); ++rank) {
    const RankTimes& one = times.ranks[rank];
    table.add({std::to_string(rank), time_text(one.compute_s), time_text(one.compute_alone_s),
               time_text(one.links_s), time_text(one.exposed_s), time_text(one.end_s)});
  }
  return text + table.text();
}

nlohmann::json simulated_json(const Simulated& times, const ScheduleCosts& costs) {
  nlohmann::json ranks = nlohmann::json::array();
  for (const RankTimes& one : times.ranks)
    ranks.push_back({{"compute_s", one.compute_s},
                     {"compute_alone_s", one.compute_alone_s},
                     {"links_s", one.links_s},
                     {"exposed_s", one.exposed_s},
                     {"end_s", one.end_s}});
  nlohmann::json steps = nlohmann::json::array();
  for (const StepTimes& one : times.steps) steps.push_back({one.begin_s, one.end_s});
  return {{"label", label_of(costs)},
          {"seconds", times.seconds},
          {"ranks", std::move(ranks)},
          {"steps", std::move(steps)}};
}

std::string choice_text(const OverlapOperator& op, const Choice& choice,
                        const ScheduleCosts& costs) {
  std::string text =
      fmt::format("{}\n{}\n{}: {}, serial {}\n{}\n\n", text_of(op),
                  sentence_of(op, choice.schedule), label_of(costs, choice.is_simulated),
                  time_text(choice.predicted_s), time_text(choice.serial_s), choice.decided);
  Table table({{"SCHEDULE"},
               {"TIME", kRight},
               {"ESTIMATE", kRight},
               {"DECOMPOSITION", kRight},
               {"CONTENTION", kRight},
               {"EXPOSED", kRight}});
  for (const ChoiceCandidate* one : by_time(choice)) {
    const auto simulated = [&](double seconds) {
      return choice.is_simulated ? time_text(std::max(0.0, seconds)) : "-";
    };
    table.add({to_string(one->schedule), simulated(one->predicted_s), time_text(one->estimated_s),
               simulated(one->losses.decomposition_s), simulated(one->losses.contention_s),
               simulated(one->losses.exposed_s)});
  }
  return text + table.text() + "\n" + pruned_text(choice);
}

nlohmann::json choice_json(const OverlapOperator& op, const Choice& choice,
                           const ScheduleCosts& costs) {
  nlohmann::json candidates = nlohmann::json::array();
  for (const ChoiceCandidate& one : choice.candidates) {
    nlohmann::json entry{{"schedule", to_string(one.schedule)}};
    if (!one.pruned_by.empty()) {
      entry["left_out_by"] = one.pruned_by;
    } else {
      entry["estimated_s"] = one.estimated_s;
    }
    if (one.pruned_by.empty() && choice.is_simulated) {
      entry["predicted_s"] = one.predicted_s;
      entry["losses"] = {{"decomposition_s", one.losses.decomposition_s},
                         {"contention_s", one.losses.contention_s},
                         {"exposed_s", one.losses.exposed_s}};
    }
    candidates.push_back(std::move(entry));
  }
  return {{"operator", text_of(op)},
          {"label", label_of(costs, choice.is_simulated)},
          {"sentence", sentence_of(op, choice.schedule)},
          {"predicted_s", choice.predicted_s},
          {"serial_s", choice.serial_s},
          {"decided", choice.decided},
          {"candidates", std::move(candidates)}};
}

std::string searched_text(const OverlapOperator& op, const Searched& found,
                          const ScheduleCosts& costs) {
  return fmt::format("{}\n{}\n{}: {}; {} of {} schedules simulated\n{}", text_of(op),
                     sentence_of(op, found.schedule), label_of(costs), time_text(found.predicted_s),
                     found.evaluated, found.space,
                     found.is_provable ? "" : "not proved: a plan of so many ranks is too large\n");
}

nlohmann::json searched_json(const OverlapOperator& op, const Searched& found,
                             const ScheduleCosts& costs) {
  return {{"operator", text_of(op)},
          {"label", label_of(costs)},
          {"sentence", sentence_of(op, found.schedule)},
          {"predicted_s", found.predicted_s},
          {"is_provable", found.is_provable},
          {"simulated", found.evaluated},
          {"space", found.space}};
}

}  // namespace gantry::cli
