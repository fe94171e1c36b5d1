#include "child.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "../system/cpus.hpp"

namespace gantry::bench {
namespace {

/// What every child does first. A parent that died before the request to die with it took effect
/// is noticed by our having another one.
void settle(pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  ::signal(SIGINT, SIG_IGN);
  ::signal(SIGPIPE, SIG_IGN);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

void run_body(const Child::Body& body, int cpu, Link& link) {
  if (const auto pinned = cpu == kAnyCpu ? Result<void>() : pin(cpu); !pinned) {
    link.send(Answer::failure(to_string(pinned.error())));
    return;
  }
  try {
    body(link);
  } catch (const std::exception& problem) {  // out of memory, most likely; it must not get further
    link.send(Answer::failure(problem.what()));
  }
}

}  // namespace

Result<Child> Child::start(std::string role, int cpu, const Body& body) {
  auto link = Link::make();
  if (!link) return Unexpected(link.error());
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return Unexpected(system_error("fork"));
  if (pid == 0) {
    settle(parent);
    link->first.close();
    run_body(body, cpu, link->second);
    ::_exit(0);
  }
  Descriptor process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  return Child(std::move(role), pid, std::move(process), std::move(link->first));
}

Child::Child(std::string role, pid_t pid, Descriptor process, Link link) noexcept
    : role_(std::move(role)), pid_(pid), process_(std::move(process)), link_(std::move(link)) {}

Child::Child(Child&& other) noexcept
    : role_(std::move(other.role_)),
      pid_(std::exchange(other.pid_, -1)),
      status_(other.status_),
      process_(std::move(other.process_)),
      link_(std::move(other.link_)) {}

Child::~Child() {
  end();
}

void Child::end() noexcept {
  link_.hang_up();
  if (pid_ < 0) return;
  ::kill(pid_, SIGKILL);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
}

bool Child::wait(std::chrono::milliseconds patience) {
  if (pid_ < 0) return true;
  if (!process_.is_open()) return wait_without_pidfd(patience);
  pollfd ended{process_.get(), POLLIN, 0};
  if (::poll(&ended, 1, static_cast<int>(patience.count())) <= 0) return false;
  if (::waitpid(pid_, &status_, 0) != pid_) return false;
  pid_ = -1;
  return true;
}

/// Under valgrind there are no pidfds.
bool Child::wait_without_pidfd(std::chrono::milliseconds patience) {
  constexpr int kTryMs = 1;
  const auto until = std::chrono::steady_clock::now() + patience;
  while (::waitpid(pid_, &status_, WNOHANG) != pid_) {
    if (std::chrono::steady_clock::now() >= until) return false;
    ::poll(nullptr, 0, kTryMs);
  }
  pid_ = -1;
  return true;
}

std::string Child::ending() const {
  if (!WIFSIGNALED(status_)) return fmt::format("exit status {}", WEXITSTATUS(status_));
  return fmt::format("signal {} ({})", WTERMSIG(status_), ::strsignal(WTERMSIG(status_)));
}

bool Child::was_killed() const noexcept {
  return WIFSIGNALED(status_);
}

Result<void> await_ready(std::vector<Child>& children) {
  for (Child& child : children) {
    const auto ready = child.link().receive<Answer>();
    if (!ready) return Unexpected({Code::peer_gone, child.role() + " is gone", ""});
    if (ready->kind == Answer::Kind::failed)
      return Unexpected(
          {Code::system, fmt::format("{}: {}", child.role(), ready->text.data()), ""});
  }
  return {};
}

}  // namespace gantry::bench
