#include "oracle/conductor.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "oracle/part.hpp"

namespace gantry::oracle {
namespace {

constexpr std::uint64_t kHungNs = 60'000'000'000;

/// A folder for the sockets, and the board.
class Stage {
 public:
  Stage() {
    // In memory where there is such a folder, as most channels' are: a disk stands still by itself.
    // Who names another has it.
    const std::filesystem::path memory = "/dev/shm";
    const bool usable = ::getenv("TMPDIR") == nullptr && ::access(memory.c_str(), W_OK) == 0;
    path_ = ((usable ? memory : std::filesystem::temp_directory_path()) / "gantry-oracle-XXXXXX")
                .string();
    if (::mkdtemp(path_.data()) == nullptr) give_up("no temporary directory");
    void* const at = ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) give_up("no memory for the board");
    board_ = static_cast<Board*>(at);  // some 100 MB of which little is ever touched
  }
  ~Stage() {
    ::munmap(board_, sizeof(Board));
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;
  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  [[nodiscard]] Board& board() const noexcept { return *board_; }

 private:
  std::string path_;
  Board* board_ = nullptr;
};

struct Actor {
  pid_t pid = -1;
  unsigned life = 0;
  std::uint64_t starts_us = 0;
  std::uint64_t goes_on_us = 0;  ///< It is stopped until then; 0: it is not.
  std::uint64_t stopped_at_ns = 0;
  bool was_struck = false;
  bool has_finished = false;
};

class Conductor {
 public:
  Conductor(const Scenario& scenario, const Pulse& pulse)
      : scenario_(scenario), pulse_(pulse), actors_(scenario.roles.size()), blows_(scenario.blows) {
    for (unsigned i = 0; i < actors_.size(); ++i)
      actors_[i].starts_us = scenario.roles[i].starts_us;
    std::sort(blows_.begin(), blows_.end(),
              [](const Blow& left, const Blow& right) { return left.at_us < right.at_us; });
  }
  ~Conductor() {
    for (Actor& actor : actors_)
      if (actor.pid > 0) {
        ::kill(actor.pid, SIGKILL);
        ::waitpid(actor.pid, nullptr, 0);
      }
  }
  Conductor(const Conductor&) = delete;
  Conductor& operator=(const Conductor&) = delete;

  std::string run() {
    try {
      while (!all_finished() && !board().has_failed) {
        if (pulse_.is_over) return {};
        step();
      }
      if (!board().has_failed) judge(scenario_, board());
      if (!board().has_failed) check_directory();
    } catch (const std::exception& trouble) {
      board().fail(trouble.what());
    }
    if (!board().has_failed) return {};
    return std::string(board().failure.data()) + "\n" + describe_sessions(board());
  }

 private:
  Board& board() { return stage_.board(); }
  [[nodiscard]] std::uint64_t now_us() const { return (now_ns() - started_ns_) / 1000; }
  [[nodiscard]] bool all_finished() const {
    return std::all_of(actors_.begin(), actors_.end(),
                       [](const Actor& actor) { return actor.has_finished; });
  }

  [[nodiscard]] bool is_hung() const {
    const std::uint64_t stalled =
        pulse_.stalled_ns.load(std::memory_order_relaxed) - stalled_before_ns_;
    return now_ns() - started_ns_ > kHungNs + stalled;
  }

  void step() {
    for (unsigned i = 0; i < actors_.size(); ++i) {
      Actor& actor = actors_[i];
      if (actor.pid < 0 && !actor.has_finished && now_us() >= actor.starts_us) start(i);
      if (actor.goes_on_us != 0 && now_us() >= actor.goes_on_us) let_go_on(i);
    }
    while (!blows_.empty() && now_us() >= blows_.front().at_us) {
      strike(blows_.front());
      blows_.erase(blows_.begin());
    }
    int status = 0;
    for (pid_t pid = 0; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;) note_end(pid, status);
    tell_who_is_over(scenario_, board(), [&](std::size_t i) { return actors_[i].has_finished; });
    if (is_hung()) {
      pulse_.await_beat();
      if (is_hung()) report_hang();
    }
    sleep_us(300);
  }

  void start(unsigned index) {
    Actor& actor = actors_[index];
    actor.was_struck = false;
    board().desks[index].will_come_again = false;
    actor.pid = ::fork();
    if (actor.pid < 0) give_up("fork");
    if (actor.pid != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::_exit(perform(scenario_, index, actor.life, stage_.path(), board(), pulse_));
  }
  void strike(const Blow& blow) {
    Actor& actor = actors_[blow.role];
    if (actor.pid < 0 || actor.goes_on_us != 0) return;
    if (blow.signal == SIGSTOP)
      actor.goes_on_us = now_us() + blow.lasts_us;
    else if (actor.life + 1 >= scenario_.roles[blow.role].lives)
      return;
    actor.was_struck |= blow.signal == SIGKILL;
    actor.stopped_at_ns = now_ns();
    ::kill(actor.pid, blow.signal);
  }
  // Whoever measures a call by its clock finds how long it was held before it goes on.
  void let_go_on(unsigned index) {
    Actor& actor = actors_[index];
    board().desks[index].stopped_ns += now_ns() - actor.stopped_at_ns;
    actor.goes_on_us = 0;
    if (actor.pid > 0) ::kill(actor.pid, SIGCONT);
  }

  void note_end(pid_t pid, int status) {
    const auto found = std::find_if(actors_.begin(), actors_.end(),
                                    [pid](const Actor& actor) { return actor.pid == pid; });
    if (found == actors_.end()) return;
    const auto index = static_cast<unsigned>(found - actors_.begin());
    found->pid = -1;
    found->goes_on_us = 0;
    const bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && found->was_struck;
    if (WIFSIGNALED(status) && !killed)
      board().fail(fmt::format("{} was ended by signal {} in {}",
                               name_of(scenario_, index, found->life), WTERMSIG(status),
                               board().desks[index].doing.data()));
    if (killed || board().desks[index].will_come_again) {
      ++found->life;
      found->starts_us = now_us();
    } else {
      found->has_finished = true;
    }
  }

  void report_hang() {
    std::string text = "after 60 s there are still";
    for (std::size_t i = 0; i < actors_.size(); ++i)
      if (!actors_[i].has_finished)
        text += fmt::format(" role {} (life {}, in {})", i, actors_[i].life,
                            board().desks[i].doing.data());
    board().fail(text);
  }
  void check_directory() const {
    if (scenario_.is_starved()) return;
    for (const auto& entry : std::filesystem::directory_iterator(stage_.path()))
      give_up(fmt::format("{} stays behind", entry.path().filename().string()));
  }

  const Scenario& scenario_;
  const Pulse& pulse_;
  Stage stage_;
  std::vector<Actor> actors_;
  std::vector<Blow> blows_;
  std::uint64_t started_ns_ = now_ns();
  std::uint64_t stalled_before_ns_ = pulse_.stalled_ns.load(std::memory_order_relaxed);
};

}  // namespace

std::string conduct(const Scenario& scenario, const Pulse& pulse) {
  return Conductor(scenario, pulse).run();
}

}  // namespace gantry::oracle
