#include "oracle/driver.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <new>
#include <thread>

#include "oracle/part.hpp"
#include "tools/command_line/progress.hpp"

namespace gantry::oracle {
namespace {

// Ten million for each day since 1970.
std::uint64_t seed_of_today() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::days>(now).count()) *
         10'000'000;
}

void read_seeds(Plan& plan, const std::string& value) {
  const std::size_t dash = value.find('-');
  plan.first = number_in(value.substr(0, dash));
  plan.last = dash == value.npos ? plan.first : number_in(value.substr(dash + 1));
}

[[noreturn]] void work(const Plan& plan, Office& office, unsigned index,
                       const std::function<PlaySeed(unsigned)>& begin) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  int code = 0;
  try {
    const PlaySeed play = begin(index);
    const std::uint64_t end = now_ns() + plan.seconds * 1'000'000'000;
    for (;;) {
      const std::uint64_t seed = plan.first + office.next.fetch_add(1);
      if (office.pulse.is_over || seed > plan.last || (plan.seconds != 0 && now_ns() >= end)) break;
      play(seed);
      if (!office.pulse.is_over) ++office.done;
    }
  } catch (const std::exception& trouble) {
    say(fmt::format("a worker: {}\n", trouble.what()));
    code = 2;
  }
  ::_exit(code);
}

void show(cli::Progress& progress, const Plan& plan, const Office& office,
          std::uint64_t passed_ns) {
  const std::uint64_t done = office.done;
  const bool is_timed = plan.seconds != 0;
  const std::uint64_t seeds = plan.last - plan.first + 1;
  const double part = is_timed
                          ? static_cast<double>(passed_ns) / 1e9 / static_cast<double>(plan.seconds)
                          : static_cast<double>(done) / static_cast<double>(seeds);
  progress.show(fmt::format("scenarios, {} failed", office.failed.load()), std::min(1.0, part),
                is_timed ? fmt::to_string(done) : fmt::format("{}/{}", done, seeds));
}

// Ctrl-C has the workers clean up and end.
RunEnd attend(std::vector<pid_t> workers, const Plan& plan, Office& office, const char* name) {
  constexpr timespec kTick{0, 200'000'000};
  sigset_t signals;
  ::sigemptyset(&signals);
  for (const int number : {SIGCHLD, SIGINT, SIGTERM}) ::sigaddset(&signals, number);
  ::sigprocmask(SIG_BLOCK, &signals, nullptr);
  cli::Progress progress(name);
  const std::uint64_t started = now_ns();
  RunEnd end = RunEnd::well;
  while (!workers.empty()) {
    show(progress, plan, office, now_ns() - started);
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

}  // namespace

std::uint64_t number_in(const std::string& text) {
  std::size_t used = 0;
  const bool begins_with_digit = !text.empty() && text[0] >= '0' && text[0] <= '9';
  const std::uint64_t number = begins_with_digit ? std::stoull(text, &used) : 0;
  if (!begins_with_digit || used != text.size())
    throw Trouble(fmt::format("'{}' is not a number", text));
  return number;
}

Plan read_words(int count, char** words, Flags flags, Numbers numbers) {
  Plan plan;
  plan.jobs = std::max(1u, std::thread::hardware_concurrency());
  flags.push_back({"--verbose", &plan.is_verbose});
  numbers.insert(numbers.end(), {{"--seconds", &plan.seconds}, {"--jobs", &plan.jobs}});
  const auto find = [](auto& all, std::string_view name) {
    return std::find_if(all.begin(), all.end(), [&](const auto& one) { return one.name == name; });
  };
  for (int i = 1; i < count; ++i) {
    const std::string_view word = words[i];
    if (const auto flag = find(flags, word); flag != flags.end()) {
      *flag->value = true;
      continue;
    }
    if (++i == count) throw Trouble(fmt::format("{} is unknown, or needs a value", word));
    const std::string value = words[i];
    if (word == "--seeds")
      read_seeds(plan, value);
    else if (word == "--from")
      plan.first = value == "today" ? seed_of_today() : number_in(value);
    else if (word == "--theme")
      plan.theme = value;
    else if (const auto number = find(numbers, word); number != numbers.end())
      *number->value = number_in(value);
    else
      throw Trouble(fmt::format("{} is unknown", word));
  }
  return plan;
}

void say(std::string_view text) {
  const bool is_drawn = cli::progress_style(STDERR_FILENO).is_drawn;
  const std::string whole = std::string(is_drawn ? cli::kEraseLine : "") + std::string(text);
  static_cast<void>(::write(STDERR_FILENO, whole.data(), whole.size()) + 1);
}

Office& make_office() {
  void* const at =
      ::mmap(nullptr, sizeof(Office), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) throw Trouble("mmap");
  std::signal(SIGINT, SIG_IGN);  // the terminal's, for those who are started; attend() waits for it
  return *new (at) Office;
}

RunEnd run_workers(const Plan& plan, Office& office, const char* name,
                   const std::function<PlaySeed(unsigned)>& begin) {
  if (plan.seconds == 0 && plan.last == ~std::uint64_t{0})
    throw Trouble("say --seeds A-B or --seconds S");
  std::vector<pid_t> workers;
  for (unsigned i = 0; i < plan.jobs; ++i) {
    const pid_t pid = ::fork();
    if (pid < 0) throw Trouble("fork");
    if (pid == 0) work(plan, office, i, begin);
    workers.push_back(pid);
  }
  return attend(std::move(workers), plan, office, name);
}

}  // namespace gantry::oracle
