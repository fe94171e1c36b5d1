#include "launch.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>

#include "errors.hpp"
#include "rank.hpp"

namespace tensor_parallel {
namespace {

using gantry::Deadline;
using gantry::Result;

// After one rank has failed: the others find out by themselves; then they are told, then ended.
constexpr std::chrono::seconds kGrace{3};

sigset_t ending_signals() noexcept {
  sigset_t signals;
  ::sigemptyset(&signals);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) ::sigaddset(&signals, number);
  return signals;
}

/// Readable when one of the signals has come, which does nothing else from then on.
Result<int> open_signals(sigset_t signals) {
  ::sigprocmask(SIG_BLOCK, &signals, nullptr);
  const int descriptor = ::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
  if (descriptor < 0) return fail_errno("signalfd");
  return descriptor;
}

/// `say(line)` is called while the others do not know yet.
template <class Say>
int be_rank(const Options& options, unsigned number, const std::string& name, Say say) {
  const auto signals = open_signals(ending_signals());
  if (!signals) return say(line_of(signals.error())), kFailed;
  try {
    Rank rank(options, number, name, *signals);
    const auto done = rank.run();
    if (done) return kDone;
    say(line_of(done.error()));
    return status_of(done.error());
  } catch (const std::exception& thrown) {  // memory ran out
    say("rank " + std::to_string(number) + ": " + thrown.what());
    return kFailed;
  }
}

int complain(const std::string& line) {
  std::fprintf(stderr, "tensor_parallel: %s\n", line.c_str());
  return kFailed;
}

/// The processes of all ranks.
class Ranks {
 public:
  explicit Ranks(const Options& options)
      : options_(options),
        name_(options.name.empty() ? "tensor-parallel-" + std::to_string(::getpid())
                                   : options.name),
        pids_(options.ranks, -1) {}
  ~Ranks() {
    signal_all(SIGKILL);
    for (const pid_t pid : pids_)
      if (pid > 0) ::waitpid(pid, nullptr, 0);
    for (const int descriptor : {lines_[0], lines_[1], signals_})
      if (descriptor >= 0) ::close(descriptor);
  }
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  Result<void> start() {
    sigset_t signals = ending_signals();
    ::sigaddset(&signals, SIGCHLD);
    const auto opened = open_signals(signals);
    if (!opened) return tl::unexpected(opened.error());
    signals_ = *opened;
    if (::pipe2(lines_.data(), O_CLOEXEC | O_NONBLOCK) != 0) return fail_errno("pipe");
    for (unsigned rank = 0; rank < options_.ranks; ++rank) {
      const pid_t pid = ::fork();
      if (pid < 0) return fail_errno("fork");
      if (pid == 0) live(rank);
      pids_[rank] = pid;
    }
    return {};
  }

  int wait() {
    while (ended_ < options_.ranks) {
      pollfd entry{signals_, POLLIN, 0};
      ::poll(&entry, 1, milliseconds_left());
      take_signals();
      reap();
      press();
    }
    return tell();
  }

 private:
  /// What ranks say goes to the parent, in one write(2) each. The memory is the parent's copy: no
  /// destructor of it is run.
  [[noreturn]] void live(unsigned rank) const {
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    const int status = be_rank(options_, rank, name_, [this](const std::string& line) {
      static_cast<void>(!::write(lines_[1], (line + "\n").c_str(), line.size() + 1));
    });
    std::fflush(nullptr);
    ::_exit(status);
  }

  void take_signals() {
    signalfd_siginfo taken{};
    while (::read(signals_, &taken, sizeof taken) == sizeof taken) {
      if (taken.ssi_signo == SIGCHLD) continue;
      is_interrupted_ = true;
      signal_all(SIGTERM);
      if (until_.is_never()) until_ = Deadline::after(kGrace);
      has_told_ = true;
    }
  }

  void reap() {
    for (unsigned rank = 0; rank < options_.ranks; ++rank) {
      int status = 0;
      if (pids_[rank] < 0 || ::waitpid(pids_[rank], &status, WNOHANG) != pids_[rank]) continue;
      pids_[rank] = -1;
      ++ended_;
      if (WIFEXITED(status) && WEXITSTATUS(status) == kDone) continue;
      has_failed_ = true;
      if (until_.is_never()) until_ = Deadline::after(kGrace);
      if (WIFSIGNALED(status) && !has_killed_ && killed_.empty())
        killed_ = "rank " + std::to_string(rank) + " was killed by signal " +
                  std::to_string(WTERMSIG(status));
    }
  }

  void press() {
    if (!until_.passed()) return;
    has_killed_ = has_told_;
    signal_all(has_told_ ? SIGKILL : SIGTERM);
    has_told_ = true;
    until_ = Deadline::after(kGrace);
  }

  void signal_all(int number) const noexcept {
    for (const pid_t pid : pids_)
      if (pid > 0) ::kill(pid, number);
  }

  [[nodiscard]] int milliseconds_left() const {
    if (until_.is_never()) return -1;
    return static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(until_.left()).count());
  }

  /// What went wrong, if anything: the first that a rank said, and who was killed.
  int tell() const {
    if (is_interrupted_) return complain("interrupted"), kInterrupted;
    if (!has_failed_) return kDone;
    std::array<char, 4096> text{};
    const auto size = ::read(lines_[0], text.data(), text.size());
    const std::string all(text.data(), size > 0 ? static_cast<std::size_t>(size) : 0);
    const std::string first = all.substr(0, all.find('\n'));
    if (killed_.empty())
      return complain(first.empty() ? "a rank failed and did not say why" : first);
    return complain(killed_ + (first.empty() ? "" : "; the others say: " + first));
  }

  const Options& options_;
  const std::string name_;
  std::vector<pid_t> pids_;  // by rank; -1: it has ended
  std::array<int, 2> lines_{-1, -1};
  int signals_ = -1;
  unsigned ended_ = 0;
  bool is_interrupted_ = false;
  bool has_failed_ = false;
  bool has_told_ = false;    // SIGTERM was sent
  bool has_killed_ = false;  // SIGKILL was
  std::string killed_{};     // by somebody else
  Deadline until_ = Deadline::never();
};

}  // namespace

int be_one_rank(const Options& options) {
  const std::string name = options.name.empty() ? "tensor-parallel" : options.name;
  return be_rank(options, *options.rank, name, [](const std::string& line) { complain(line); });
}

int start_all_ranks(const Options& options) {
  Ranks ranks(options);
  if (auto started = ranks.start(); !started) return complain(line_of(started.error()));
  return ranks.wait();
}

}  // namespace tensor_parallel
