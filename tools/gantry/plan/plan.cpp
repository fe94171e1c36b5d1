// gantry plan: schedules of several ranks: checked, simulated, drawn, chosen.
#include <fmt/format.h>

#include <memory>

#include "commands.hpp"
#include "errors.hpp"
#include "options.hpp"
#include "output.hpp"
#include "plan/answers.hpp"
#include "plan/inputs.hpp"
#include "plan/timeline.hpp"

namespace gantry::cli {
namespace {

constexpr int kJsonIndent = 2;

struct PlanCommand {
  std::string file;
  std::string costs;
  std::string sentence;
  OperatorInput op;
  ChoiceOptions choice;
  Bytes memory = ~Bytes{0};
  TimelineOptions timeline;
  bool json = false;
};

template <class Text, class Json>
Result<void> say(const PlanCommand& command, Text text, Json json) {
  return print(command.json ? json().dump(kJsonIndent) + "\n" : text());
}

// ---- what each does
// ------------------------------------------------------------------------------

Result<void> check(const PlanCommand& command) {
  const auto plan = read_plan(command.file);
  if (!plan) return tl::unexpected(plan.error());
  const auto facts = check_plan(*plan, {command.memory});
  if (!facts) {
    Error error = facts.error();
    error.message = fmt::format("{}: {}", command.file, error.message);
    return tl::unexpected(std::move(error));
  }
  return say(
      command, [&] { return facts_text(*plan, *facts); },
      [&] { return facts_json(*plan, *facts); });
}

/// A plan of a file in virtual time; `use` says it.
template <class Use>
Result<void> with_times(const PlanCommand& command, Use use) {
  const auto plan = read_plan(command.file);
  if (!plan) return tl::unexpected(plan.error());
  const auto costs = read_costs(command.costs);
  if (!costs) return tl::unexpected(costs.error());
  if (command.timeline.rank && *command.timeline.rank >= plan->ranks)
    return tl::unexpected(
        Error{Code::invalid_argument,
              fmt::format("--rank {}: the plan has {}", *command.timeline.rank, plan->ranks),
              {}});
  const auto times = simulate(*plan, *costs);
  if (!times) {
    Error error = times.error();
    error.message = fmt::format("{}: {}", command.file, error.message);
    return tl::unexpected(std::move(error));
  }
  return use(*plan, *costs, *times);
}

Result<void> simulate_plan(const PlanCommand& command) {
  return with_times(command, [&](const Plan&, const ScheduleCosts& costs, const Simulated& times) {
    return say(
        command, [&] { return simulated_text(times, costs); },
        [&] { return simulated_json(times, costs); });
  });
}

Result<void> show(const PlanCommand& command) {
  return with_times(command,
                    [&](const Plan& plan, const ScheduleCosts& costs, const Simulated& times) {
                      return print(simulated_text(times, costs) + "\n" +
                                   timeline_text(plan, times, command.timeline) +
                                   "# gemm, + reduce, c copy, 0 fill, > put, < get\n");
                    });
}

template <class Use>
Result<void> with_operator(const PlanCommand& command, Use use) {
  const auto op = command.op.read();
  if (!op) return tl::unexpected(op.error());
  const auto costs = read_costs(command.costs);
  if (!costs) return tl::unexpected(costs.error());
  return use(*op, *costs);
}

Result<void> explain(const PlanCommand& command) {
  return with_operator(command,
                       [&](const OverlapOperator& op, const ScheduleCosts& costs) -> Result<void> {
                         const auto choice = choose(op, costs, command.choice);
                         if (!choice) return tl::unexpected(choice.error());
                         return say(
                             command, [&] { return choice_text(op, *choice, costs); },
                             [&] { return choice_json(op, *choice, costs); });
                       });
}

Result<void> search_space(const PlanCommand& command) {
  return with_operator(command,
                       [&](const OverlapOperator& op, const ScheduleCosts& costs) -> Result<void> {
                         const auto found = search(op, costs, command.choice.constraints);
                         if (!found) return tl::unexpected(found.error());
                         return say(
                             command, [&] { return searched_text(op, *found, costs); },
                             [&] { return searched_json(op, *found, costs); });
                       });
}

Result<void> make(const PlanCommand& command) {
  auto input = command.op;
  const auto sentence = parse_sentence(command.sentence);
  if (!sentence) return tl::unexpected(sentence.error());
  if (input.file.empty() && input.kind.empty()) input.kind = to_string(sentence->kind);
  const auto op = input.read();
  if (!op) return tl::unexpected(op.error());
  if (op->kind != sentence->kind)
    return tl::unexpected(Error{
        Code::invalid_argument,
        fmt::format("a schedule of {} for {}", to_string(sentence->kind), to_string(op->kind)),
        {}});
  const auto plan = make_plan(*op, sentence->schedule);
  if (!plan) return tl::unexpected(plan.error());
  return print(to_text(*plan));
}

// ---- options
// -------------------------------------------------------------------------------------

using Shared = std::shared_ptr<PlanCommand>;

void add_costs(CLI::App& command, PlanCommand& into) {
  command.add_option("--costs", into.costs, "A file of costs, or published/mi300x-8")
      ->type_name("COSTS")
      ->required();
}
void add_json(CLI::App& command, PlanCommand& into) {
  command.add_flag("--json", into.json, "One JSON document");
}
void add_constraints(CLI::App& command, PlanCommand& into) {
  add_parsed(command, "--at-most", into.choice.constraints.at_most, &parse_bytes, "BYTES",
             "Memory that a rank's tensors may take");
  command.add_flag("--same-place", into.choice.constraints.same_place,
                   "Nothing is copied within a rank");
  command.add_flag("--replicated", into.choice.constraints.replicated,
                   "Every rank has all of A in the end");
}

CLI::App* add_one(CLI::App& plan, const std::string& name, const std::string& what,
                  Result<void> (*run)(const PlanCommand&), int& exit_code, const Shared& into) {
  auto* const command = plan.add_subcommand(name, what);
  command->callback([run, into, &exit_code] {
    const auto done = run(*into);
    exit_code = done ? 0 : fail(done.error());
  });
  return command;
}

void add_for_files(CLI::App& plan, int& exit_code) {
  const auto add = [&](const char* name, const char* what, auto run) {
    auto into = std::make_shared<PlanCommand>();
    auto* const command = add_one(plan, name, what, run, exit_code, into);
    command->add_option("FILE", into->file, "A plan as text")->required();
    return std::pair(command, into);
  };
  const auto [checked, memory] = add("check", "Prove that a plan does what it says", &check);
  add_parsed(*checked, "--at-most", memory->memory, &parse_bytes, "BYTES",
             "Memory that a rank's tensors may take");
  add_json(*checked, *memory);
  const auto [simulated, one] = add("simulate", "Run a plan in virtual time", &simulate_plan);
  add_costs(*simulated, *one);
  add_json(*simulated, *one);
  const auto [shown, drawn] = add("show", "Draw a plan's virtual time", &show);
  add_costs(*shown, *drawn);
  shown->add_option("--rank", drawn->timeline.rank, "Only rows of this rank")->type_name("NUMBER");
}

void add_for_operators(CLI::App& plan, int& exit_code) {
  const auto add = [&](const char* name, const char* what, auto run) {
    auto into = std::make_shared<PlanCommand>();
    auto* const command = add_one(plan, name, what, run, exit_code, into);
    into->op.add_to(*command);
    return std::pair(command, into);
  };
  const auto [explained, choice] =
      add("explain", "Choose a schedule for an operator, and say why", &explain);
  add_costs(*explained, *choice);
  add_constraints(*explained, *choice);
  add_json(*explained, *choice);
  explained->add_flag("--rules-only", choice->choice.rules_only, "Simulate nothing");
  explained->add_option("--without", choice->choice.without, "Rules that are not asked")
      ->type_name("RULE");
  explained
      ->add_option("--simulate", choice->choice.most_simulated,
                   "How many schedules are simulated (default 12)")
      ->type_name("NUMBER");
  const auto [searched, limits] =
      add("search", "Look for a good schedule by simulating a tenth of all", &search_space);
  add_costs(*searched, *limits);
  add_constraints(*searched, *limits);
  add_json(*searched, *limits);
  const auto [made, text] = add("make", "Write the plan of a schedule", &make);
  made->add_option("--schedule", text->sentence,
                   "\"gantry-schedule 1 all-gather-gemm ring rows own-first piece 4 put\"")
      ->type_name("SENTENCE")
      ->required();
}

}  // namespace

void add_plan(CLI::App& app, int& exit_code) {
  auto* const plan = app.add_subcommand(
      "plan", "Check, simulate and choose schedules of products that several ranks share");
  plan->require_subcommand(1);
  add_for_files(*plan, exit_code);
  add_for_operators(*plan, exit_code);
  plan->footer(
      "Example: gantry plan explain --operator all-gather-gemm --m 131072 --n 16384 \\\n"
      "         --k 16384 --ranks 8 --costs published/mi300x-8");
}

}  // namespace gantry::cli
