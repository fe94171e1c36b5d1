// gantry plan: schedules of several ranks: checked, simulated, drawn, chosen.
#include <fmt/format.h>

#include <algorithm>
#include <gantry/collectives.hpp>
#include <memory>

#include "commands.hpp"
#include "errors.hpp"
#include "options.hpp"
#include "output.hpp"
#include "ranks/plan/answers.hpp"
#include "ranks/plan/inputs.hpp"
#include "ranks/plan/timeline.hpp"
#include "tools/command_line/json_text.hpp"

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
  CollectiveShape shape;
  std::string type = "f32";  // of a collective
  bool json = false;
};

template <class Text, class Json>
Result<void> say(const PlanCommand& command, Text text, Json json) {
  return print(command.json ? json_text(json(), kJsonIndent) + "\n" : text());
}

// ---- what each does --------------------------------------------------------------------------

/// As check_plan(), which lets pass what wants nothing, whatever comes out of it.
Result<PlanFacts> prove(const Plan& plan, Bytes memory) {
  auto facts = check_plan(plan, {memory});
  const auto is_something = [](const PlanValue& value) {
    return value.place.rect.rows > 0 && value.place.rect.cols > 0;
  };
  if (!facts || std::ranges::any_of(plan.wanted, is_something)) return facts;
  return tl::unexpected(Error{Code::invalid_argument,
                              "nothing is wanted: nothing was proved of what comes out",
                              "say it: wanted PLACE = SUM"});
}

tl::unexpected<Error> wrong_file(const PlanCommand& command, const Error& error) {
  return tl::unexpected(of_file(command.file, error));
}

Result<void> check(const PlanCommand& command) {
  const auto file = read_plan(command.file);
  if (!file) return tl::unexpected(file.error());
  const auto facts = prove(file->plan, command.memory);
  if (!facts) return tl::unexpected(file->wrong(facts.error()));
  return say(
      command, [&] { return facts_text(file->plan, *facts); },
      [&] { return facts_json(file->plan, *facts); });
}

/// A plan of a file, and costs.
template <class Use>
Result<void> with_costs(const PlanCommand& command, Use use) {
  const auto file = read_plan(command.file);
  if (!file) return tl::unexpected(file.error());
  const auto costs = read_costs(command.costs);
  if (!costs) return tl::unexpected(costs.error());
  const unsigned ranks = file->plan.ranks;
  if (command.timeline.rank && *command.timeline.rank >= ranks)
    return tl::unexpected(
        Error{Code::invalid_argument,
              fmt::format("--rank {}: the plan has {}", *command.timeline.rank, ranks),
              {}});
  return use(*file, *costs);
}

/// Times of what nobody may run say nothing.
Result<void> simulate_plan(const PlanCommand& command) {
  return with_costs(command, [&](const PlanFile& file, const ScheduleCosts& costs) -> Result<void> {
    if (const auto facts = prove(file.plan, ~Bytes{0}); !facts)
      return tl::unexpected(file.wrong(facts.error()));
    const auto times = simulate(file.plan, costs);
    if (!times) return tl::unexpected(file.wrong(times.error()));
    return say(
        command, [&] { return simulated_text(*times, costs); },
        [&] { return simulated_json(*times, costs); });
  });
}

/// A picture helps to see what is wrong with a plan, too.
Result<void> show(const PlanCommand& command) {
  return with_costs(command, [&](const PlanFile& file, const ScheduleCosts& costs) -> Result<void> {
    const Plan& plan = file.plan;
    const auto times = simulate(plan, costs);
    if (!times) return tl::unexpected(file.wrong(times.error()));
    auto printed =
        print(simulated_text(*times, costs) + "\n" + timeline_text(plan, *times, command.timeline) +
              "# gemm, + reduce, c copy, 0 fill, > put, < get\n");
    if (!printed) return printed;
    const auto facts = prove(plan, ~Bytes{0});
    if (facts) return {};
    Error error = facts.error();
    error.message = fmt::format("not proved: {}", error.message);
    return tl::unexpected(file.wrong(std::move(error)));
  });
}

Result<void> expand_collective(const PlanCommand& command) {
  const auto type = read_type(command.type);
  if (!type) return tl::unexpected(type.error());
  const auto program = load_collective(command.file);
  if (!program) return tl::unexpected(program.error());
  CollectiveShape shape = command.shape;
  shape.type = *type;
  const auto plan = expand(*program, shape);
  if (!plan) return wrong_file(command, plan.error());
  return print(to_text(*plan));
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

Result<void> make_of(const OverlapOperator& op, const Schedule& schedule) {
  const auto plan = make_plan(op, schedule);
  if (!plan) return tl::unexpected(plan.error());
  return print(to_text(*plan));
}

/// By a schedule of whatever operator is named.
Result<void> make_by_point(const PlanCommand& command) {
  const auto schedule = parse_schedule(command.sentence);
  if (!schedule) return tl::unexpected(schedule.error());
  const auto op = command.op.read();
  if (!op) return tl::unexpected(op.error());
  return make_of(*op, *schedule);
}

Result<void> make(const PlanCommand& command) {
  if (!command.sentence.starts_with("gantry-schedule ")) return make_by_point(command);
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
  return make_of(*op, sentence->schedule);
}

// ---- options ---------------------------------------------------------------------------------

using Shared = std::shared_ptr<PlanCommand>;

void add_costs(const Command& command, PlanCommand& into) {
  command.add_option("--costs", into.costs, "A file of costs, or published/mi300x-8")
      ->type_name("COSTS")
      ->required();
}
void add_json(const Command& command, PlanCommand& into) {
  command.add_flag("--json", into.json, "One JSON document");
}
void add_constraints(const Command& command, PlanCommand& into) {
  add_parsed(command, "--at-most", into.choice.constraints.at_most, &parse_bytes, "BYTES",
             "Memory that a rank's tensors may take");
  command.add_flag("--same-place", into.choice.constraints.same_place,
                   "Nothing is copied within a rank");
  command.add_flag("--replicated", into.choice.constraints.replicated,
                   "Every rank has all of A in the end");
}

/// `example`: what follows `gantry plan NAME`.
Command add_one(const Command& plan, const std::string& name, const std::string& what,
                const std::string& example, Result<void> (*run)(const PlanCommand&), int& exit_code,
                const Shared& into) {
  const auto command = plan.add_subcommand(name, what);
  command->footer(fmt::format("Example: gantry plan {} {}", name, example));
  command->callback([run, into, &exit_code] {
    const auto done = run(*into);
    exit_code = done ? 0 : fail(done.error());
  });
  return command;
}

void add_for_files(const Command& plan, int& exit_code) {
  const auto add = [&](const char* name, const char* what, const char* example, auto run) {
    auto into = std::make_shared<PlanCommand>();
    const auto command = add_one(plan, name, what, example, run, exit_code, into);
    command->add_option("FILE", into->file, "A plan as text")->required();
    return std::pair(command, into);
  };
  const auto [checked, memory] =
      add("check", "Prove that a plan does what it says", "ring.plan --at-most 64M", &check);
  add_parsed(*checked, "--at-most", memory->memory, &parse_bytes, "BYTES",
             "Memory that a rank's tensors may take");
  add_json(*checked, *memory);
  const auto [simulated, one] =
      add("simulate", "Run a plan in virtual time; refuses what check refuses",
          "ring.plan --costs published/mi300x-8", &simulate_plan);
  add_costs(*simulated, *one);
  add_json(*simulated, *one);
  const auto [shown, drawn] = add(
      "show", "Draw a plan's virtual time; of one that check refuses, too, but then with status 1",
      "ring.plan --costs published/mi300x-8 --rank 0", &show);
  add_costs(*shown, *drawn);
  add_number<unsigned>(*shown, "--rank", drawn->timeline.rank, "Only rows of this rank");
}

void add_expand(const Command& plan, int& exit_code) {
  auto into = std::make_shared<PlanCommand>();
  const auto command =
      add_one(plan, "expand", "Write the plan of a collective: all-reduce and the like",
              "mine.gcoll --ranks 4 --size 1000", &expand_collective, exit_code, into);
  command->footer([] {  // above the example
    std::string programs = "The library's programs, each with its values of --variant:";
    for (const CollectiveProgram& one :
         list_collectives().value_or(std::vector<CollectiveProgram>()))
      programs += fmt::format(fmt::runtime(one.variants().empty() ? "\n  {}" : "\n  {} ({})"),
                              one.name(), fmt::join(one.variants(), ", "));
    return programs;
  });
  command
      ->add_option("FILE", into->file,
                   "A file *.gcoll, or a name of one that comes with the library")
      ->required();
  add_number<unsigned>(*command, "--ranks", into->shape.ranks, "How many take part")->required();
  add_number<std::int64_t>(*command, "--size", into->shape.size, "Elements; of what, it says")
      ->required();
  command->add_option("--type", into->type, "f64, f32, f16, bf16, i32 or i64 (default f32)")
      ->type_name("TYPE");
  command->add_option("--variant", into->shape.variant, "Its way (default its first)")
      ->type_name("NAME");
  add_number<std::int64_t>(*command, "--chunks", into->shape.chunks,
                           "Into how many a transfer is cut (default 1)");
  add_number<unsigned>(*command, "--root", into->shape.root, "The root's rank (default 0)");
  command->add_option("--counts", into->shape.counts, "Counts, if it takes some")
      ->type_name("NUMBER");
}

void add_for_operators(const Command& plan, int& exit_code) {
  const auto add = [&](const char* name, const char* what, const char* example, auto run) {
    auto into = std::make_shared<PlanCommand>();
    const auto command = add_one(plan, name, what, example, run, exit_code, into);
    into->op.add_to(*command);
    return std::pair(command, into);
  };
  const auto [explained, choice] = add("explain", "Choose a schedule for an operator, and say why",
                                       "--operator all-gather-gemm --m 8192 --n 8192 \\\n"
                                       "         --k 8192 --ranks 8 --costs published/mi300x-8",
                                       &explain);
  add_costs(*explained, *choice);
  add_constraints(*explained, *choice);
  add_json(*explained, *choice);
  explained->add_flag("--rules-only", choice->choice.rules_only, "Simulate nothing");
  explained->add_option("--without", choice->choice.without, "Rules that are not asked")
      ->type_name("RULE");
  add_number<unsigned>(*explained, "--simulate", choice->choice.most_simulated,
                       "How many schedules are simulated (default 12; 0: as --rules-only)");
  const auto [searched, limits] =
      add("search", "Look for a good schedule by simulating a tenth of all",
          "operator.txt --costs published/mi300x-8 --json", &search_space);
  add_costs(*searched, *limits);
  add_constraints(*searched, *limits);
  add_json(*searched, *limits);
  const auto [made, text] =
      add("make", "Write the plan of a schedule",
          "--operator all-gather-gemm --m 512 --n 512 --k 512 \\\n"
          "         --ranks 4 --schedule \"ring rows own-first piece 4 put\" >ring.plan",
          &make);
  made->add_option("--schedule", text->sentence,
                   "\"ring rows own-first piece 4 put\", or the whole sentence: "
                   "\"gantry-schedule 1 all-gather-gemm ring rows own-first piece 4 put\"")
      ->type_name("SCHEDULE")
      ->required();
}

}  // namespace

void add_plan(const Command& plan, int& exit_code) {
  plan->require_subcommand(1);
  add_for_files(*plan, exit_code);
  add_expand(*plan, exit_code);
  add_for_operators(*plan, exit_code);
  plan->footer(
      "Example: gantry plan explain --operator all-gather-gemm --m 131072 --n 16384 \\\n"
      "         --k 16384 --ranks 8 --costs published/mi300x-8\n"
      "Example: gantry plan expand all-reduce-ring --ranks 4 --size 1000 >ring.plan");
}

}  // namespace gantry::cli
