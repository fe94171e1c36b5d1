#include "fault/run.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "core/base/os/fd.hpp"
#include "fault/census.hpp"
#include "fault/part.hpp"
#include "fault/roles.hpp"

namespace gantry::fault {
namespace {

constexpr unsigned kHungSeconds = 60;  // beyond every limit of every call of a role

struct Pipe {
  Pipe() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) give_up("pipe2");
    out = Fd(ends[0]);
    in = Fd(ends[1]);
  }
  Fd out, in;
};

/// A process of the run; ended at the latest here.
class Child {
 public:
  Child() = default;
  template <class Body>
  Child(const Part& part, Body body) {
    pid_ = ::fork();
    if (pid_ < 0) give_up("fork");
    if (pid_ != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::alarm(kHungSeconds);
    int status = 1;
    try {
      body(part);
      status = 0;
    } catch (const std::exception& trouble) {
      part.board.report(part.who, trouble.what());
    }
    ::_exit(status);
  }
  Child(Child&& other) noexcept : pid_(std::exchange(other.pid_, -1)) {}
  Child& operator=(Child&& other) noexcept {
    std::swap(pid_, other.pid_);
    return *this;
  }
  ~Child() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  [[nodiscard]] pid_t pid() const noexcept { return pid_; }
  int wait() noexcept {
    int status = 0;
    ::waitpid(std::exchange(pid_, -1), &status, 0);
    return status;
  }

 private:
  pid_t pid_ = -1;
};

class Cast {
 public:
  Cast(const Run& run, const std::string& directory, std::shared_ptr<Engine> engine, Board& board)
      : run_(run),
        roles_(roles_of(kScenarios[run.scenario], run.victim)),
        part_{.scenario = kScenarios[run.scenario],
              .directory = directory,
              .engine = std::move(engine),
              .board = board,
              .who = "survivor",
              .may_stop = run.arm.signal == SIGSTOP} {}

  void play() {
    start_victim();
    part_.victim_pid = victim_.pid();
    life_ = Fd(static_cast<int>(::syscall(SYS_pidfd_open, victim_.pid(), 0)));
    part_.victim = life_.get();
    part_.report = report_.out.get();
    start_others();
    part_.sender = sender_among(kThirdSender);
    part_.gate = producer_is_victim() ? gate_.out.get() : gate_.in.get();
    part_.joined = producer_is_victim() ? -1 : joined_.out.get();
    roles_.survivor(part_);
    end();
  }

 private:
  /// Where there is one, its messages do not say whose they are.
  [[nodiscard]] std::uint64_t sender_among(std::uint64_t sender) const {
    return part_.scenario.pattern == Pattern::channel ? 0 : sender;
  }
  [[nodiscard]] bool producer_is_victim() const { return run_.victim == Victim::producer; }

  void start_victim() {
    Part part = part_;
    part.who = "victim";
    part.is_victim = true;
    part.sender = sender_among(kVictimSender);
    part.report = report_.in.get();
    part.gate = producer_is_victim() ? gate_.in.get() : gate_.out.get();
    victim_ = Child(part, [&](const Part& mine) {
      arm_process(mine.board.victim, run_.arm);
      roles_.victim(mine);
      mine.board.victim_finished = true;
    });
  }

  void start_others() {
    Part part = part_;
    part.victim_pid = 0;  // it is its parent's to be looked after
    part.who = kOther;
    part.sender = sender_among(kOtherSender);
    if (roles_.other != nullptr) other_ = Child(part, roles_.other);
    part.who = "successor";
    part.sender = sender_among(kThirdSender);
    part.joined = producer_is_victim() ? -1 : joined_.in.get();
    successor_ = Child(part, [&](const Part& mine) {
      await_victim(mine);
      roles_.successor(mine);
    });
  }

  void end() {
    const int status = victim_.wait();
    const bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    const bool as_told =
        killed ? run_.arm.signal == SIGKILL : WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (!as_told) part_.board.report("victim", "it ended otherwise than it was told");
    if (other_.pid() > 0 && other_.wait() != 0) part_.board.report(kOther, "it failed");
    if (successor_.wait() != 0) part_.board.report("successor", "it failed");
  }

  const Run& run_;
  const Roles roles_;
  Part part_;
  Pipe report_, gate_, joined_;
  Fd life_;
  Child victim_, other_, successor_;
};

}  // namespace

void run(const Run& run, const std::string& directory, std::shared_ptr<Engine> engine,
         Board& board) {
  ::alarm(kHungSeconds);
  board.clear();
  const Census before = take_census(directory);
  try {
    Cast(run, directory, std::move(engine), board).play();
  } catch (const std::exception& trouble) {
    board.report("survivor", trouble.what());
  }
  if (board.has_trouble) throw Trouble(board.trouble.data());
  check_census(directory, before, [] {});
  ::alarm(0);
}

}  // namespace gantry::fault
