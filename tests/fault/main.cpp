// fault_harness: strikes every role of a channel at every step of its protocol, and anywhere.
//   fault_harness [--stop] [--first | --spread] [--jobs N] [--only scenario/victim[/step[/pass]]]
//   fault_harness --random N [--seed S] [--stop] [--jobs N]
//   fault_harness --list
// Exit 0: whatever was struck, everything held. docs: tests/fault/README.md

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <thread>

#include "core/base/clock.hpp"
#include "fault/plan.hpp"

namespace gantry::fault {
namespace {

Options read_options(int count, char** words) {
  Options options;
  options.jobs = std::max(1u, std::thread::hardware_concurrency());
  for (int i = 1; i < count; ++i) {
    const std::string_view word = words[i];
    const auto value = [&]() -> std::string {
      if (++i == count) throw Trouble(fmt::format("{} needs a value", word));
      return words[i];
    };
    if (word == "--random")
      options.random = std::stoull(value());
    else if (word == "--seed")
      options.seed = std::stoull(value());
    else if (word == "--jobs")
      options.jobs = static_cast<unsigned>(std::stoul(value()));
    else if (word == "--only")
      options.only = value();
    else if (word == "--stop")
      options.stop = true;
    else if (word == "--first")
      options.first_only = true;
    else if (word == "--spread")
      options.spread = true;
    else
      throw Trouble(fmt::format("{}: unknown", word));
  }
  return options;
}

// The scenarios in which each end passes each step. False: one is passed by none.
bool report_coverage(const std::vector<Rehearsal>& rehearsals, bool in_full) {
  bool all = true;
  for (std::size_t step = 0; step < kSteps; ++step) {
    std::array<unsigned, 2> by{};
    for (const Rehearsal& one : rehearsals)
      if (one.passes[step] != 0) ++by[static_cast<std::size_t>(one.victim)];
    if (in_full)
      fmt::print("{:22} producer or client in {:2} scenarios, consumer, inbox or server in {:2}\n",
                 kStepNames[step], by[0], by[1]);
    if (by[0] + by[1] != 0 || kStepNames[step].starts_with("queue_"))
      continue;  // no scenario has a queue of work: work_queue_process_test kills at its steps
    fmt::print(stderr, "step {} is never reached\n", kStepNames[step]);
    all = false;
  }
  return all;
}

bool report(const std::vector<Run>& runs, const std::vector<Outcome>& outcomes) {
  std::size_t struck = 0, bad = 0, late = 0;
  std::vector<std::uint64_t> told;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const Outcome& one = outcomes[i];
    struck += one.struck ? 1 : 0;
    if (one.late_ns != 0) told.push_back(one.late_ns);
    late += one.late_ns > 100'000'000 ? 1 : 0;
    if (one.ran && one.trouble[0] == 0) continue;
    ++bad;
    fmt::print(stderr, "{}: {}\n", name_of(runs[i]),
               one.ran ? one.trouble.data() : "it was not run");
  }
  fmt::print("{} runs, {} struck, {} with trouble\n", runs.size(), struck, bad);
  if (!told.empty()) {
    std::sort(told.begin(), told.end());
    fmt::print(
        "from the signal to the first survivor's error: median {:.2f} ms, 99th of a hundred "
        "{:.2f} ms, worst {:.2f} ms, {} of {} above 100 ms\n",
        static_cast<double>(told[told.size() / 2]) / 1e6,
        static_cast<double>(told[told.size() * 99 / 100]) / 1e6,
        static_cast<double>(told.back()) / 1e6, late, told.size());
  }
  return bad == 0;
}

int main_of(int count, char** words) {
  const bool list = count == 2 && std::string_view(words[1]) == "--list";
  const Options options = list ? read_options(1, words) : read_options(count, words);
  const auto rehearsals = rehearse(options);
  const bool covered = !options.only.empty() || report_coverage(rehearsals, list);
  if (list) return covered ? 0 : 1;
  auto runs = options.random != 0 ? anywhere(rehearsals, options) : every_step(rehearsals, options);
  std::erase_if(runs, [&](const Run& run) { return !name_of(run).starts_with(options.only); });
  const std::uint64_t started = monotonic_ns();
  const auto outcomes = play(runs, options.jobs);
  const bool good = report(runs, outcomes);
  fmt::print("{:.1f} s by {} workers\n", static_cast<double>(monotonic_ns() - started) / 1e9,
             options.jobs);
  return covered && good ? 0 : 1;
}

}  // namespace
}  // namespace gantry::fault

int main(int count, char** words) {
  try {
    return gantry::fault::main_of(count, words);
  } catch (const std::exception& trouble) {
    fmt::print(stderr, "fault_harness: {}\n", trouble.what());
    return 2;
  }
}
