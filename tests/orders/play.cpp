#include "orders/play.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "core/channel/wire/step.hpp"
#include "oracle/conductor.hpp"
#include "oracle/part.hpp"

namespace gantry {

// The library's labelled steps are choice points.
void reached_step(Step step) noexcept {
  orders::choose(orders::Kind::step, __builtin_return_address(0),
                 kStepNames[static_cast<std::size_t>(step)].data());
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
T* map_shared(std::size_t bytes) {
  void* const at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) oracle::give_up("no memory for the stage");
  return static_cast<T*>(at);
}

// Never a whole group: a process that was not made has no number.
void kill_process(pid_t pid) {
  if (pid > 0) ::kill(pid, SIGKILL);
}

void await_death(pid_t pid) {
  const auto life = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
  if (life < 0) return;
  pollfd entry{life, POLLIN, 0};
  while (::poll(&entry, 1, -1) < 0) {
  }
  ::close(life);
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
      if (called == Called::hung)
        note_failure("thread %u makes no choice, since @%#lx: it sleeps outside the harness",
                     stage->current,
                     static_cast<unsigned long>(stage->thread[stage->current].place));
      see_deaths();
      tell_who_is_over();
    }
    waits_ = ends_ + (stage->has_failed || board_.has_failed ? describe_waits() : "");
    kill_all();
  }
  [[nodiscard]] const std::string& waits() const noexcept { return waits_; }

 private:
  [[nodiscard]] bool all_finished() const {
    return std::all_of(actors_.begin(), actors_.end(),
                       [](const Actor& actor) { return actor.has_finished; });
  }

  void start(unsigned index) {
    Actor& actor = actors_[index];
    board_.desks[index].will_come_again = false;
    actor.process = add_process(index, actor.life);
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
    end_process(perform(index, actor.life));
  }
  int perform(unsigned index, unsigned life) {
    const Role& role = scenario_.roles[index];
    if (life == 0 && role.starts_us != 0) oracle::sleep_us(role.starts_us);
    try {
      const RuntimeOptions options{
          .directory = folder_, .engine = scenario_.engine, .require_engine = false};
      auto runtime = Runtime::create(options);
      while (!runtime && scenario_.is_starved()) runtime = Runtime::create(options);
      if (!runtime) oracle::give_up("no runtime", runtime.error());
      oracle::Part part{.scenario = scenario_,
                        .role = role,
                        .index = index,
                        .life = life,
                        .directory = folder_,
                        .board = board_,
                        .pulse = pulse_,
                        .runtime = *runtime,
                        .dice = oracle::Dice(scenario_.seed, 100 + index, life)};
      oracle::play(part);
      return 0;
    } catch (const std::exception& trouble) {
      board_.fail(fmt::format("role {} ({}, life {}): {}", index,
                              oracle::kPlayNames[static_cast<std::size_t>(role.play)], life,
                              trouble.what()));
      return 1;
    }
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
      if (stage->process[i].pid == one.si_pid && stage->process[i].is_alive) {
        if (stage->process[i].is_exiting || stage->process[i].is_doomed) return;
        note_failure("%s was ended by signal %d in %s", name_of_role(i).c_str(), one.si_status,
                     board_.desks[stage->process[i].role].doing.data());
        return;
      }
    ::waitpid(one.si_pid, nullptr, WNOHANG);  // a copy whose parent is gone
  }
  void bury(unsigned index, bool was_killed) {
    Process& process = stage->process[index];
    await_death(process.pid);
    process.is_alive = false;
    for (unsigned i = 0; i < stage->threads; ++i)
      if (stage->thread[i].process == index) stage->thread[i].state = State::over;
    note_io();
    wake(Wait::process, static_cast<std::uint64_t>(process.pid), kMostThreads);
    if (process.parent != index) return;
    ::waitpid(process.pid, nullptr, 0);
    if (was_killed)
      ends_ += fmt::format("  {} was killed in {}\n", name_of_role(index),
                           board_.desks[process.role].doing.data());
    Actor& actor = actors_[process.role];
    if (was_killed || board_.desks[process.role].will_come_again) {
      ++actor.life;
      start(process.role);
    } else {
      actor.has_finished = true;
    }
  }
  void kill_all() {
    for (unsigned i = 0; i < stage->processes; ++i)
      if (stage->process[i].is_alive) kill_process(stage->process[i].pid);
    while (::waitpid(-1, nullptr, 0) > 0) {
    }
  }

  // Nobody sends on a channel any more when all who do have ended for good.
  void tell_who_is_over() {
    std::array<bool, 2> sends{};
    for (std::size_t i = 0; i < actors_.size(); ++i) {
      if (actors_[i].has_finished) continue;
      const Play play = scenario_.roles[i].play;
      if (play == Play::produce || play == Play::deliver || play == Play::call) sends[0] = true;
      if (play == Play::relay) sends[1] = true;
    }
    for (std::size_t i = 0; i < sends.size(); ++i)
      if (!sends[i]) board_.is_over[i].store(true, std::memory_order_release);
  }

  [[nodiscard]] std::string name_of_role(unsigned process) const {
    const Process& it = stage->process[process];
    return fmt::format("role {} ({}, life {})", it.role,
                       oracle::kPlayNames[static_cast<std::size_t>(scenario_.roles[it.role].play)],
                       it.life);
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
  std::string ends_, waits_;
};

}  // namespace

std::string name_of_thread(const Scenario& scenario, unsigned thread) {
  if (thread >= stage->threads) return "the referee";
  const Process& process = stage->process[stage->thread[thread].process];
  unsigned first = thread;
  while (first > 0 && stage->thread[first - 1].process == stage->thread[thread].process) --first;
  return fmt::format(
      "thread {} (role {} {}, life {}{})", thread, process.role,
      oracle::kPlayNames[static_cast<std::size_t>(scenario.roles[process.role].play)], process.life,
      first == thread ? "" : ", a thread of the library");
}

Theatre::Theatre() {
  folder_ = "/dev/shm/any-order-XXXXXX";
  if (::mkdtemp(folder_.data()) == nullptr) oracle::give_up("no temporary directory");
  board_ = map_shared<oracle::Board>(sizeof(oracle::Board));
  pulse_ = map_shared<oracle::Pulse>(sizeof(oracle::Pulse));
  stage = map_shared<Stage>(sizeof(Stage));
  stage->beats = reinterpret_cast<std::uint64_t*>(&pulse_->beats);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  struct sigaction action{};
  action.sa_handler = &ring_bell;
  ::sigaction(SIGCHLD, &action, nullptr);
  // What a process asks the machine once is asked here, once for all.
  static_cast<void>(Runtime::create({.directory = folder_, .engine = "inline"}));
}

Theatre::~Theatre() {
  ::munmap(board_, sizeof(oracle::Board));
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

Outcome Theatre::play(const Scenario& scenario, const Settings& settings,
                      const std::vector<Decision>& plan, bool keeps_decisions) {
  ::madvise(board_, sizeof(oracle::Board), MADV_REMOVE);
  begin_run(settings);
  stage->planned = static_cast<std::uint32_t>(std::min<std::size_t>(plan.size(), kMostDecisions));
  std::copy_n(plan.begin(), stage->planned, stage->plan);
  Conductor conductor(scenario, folder_, *board_, *pulse_);
  conductor.run();
  Outcome outcome;
  outcome.waits = conductor.waits();
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
  const auto theme = static_cast<oracle::Theme>(seed % oracle::kThemeNames.size());
  return theme == oracle::Theme::any && oracle::Dice(seed, 4713).chance(50);
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
    role.leaves *= 5;
  }
  if (is_starved(seed)) scenario.roles.front().max_descriptors = 512;  // enough: calls are refused
  scenario.is_timeless = true;
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
  it.most_choices = 3'000'000;
  it.fair_from = 60'000;
  return it;
}

}  // namespace gantry::orders
