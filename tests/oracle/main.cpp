// channel_oracle: random scenarios over processes, in which every delivered byte is compared with
// what its sender wrote.
//   channel_oracle --seeds A-B [--jobs N] [--no-kills] [--repeat R] [--theme NAME]
//   channel_oracle --seconds S [--from A] [--jobs N] [--no-kills] [--theme NAME]
//   channel_oracle --show SEED
// Exit 0: all held. docs: tests/oracle/README.md

#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "oracle/conductor.hpp"
#include "oracle/driver.hpp"
#include "oracle/part.hpp"

namespace gantry::oracle {
namespace {

// Beats, and writes down how long it could not.
[[noreturn]] void keep_pulse(Pulse& pulse) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  constexpr std::uint64_t kBeatNs = 2'000'000, kLateNs = 20'000'000;
  for (std::uint64_t last = now_ns();;) {
    sleep_us(kBeatNs / 1000);
    const std::uint64_t now = now_ns();
    if (now - last > kLateNs) pulse.stalled_ns.fetch_add(now - last, std::memory_order_relaxed);
    pulse.beats.fetch_add(1, std::memory_order_release);
    last = now;
  }
}

struct Options {
  Plan plan;
  std::uint64_t repeat = 1;
  bool has_no_kills = false;
};

void play_seed(const Options& options, Office& office, std::uint64_t seed) {
  const Scenario scenario = draw(seed, !options.has_no_kills);
  if (!options.plan.theme.empty() &&
      options.plan.theme != kThemeNames[static_cast<std::size_t>(scenario.theme)])
    return;
  for (std::uint64_t i = 0; i < options.repeat; ++i) {
    const std::uint64_t started = now_ns();
    const std::string trouble = conduct(scenario, office.pulse);
    if (office.pulse.is_over) return;
    ++office.played;
    if (options.plan.is_verbose)
      say(fmt::format("seed {}: {} ms\n", seed, (now_ns() - started) / 1'000'000));
    if (trouble.empty()) continue;
    ++office.failed;
    say(
        fmt::format("\nseed {} failed after {} ms: {}\n{}  again: channel_oracle --seeds {}{} "
                    "--repeat 20 --jobs 1\n",
                    seed, (now_ns() - started) / 1'000'000, trouble, describe(scenario), seed,
                    options.has_no_kills ? " --no-kills" : ""));
    return;
  }
}

int main_of(int count, char** words) {
  Options options;
  std::uint64_t shown = 0;
  options.plan = read_words(count, words, {{"--no-kills", &options.has_no_kills}},
                            {{"--repeat", &options.repeat}, {"--show", &shown}});
  if (shown != 0) {
    fmt::print("{}", describe(draw(shown)));
    return 0;
  }
  ::setenv("GANTRY_CALIBRATE", "off", 1);
  Office& office = make_office();
  const std::uint64_t started = now_ns();
  const pid_t pulse = ::fork();
  if (pulse < 0) throw Trouble("fork");
  if (pulse == 0) keep_pulse(office.pulse);
  const RunEnd end = run_workers(options.plan, office, "channel_oracle", [&](unsigned) {
    return [&](std::uint64_t seed) { play_seed(options, office, seed); };
  });
  ::kill(pulse, SIGKILL);
  ::waitpid(pulse, nullptr, 0);
  fmt::print(
      "{} scenarios from seed {} on, {} failed; {:.1f} s by {} workers, the machine stood "
      "still for {:.1f} s\n",
      office.played.load(), options.plan.first, office.failed.load(),
      static_cast<double>(now_ns() - started) / 1e9, options.plan.jobs,
      static_cast<double>(office.pulse.stalled_ns.load()) / 1e9);
  if (end == RunEnd::interrupted) return 130;
  if (end == RunEnd::died) fmt::print(stderr, "channel_oracle: a worker died\n");
  return end == RunEnd::died || office.failed != 0 ? 1 : 0;
}

}  // namespace
}  // namespace gantry::oracle

int main(int count, char** words) {
  try {
    return gantry::oracle::main_of(count, words);
  } catch (const std::exception& trouble) {
    fmt::print(stderr, "channel_oracle: {}\n", trouble.what());
    return 2;
  }
}
