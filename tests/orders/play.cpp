#include "orders/play.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "core/channel/wire/step.hpp"
#include "oracle/conductor.hpp"
#include "oracle/part.hpp"
#include "orders/fibers.hpp"

namespace gantry {

// The library's labelled steps are choice points.
void reached_step(Step step) noexcept {
  orders::choose(orders::Kind::step, __builtin_return_address(0),
                 kStepNames[static_cast<std::size_t>(step)].data());
}

// Where a seed says so they begin near an end of theirs.
std::uint64_t first_number() noexcept {
  return orders::stage == nullptr ? 0 : orders::stage->settings.first_number;
}

}  // namespace gantry

namespace gantry::orders {
namespace {

using oracle::Play;
using oracle::Role;
using oracle::Scenario;

constexpr unsigned kHungMs = 5000;  // real time without a choice

void ring_bell(int) {
  if (stage == nullptr) return;
  __atomic_store_n(&stage->bell, 1u, __ATOMIC_SEQ_CST);
}

template <class T>
T* map_shared() {
  void* const at = ::mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) oracle::give_up("no memory for the stage");
  return static_cast<T*>(at);
}

// Never a whole group: a process that was not made has no number.
void kill_process(pid_t pid) {
  if (pid > 0) ::kill(pid, SIGKILL);
}

// False: it lives on for so long.
bool await_death(pid_t pid, int real_ms) {
  const auto life = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
  if (life < 0) return true;
  pollfd entry{life, POLLIN, 0};
  int ready = -1;
  while (ready < 0) ready = ::poll(&entry, 1, real_ms);
  ::close(life);
  return ready > 0;
}

struct Actor {
  int process = -1;  // of its newest life
  unsigned life = 0;
  bool has_finished = false;
};

class Conductor {
 public:
  Conductor(const Scenario& scenario, const std::string& folder, oracle::Board& board,
            oracle::Pulse& pulse)
      : scenario_(scenario),
        folder_(folder),
        board_(board),
        pulse_(pulse),
        actors_(scenario.roles.size()) {}

  void run() {
    for (unsigned i = 0; i < actors_.size(); ++i) start(i);
    while (!all_finished() && !stage->has_failed && !board_.has_failed) {
      let_run();
      Called called = Called::signal;
      while (!stage->has_failed && (called = await_call(kHungMs)) == Called::signal)
        see_unexpected_death();
      if (called == Called::hung) note_hang();
      see_deaths();
      tell_who_is_over(scenario_, board_, [&](std::size_t i) { return actors_[i].has_finished; });
    }
    const std::string waits =
        ends_ + (stage->has_failed || board_.has_failed ? describe_waits() : "");
    std::snprintf(stage->waits, sizeof stage->waits, "%s", waits.c_str());
    kill_all();
  }

  static void note_hang() {
    note_failure("thread %u makes no choice, since @%#lx: it sleeps outside the harness",
                 stage->current, static_cast<unsigned long>(stage->thread[stage->current].place));
  }

 private:
  [[nodiscard]] bool all_finished() const {
    return std::all_of(actors_.begin(), actors_.end(),
                       [](const Actor& actor) { return actor.has_finished; });
  }

  void start(unsigned index) {
    Actor& actor = actors_[index];
    board_.desks[index].will_come_again = false;
    actor.process = add_process(index, actor.life);
    if (scenario_.is_one_process) return start_as_thread(index);
    Process& process = stage->process[actor.process];
    process.may_die = actor.life + 1 < scenario_.roles[index].lives;
    const int thread = add_thread(static_cast<unsigned>(actor.process));
    const pid_t pid = ::fork();
    if (pid < 0) oracle::give_up("fork");
    if (pid != 0) {
      process.pid = pid;
      return;
    }
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::signal(SIGCHLD, SIG_DFL);  // the bell is the referee's
    self = thread;
    take_token();
    end_process(perform(scenario_, index, actor.life, folder_, board_, pulse_));
  }
  void start_as_thread(unsigned index) {
    pthread_t thread{};
    const auto run = [](void* conductor) -> void* {
      auto& it = *static_cast<Conductor*>(conductor);
      const Process& mine = stage->process[me().process];
      end_process(perform(it.scenario_, mine.role, mine.life, it.folder_, it.board_, it.pulse_));
    };
    if (start_thread(static_cast<unsigned>(actors_[index].process), &thread, nullptr, run, this))
      oracle::give_up("no thread");
  }

  // Those who were to be killed, who ended by themselves, and who died of something else.
  void see_deaths() {
    for (unsigned i = 0; i < stage->processes; ++i) {
      Process& process = stage->process[i];
      if (!process.is_alive) continue;
      const bool is_orphan = process.parent != i && stage->process[process.parent].is_doomed;
      if (process.is_doomed || is_orphan) {
        process.is_doomed = true;
        kill_process(process.pid);
      }
      if (process.is_doomed || process.is_exiting) bury(i, process.is_doomed);
    }
  }
  void see_unexpected_death() {
    siginfo_t one{};
    if (::waitid(P_ALL, 0, &one, WEXITED | WNOHANG | WNOWAIT) != 0 || one.si_pid == 0) return;
    for (unsigned i = 0; i < stage->processes; ++i)
      if (const Process& process = stage->process[i];
          process.pid == one.si_pid && process.is_alive) {
        if (process.is_exiting || process.is_doomed) return;
        note_failure("%s was ended by signal %d in %s",
                     name_of(scenario_, process.role, process.life).c_str(), one.si_status,
                     board_.desks[process.role].doing.data());
        return;
      }
    ::waitpid(one.si_pid, nullptr, WNOHANG);  // a copy whose parent is gone
  }
  void bury(unsigned index, bool was_killed) {
    Process& process = stage->process[index];
    if (process.pid > 0) await_death(process.pid, -1);
    process.is_alive = false;
    for (unsigned i = 0; i < stage->threads; ++i)
      if (stage->thread[i].process == index) stage->thread[i].state = State::over;
    note_io();
    wake(Wait::process, static_cast<std::uint64_t>(process.pid), kMostThreads);
    if (process.parent != index) return;
    if (process.pid > 0) ::waitpid(process.pid, nullptr, 0);
    if (was_killed)
      ends_ +=
          fmt::format("  {} was killed in {}\n", name_of(scenario_, process.role, process.life),
                      board_.desks[process.role].doing.data());
    Actor& actor = actors_[process.role];
    if (was_killed || board_.desks[process.role].will_come_again) {
      ++actor.life;
      start(process.role);
    } else {
      actor.has_finished = true;
    }
  }
  static void kill_all() {
    for (unsigned i = 0; i < stage->processes; ++i)
      if (stage->process[i].is_alive) kill_process(stage->process[i].pid);
    while (::waitpid(-1, nullptr, 0) > 0) {
    }
  }

  [[nodiscard]] std::string describe_waits() const {
    std::string text;
    for (unsigned i = 0; i < stage->threads; ++i) {
      const Thread& thread = stage->thread[i];
      if (thread.state == State::over || !stage->process[thread.process].is_alive) continue;
      text += fmt::format("  {}: ", name_of_thread(scenario_, i));
      if (thread.state == State::blocked)
        text += fmt::format(
            "waits for {} in {} ({:#x}){}", kWaitNames[static_cast<int>(thread.wait)], thread.what,
            thread.on,
            thread.deadline_ns == kNever
                ? ""
                : fmt::format(", for {} us more", (thread.deadline_ns - stage->now_ns) / 1000));
      else
        text += i == stage->current ? "runs" : "could run";
      text += fmt::format(", at @{:#x}, in {}\n", thread.place,
                          board_.desks[stage->process[thread.process].role].doing.data());
    }
    return text;
  }

  const Scenario& scenario_;
  const std::string& folder_;
  oracle::Board& board_;
  oracle::Pulse& pulse_;
  std::vector<Actor> actors_;
  std::string ends_;
};

// All roles in one child of this process.
void run_in_one_process(Conductor& conductor, const Scenario& scenario, oracle::Board& board,
                        const oracle::Footprint& before) {
  const pid_t child = ::fork();
  if (child < 0) oracle::give_up("fork");
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    conductor.run();
    try {
      if (!stage->has_failed && !board.has_failed)
        check_footprint(before, static_cast<unsigned>(scenario.roles.size()));
    } catch (const std::exception& trouble) {
      board.fail(trouble.what());
    }
    ::_exit(0);
  }
  for (std::uint64_t choices = kNever; !await_death(child, kHungMs);) {
    if (choices == stage->choices) {
      Conductor::note_hang();
      ::kill(child, SIGKILL);
    }
    choices = stage->choices;
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  if (!WIFSIGNALED(status)) return;
  const std::string who =
      stage->current < stage->threads ? name_of_thread(scenario, stage->current) : "the referee";
  note_failure("%s ended by signal %d", who.c_str(), WTERMSIG(status));
}

}  // namespace

std::string name_of_thread(const Scenario& scenario, unsigned thread) {
  if (thread >= stage->threads) return "the referee";
  const Process& process = stage->process[stage->thread[thread].process];
  unsigned first = thread;
  while (first > 0 && stage->thread[first - 1].process == stage->thread[thread].process) --first;
  return fmt::format("thread {} of {}{}", thread, name_of(scenario, process.role, process.life),
                     first == thread ? "" : ", a thread of the library");
}

Theatre::Theatre() {
  std::string above = "/dev/shm/any-order-XXXXXX";
  if (::mkdtemp(above.data()) == nullptr) oracle::give_up("no temporary directory");
  folder_ = above + "/channels";
  ::mkdir(folder_.c_str(), 0700);
  board_ = map_shared<oracle::Board>();
  pulse_ = map_shared<oracle::Pulse>();
  stage = map_shared<Stage>();
  std::snprintf(stage->copies, sizeof stage->copies, "%s", above.c_str());
  for (const std::string file : kCopied)
    std::ofstream(above + file.substr(file.rfind('/'))) << std::ifstream(file).rdbuf();
  stage->beats = reinterpret_cast<std::uint64_t*>(&pulse_->beats);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  struct sigaction action{};
  action.sa_handler = &ring_bell;
  ::sigaction(SIGCHLD, &action, nullptr);
  // What a process asks the machine once is asked here, once for all.
  static_cast<void>(Runtime::create({.directory = folder_, .engine = "inline"}));
  footprint_ = oracle::Footprint::take();
}

Theatre::~Theatre() {
  ::munmap(board_, sizeof(oracle::Board));
  std::error_code ignored;
  std::filesystem::remove_all(stage->copies, ignored);
}

Outcome Theatre::play(const Scenario& scenario, const Settings& settings,
                      const std::vector<Decision>& plan, bool keeps_decisions) {
  ::madvise(board_, sizeof(oracle::Board), MADV_REMOVE);
  begin_run(settings, scenario.is_one_process);
  stage->planned = static_cast<std::uint32_t>(std::min<std::size_t>(plan.size(), kMostDecisions));
  std::copy_n(plan.begin(), stage->planned, stage->plan);
  Conductor conductor(scenario, folder_, *board_, *pulse_);
  if (scenario.is_one_process)
    run_in_one_process(conductor, scenario, *board_, footprint_);
  else
    conductor.run();
  Outcome outcome;
  outcome.waits = stage->waits;
  outcome.choices = stage->choices;
  outcome.switches = stage->switches;
  outcome.faults = stage->faults;
  outcome.trace = stage->trace;
  if (keeps_decisions)
    outcome.decisions.assign(stage->decision, stage->decision + stage->decisions);
  try {
    if (stage->has_failed) oracle::give_up(stage->failure);
    if (!board_->has_failed) judge(scenario, *board_);
    if (!board_->has_failed && !std::filesystem::is_empty(folder_)) {
      // One that was killed leaves its name to whoever looks next: maybe nobody has.
      static_cast<void>(list_channels(folder_));
      for (const auto& entry : std::filesystem::directory_iterator(folder_))
        oracle::give_up(fmt::format("{} stays behind", entry.path().filename().string()));
    }
  } catch (const std::exception& trouble) {
    board_->fail(trouble.what());
  }
  if (board_->has_failed)
    outcome.failure =
        std::string(board_->failure.data()) + "\n" + oracle::describe_sessions(*board_);
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder_))
    std::filesystem::remove_all(entry.path(), ignored);
  return outcome;
}

// Descriptors and memory run short. The other themes' roles do not know how to bear that.
static bool is_starved(std::uint64_t seed) {
  return oracle::theme_of(seed) == oracle::Theme::any && oracle::Dice(seed, 4713).chance(50);
}

Scenario draw_small(std::uint64_t seed, bool keeps_options) {
  Scenario scenario = oracle::draw(seed);
  oracle::Dice dice(seed, 4711);
  scenario.blows.clear();
  scenario.largest = std::min<Bytes>(scenario.largest, dice.chance(80) ? 4097 : 130 * 1024);
  scenario.options.pool.slab_bytes = std::min<Bytes>(scenario.options.pool.slab_bytes, 1 << 20);
  const bool is_tight = dice.chance(40);
  if (!keeps_options) {
    scenario.options.slots =
        is_tight ? static_cast<unsigned>(dice.between(1, 2)) : std::min(scenario.options.slots, 8u);
    scenario.options.history = std::min(scenario.options.history, scenario.options.slots);
  }
  if (dice.chance(80)) scenario.engine = "inline";
  for (Role& role : scenario.roles) {
    role.messages = std::min(role.messages, static_cast<unsigned>(dice.between(2, 14)));
    role.lives = std::min(role.lives, 3u);
    role.forks = std::min(role.forks, 1u);
    role.max_descriptors = 0;
    role.max_more_memory = 0;
    role.leaves *= role.play == Play::work ? 1 : 5;
  }
  if (is_starved(seed)) scenario.roles.front().max_descriptors = 512;  // enough: calls are refused
  scenario.is_timeless = true;
  const bool has_copies = std::any_of(scenario.roles.begin(), scenario.roles.end(),
                                      [](const Role& role) { return role.forks != 0; });
  // Only processes can be copied and die.
  scenario.is_one_process = !keeps_options && !has_copies && !scenario.is_starved() &&
                            can_change_threads() && oracle::Dice(seed, 4714).chance(90);
  return scenario;
}

Settings draw_settings(std::uint64_t seed, const Scenario& scenario) {
  oracle::Dice dice(seed, 4712);
  Settings it{};
  it.seed = seed;
  const std::uint64_t which = dice.up_to(99);
  it.strategy = which < 60 ? Strategy::random : which < 90 ? Strategy::pct : Strategy::one_moved;
  it.one_in = dice.any_of<std::uint32_t>({2, 8, 32, 128, 512});
  it.length = dice.any_of<std::uint32_t>({1000, 4000, 16'000, 64'000});
  it.depth = static_cast<std::uint32_t>(it.strategy == Strategy::pct ? dice.between(1, 5)
                                                                     : dice.up_to(it.length));
  it.blows = dice.chance(50) ? static_cast<std::uint32_t>(dice.between(1, 3)) : 0;
  it.refusals = dice.chance(30) ? dice.any_of<std::uint32_t>({10, 50, 200}) : 0;
  it.starves = scenario.is_starved() ? dice.any_of<std::uint32_t>({15, 60, 240}) : 0;
  if (it.blows == 0 && !scenario.is_one_process)  // which is there for this
    it.blows = static_cast<std::uint32_t>(oracle::Dice(seed, 4716).between(1, 3));
  it.most_choices = 3'000'000;
  // Near the ends of 8 to 55 bits (of a number a consumer keeps 56), and of milliseconds and
  // microseconds in 32 bits.
  oracle::Dice long_life(seed, 4715);
  it.begins_ns = 1'000'000'000'000;
  if (long_life.chance(25)) {
    it.first_number =
        (std::uint64_t{1} << long_life.any_of({8, 16, 31, 32, 48, 55})) - long_life.between(1, 6);
    it.begins_ns =
        (std::uint64_t{1} << 32) * long_life.any_of<std::uint64_t>({1, 1000, 1'000'000}) -
        long_life.up_to(3'000'000);
  }
  it.fair_from = 60'000;
  return it;
}

}  // namespace gantry::orders
