// channel_oracle: random scenarios over processes, in which every delivered byte is compared with
// what its sender wrote.
//   channel_oracle --seeds A-B [--jobs N] [--no-kills] [--repeat R] [--theme NAME]
//   channel_oracle --seconds S [--from A] [--jobs N] [--no-kills] [--theme NAME]
//   channel_oracle --show SEED
// Exit 0: all held. docs: tests/oracle/README.md

#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <new>
#include <thread>

#include "oracle/conductor.hpp"
#include "oracle/part.hpp"
#include "tools/command_line/progress.hpp"

namespace gantry::oracle {
namespace {

struct Options {
  std::uint64_t first = 1, last = ~std::uint64_t{0};
  std::uint64_t seconds = 0;
  unsigned repeat = 1;
  unsigned jobs = 1;
  bool kills = true;
  bool is_verbose = false;
  std::string theme;
};

/// Says it above the line that the first process draws.
void say(std::string_view text) {
  const bool is_drawn = cli::progress_style(STDERR_FILENO).is_drawn;
  const std::string whole = std::string(is_drawn ? cli::kEraseLine : "") + std::string(text);
  static_cast<void>(::write(STDERR_FILENO, whole.data(), whole.size()) + 1);
}

/// What the workers share.
struct Office {
  std::atomic<std::uint64_t> next{0};
  std::atomic<std::uint64_t> done{0};  // seeds; played: each of their repetitions
  std::atomic<std::uint64_t> played{0};
  std::atomic<std::uint64_t> failed{0};
  Pulse pulse;
};

std::uint64_t number_in(const std::string& text) {
  std::size_t used = 0;
  const bool begins_with_digit = !text.empty() && text[0] >= '0' && text[0] <= '9';
  const std::uint64_t number = begins_with_digit ? std::stoull(text, &used) : 0;
  if (!begins_with_digit || used != text.size())
    throw Trouble(fmt::format("'{}' is no number", text));
  return number;
}

Options read_options(int count, char** words) {
  Options options;
  options.jobs = std::max(1u, std::thread::hardware_concurrency());
  for (int i = 1; i < count; ++i) {
    const std::string_view word = words[i];
    if (word == "--no-kills") {
      options.kills = false;
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
      options.first = number_in(value);
    } else if (word == "--repeat") {
      options.repeat = static_cast<unsigned>(number_in(value));
    } else if (word == "--jobs") {
      options.jobs = static_cast<unsigned>(number_in(value));
    } else if (word == "--theme") {
      options.theme = value;
    } else {
      throw Trouble(fmt::format("{} is unknown", word));
    }
  }
  return options;
}

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

void play_seed(const Options& options, Office& office, std::uint64_t seed) {
  const Scenario scenario = draw(seed, options.kills);
  if (!options.theme.empty() &&
      options.theme != kThemeNames[static_cast<std::size_t>(scenario.theme)])
    return;
  for (unsigned i = 0; i < options.repeat; ++i) {
    const std::uint64_t started = now_ns();
    const std::string trouble = conduct(scenario, office.pulse);
    if (office.pulse.is_over) return;
    ++office.played;
    if (options.is_verbose)
      say(fmt::format("seed {}: {} ms\n", seed, (now_ns() - started) / 1'000'000));
    if (trouble.empty()) continue;
    ++office.failed;
    const std::string text = fmt::format(
        "\nseed {} failed after {} ms: {}\n{}  again: channel_oracle --seeds {}{} "
        "--repeat 20 --jobs 1\n",
        seed, (now_ns() - started) / 1'000'000, trouble, describe(scenario), seed,
        options.kills ? "" : " --no-kills");
    say(text);
    return;
  }
}

[[noreturn]] void work(const Options& options, Office& office) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const std::uint64_t end = now_ns() + options.seconds * 1'000'000'000;
  for (;;) {
    const std::uint64_t seed = options.first + office.next.fetch_add(1);
    if (office.pulse.is_over || seed > options.last || (options.seconds != 0 && now_ns() >= end))
      break;
    play_seed(options, office, seed);
    if (!office.pulse.is_over) ++office.done;
  }
  ::_exit(0);
}

template <class Body>
pid_t start(Body body) {
  const pid_t pid = ::fork();
  if (pid < 0) throw Trouble("fork");
  if (pid == 0) body();
  return pid;
}

void show(cli::Progress& progress, const Options& options, const Office& office,
          std::uint64_t passed_ns) {
  const std::uint64_t done = office.done;
  const bool is_timed = options.seconds != 0;
  const std::uint64_t seeds = options.last - options.first + 1;
  const double part =
      is_timed ? static_cast<double>(passed_ns) / 1e9 / static_cast<double>(options.seconds)
               : static_cast<double>(done) / static_cast<double>(seeds);
  progress.show(fmt::format("random scenarios, {} failed", office.failed.load()),
                std::min(1.0, part),
                is_timed ? fmt::to_string(done) : fmt::format("{}/{}", done, seeds));
}

enum class RunEnd { well, died, interrupted };

/// Waits for the workers and shows how far they are. Ctrl-C has them clean up and end.
RunEnd attend(std::vector<pid_t> workers, const Options& options, Office& office) {
  constexpr timespec kTick{0, 200'000'000};
  sigset_t signals;
  ::sigemptyset(&signals);
  for (const int number : {SIGCHLD, SIGINT, SIGTERM}) ::sigaddset(&signals, number);
  ::sigprocmask(SIG_BLOCK, &signals, nullptr);
  cli::Progress progress("channel_oracle");
  const std::uint64_t started = now_ns();
  RunEnd end = RunEnd::well;
  while (!workers.empty()) {
    show(progress, options, office, now_ns() - started);
    const int number = ::sigtimedwait(&signals, nullptr, &kTick);
    if (number == SIGINT || number == SIGTERM) {
      end = RunEnd::interrupted;
      office.pulse.is_over = true;
    }
    std::erase_if(workers, [&](pid_t worker) {
      int status = 0;
      const bool is_over = ::waitpid(worker, &status, WNOHANG) == worker;
      if (is_over && status != 0 && end == RunEnd::well) end = RunEnd::died;
      return is_over;
    });
  }
  return end;
}

int main_of(int count, char** words) {
  if (count == 3 && std::string_view(words[1]) == "--show") {
    fmt::print("{}", describe(draw(number_in(words[2]))));
    return 0;
  }
  const Options options = read_options(count, words);
  if (options.seconds == 0 && options.last == ~std::uint64_t{0})
    throw Trouble("say --seeds A-B or --seconds S");
  ::setenv("GANTRY_CALIBRATE", "off", 1);
  void* const at =
      ::mmap(nullptr, sizeof(Office), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) throw Trouble("mmap");
  Office& office = *new (at) Office;
  const std::uint64_t started = now_ns();
  std::signal(SIGINT, SIG_IGN);  // the terminal's, for those who are started; attend() waits for it
  const pid_t pulse = start([&] { keep_pulse(office.pulse); });
  std::vector<pid_t> workers;
  for (unsigned i = 0; i < options.jobs; ++i)
    workers.push_back(start([&] { work(options, office); }));
  const RunEnd end = attend(std::move(workers), options, office);
  ::kill(pulse, SIGKILL);
  ::waitpid(pulse, nullptr, 0);
  fmt::print(
      "{} scenarios from seed {} on, {} failed; {:.1f} s by {} workers, the machine stood "
      "still for {:.1f} s\n",
      office.played.load(), options.first, office.failed.load(),
      static_cast<double>(now_ns() - started) / 1e9, options.jobs,
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
