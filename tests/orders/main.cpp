// any_order: the oracle's scenarios, and a scheduler that decides who runs at each choice point.
//   any_order --seeds A-B [--jobs N] [--theme NAME] [--twice]
//   any_order --seconds S [--from A] [--jobs N] [--theme NAME]
//   any_order --tell SEED [--runs N]    a failing schedule, shrunk by at most N runs, as a story
// --scenario SEED: that seed's scenario, in the orders of the others.
// --lose-rings: one wake-up of eight is lost, which must be found.
// --from today: seeds that no other day has.
// --first: ends with the first failure.
// --twice: each seed is played twice, and must do the same to the last choice.
// Exit 0: all held. docs: docs/decisions/any-order.md

#include <fmt/format.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <new>
#include <thread>

#include "oracle/part.hpp"
#include "orders/play.hpp"
#include "orders/shrink.hpp"
#include "tools/command_line/progress.hpp"

namespace gantry::orders {
namespace {

using oracle::Scenario;
using oracle::Trouble;

struct Options {
  std::uint64_t first = 1, last = ~std::uint64_t{0};
  std::uint64_t seconds = 0;
  unsigned jobs = 1;
  bool is_twice = false;
  bool is_first = false;  // ends with the first failure
  bool loses_rings = false;
  bool is_verbose = false;
  std::uint64_t scenario = 0;  // the same for all seeds; 0: each has its own
  std::uint64_t tells = 0;     // a seed
  unsigned runs = 2000;
  std::string theme;
};

std::uint64_t now_ns() {
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

void say(std::string_view text) {
  const bool is_drawn = cli::progress_style(STDERR_FILENO).is_drawn;
  const std::string whole = std::string(is_drawn ? cli::kEraseLine : "") + std::string(text);
  static_cast<void>(::write(STDERR_FILENO, whole.data(), whole.size()) + 1);
}

/// What the workers share.
struct Office {
  std::atomic<std::uint64_t> next{0}, done{0}, played{0}, failed{0}, choices{0}, switches{0};
  std::atomic<bool> is_over{false};
};

std::uint64_t number_in(const std::string& text) {
  std::size_t used = 0;
  const bool begins_with_digit = !text.empty() && text[0] >= '0' && text[0] <= '9';
  const std::uint64_t number = begins_with_digit ? std::stoull(text, &used) : 0;
  if (!begins_with_digit || used != text.size())
    throw Trouble(fmt::format("'{}' is not a number", text));
  return number;
}

std::uint64_t seed_of_today() {
  constexpr std::uint64_t kSeedsOfADay = 10'000'000;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::days>(now).count()) *
         kSeedsOfADay;
}

Options read_options(int count, char** words) {
  Options options;
  options.jobs = std::max(1u, std::thread::hardware_concurrency());
  for (int i = 1; i < count; ++i) {
    const std::string_view word = words[i];
    if (word == "--twice") {
      options.is_twice = true;
      continue;
    }
    if (word == "--first") {
      options.is_first = true;
      continue;
    }
    if (word == "--lose-rings") {
      options.loses_rings = true;
      continue;
    }
    if (word == "--verbose") {
      options.is_verbose = true;
      continue;
    }
    if (++i == count) throw Trouble(fmt::format("{} is unknown, or needs a value", word));
    const std::string value = words[i];
    if (word == "--seeds") {
      const std::size_t dash = value.find('-');
      options.first = number_in(value.substr(0, dash));
      options.last = dash == value.npos ? options.first : number_in(value.substr(dash + 1));
    } else if (word == "--seconds") {
      options.seconds = number_in(value);
    } else if (word == "--from") {
      options.first = value == "today" ? seed_of_today() : number_in(value);
    } else if (word == "--jobs") {
      options.jobs = static_cast<unsigned>(number_in(value));
    } else if (word == "--scenario") {
      options.scenario = number_in(value);
    } else if (word == "--tell") {
      options.tells = number_in(value);
    } else if (word == "--runs") {
      options.runs = static_cast<unsigned>(number_in(value));
    } else if (word == "--theme") {
      options.theme = value;
    } else {
      throw Trouble(fmt::format("{} is unknown", word));
    }
  }
  return options;
}

Scenario scenario_of(const Options& options, std::uint64_t seed) {
  return options.scenario != 0 ? draw_small(options.scenario, true) : draw_small(seed);
}

void play_seed(Theatre& theatre, const Options& options, Office& office, std::uint64_t seed) {
  const Scenario scenario = scenario_of(options, seed);
  if (!options.theme.empty() &&
      options.theme != oracle::kThemeNames[static_cast<std::size_t>(scenario.theme)])
    return;
  Settings settings = draw_settings(seed, scenario);
  settings.loses_rings = options.loses_rings;
  const std::uint64_t began = now_ns();
  const Outcome outcome = theatre.play(scenario, settings, {}, options.is_twice);
  ++office.played;
  office.choices += outcome.choices;
  office.switches += outcome.switches;
  if (options.is_verbose)
    say(fmt::format("seed {} ({}, {}): {} choices, {} switches, {} us\n", seed,
                    oracle::kThemeNames[static_cast<std::size_t>(scenario.theme)],
                    kStrategyNames[static_cast<int>(settings.strategy)], outcome.choices,
                    outcome.switches, (now_ns() - began) / 1000));
  std::string trouble = outcome.failure;
  if (options.is_twice) {
    const Outcome again = theatre.play(scenario, settings, {}, true);
    if (again.trace != outcome.trace) trouble += difference(outcome, again);
  }
  if (trouble.empty()) return;
  ++office.failed;
  if (options.is_first) office.is_over = true;
  say(fmt::format("\nseed {} failed after {} choices, {} switches: {}\n{}{}", seed, outcome.choices,
                  outcome.switches, trouble, with_places(outcome.waits),
                  oracle::describe(scenario)));
}

// One thread runs at a time, so all of a worker's processes share a CPU: their caches are warm.
void keep_to_one_cpu(unsigned index) {
  cpu_set_t all, one;
  ::sched_getaffinity(0, sizeof all, &all);
  const auto wanted = static_cast<int>(index) % CPU_COUNT(&all);
  CPU_ZERO(&one);
  for (int cpu = 0, seen = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &all) && seen++ == wanted) CPU_SET(cpu, &one);
  ::sched_setaffinity(0, sizeof one, &one);
}

int tell_seed(const Options& options) {
  keep_to_one_cpu(0);
  Theatre theatre;
  const Scenario scenario = scenario_of(options, options.tells);
  const Failing failing =
      shrink(theatre, scenario, draw_settings(options.tells, scenario), options.runs);
  if (failing.outcome.failure.empty()) {
    fmt::print("seed {} holds\n", options.tells);
    return 0;
  }
  fmt::print("{}", tell(failing));
  return 1;
}

[[noreturn]] void work(const Options& options, Office& office, unsigned index) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::signal(SIGINT, SIG_IGN);
  keep_to_one_cpu(index);
  int code = 0;
  try {
    Theatre theatre;
    const std::uint64_t end = now_ns() + options.seconds * 1'000'000'000;
    for (;;) {
      const std::uint64_t seed = options.first + office.next.fetch_add(1);
      if (office.is_over || seed > options.last || (options.seconds != 0 && now_ns() >= end)) break;
      play_seed(theatre, options, office, seed);
      ++office.done;
    }
  } catch (const std::exception& trouble) {
    say(fmt::format("any_order: {}\n", trouble.what()));
    code = 2;
  }
  ::_exit(code);
}

int main_of(int count, char** words) {
  const Options options = read_options(count, words);
  if (options.tells != 0) {
    ::setenv("GANTRY_CALIBRATE", "off", 1);
    return tell_seed(options);
  }
  if (options.seconds == 0 && options.last == ~std::uint64_t{0})
    throw Trouble("say --seeds A-B or --seconds S");
  ::setenv("GANTRY_CALIBRATE", "off", 1);
  void* const at =
      ::mmap(nullptr, sizeof(Office), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) throw Trouble("mmap");
  Office& office = *new (at) Office;
  const std::uint64_t began = now_ns();
  sigset_t signals;
  ::sigemptyset(&signals);
  for (const int number : {SIGINT, SIGTERM, SIGCHLD}) ::sigaddset(&signals, number);
  std::vector<pid_t> workers;
  for (unsigned i = 0; i < options.jobs; ++i) {
    const pid_t pid = ::fork();
    if (pid == 0) work(options, office, i);
    workers.push_back(pid);
  }
  ::sigprocmask(SIG_BLOCK, &signals, nullptr);
  cli::Progress progress("any order");
  bool has_died = false;
  while (!workers.empty()) {
    const double passed = static_cast<double>(now_ns() - began) / 1e9;
    const double whole = static_cast<double>(options.last - options.first + 1);
    progress.show(
        fmt::format("schedules, {} failed", office.failed.load()),
        std::min(1.0, options.seconds != 0 ? passed / static_cast<double>(options.seconds)
                                           : static_cast<double>(office.done.load()) / whole),
        fmt::to_string(office.done.load()));
    constexpr timespec kTick{0, 200'000'000};
    const int number = ::sigtimedwait(&signals, nullptr, &kTick);
    if (number == SIGINT || number == SIGTERM) office.is_over = true;
    std::erase_if(workers, [&](pid_t worker) {
      int status = 0;
      const bool is_over = ::waitpid(worker, &status, WNOHANG) == worker;
      has_died |= is_over && status != 0;
      return is_over;
    });
  }
  progress.clear();
  const double passed = static_cast<double>(now_ns() - began) / 1e9;
  const double played = static_cast<double>(std::max<std::uint64_t>(1, office.played));
  fmt::print(
      "{} schedules from seed {} on, {} failed; {:.1f} s by {} workers, {:.1f} each second; "
      "{:.0f} choices and {:.0f} switches each\n",
      office.played.load(), options.first, office.failed.load(), passed, options.jobs,
      static_cast<double>(office.played) / passed, static_cast<double>(office.choices) / played,
      static_cast<double>(office.switches) / played);
  if (office.is_over && office.failed == 0) return 130;
  return has_died || office.failed != 0 ? 1 : 0;
}

}  // namespace
}  // namespace gantry::orders

int main(int count, char** words) {
  try {
    return gantry::orders::main_of(count, words);
  } catch (const std::exception& trouble) {
    fmt::print(stderr, "any_order: {}\n", trouble.what());
    return 2;
  }
}
