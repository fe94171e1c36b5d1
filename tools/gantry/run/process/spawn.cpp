#include "run/process/spawn.hpp"

#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/close_range.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "errors.hpp"
#include "run/process/processes.hpp"

namespace gantry::run {
namespace {

/// Everything that the child needs between fork and exec. It is made before, since the child may
/// not allocate.
struct Preparation {
  std::vector<char*> arguments;
  std::vector<char*> environment;
  Descriptor nothing;  // /dev/null
  Pipe output;
  Pipe errors;
  Pipe verdict;  // errno of a failed exec; empty if exec succeeded
};

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (const std::string& text : texts) result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

Result<Preparation> prepare(const Launch& launch) {
  Preparation result;
  result.arguments = pointers(launch.arguments);
  result.environment = pointers(launch.environment);
  result.nothing = Descriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!result.nothing) return tl::unexpected(cli::system_error("/dev/null", errno));
  for (Pipe* pipe : {&result.output, &result.errors, &result.verdict}) {
    Result<Pipe> made = Pipe::create();
    if (!made) return tl::unexpected(made.error());
    *pipe = std::move(*made);
  }
  for (const Pipe* pipe : {&result.output, &result.errors})
    ::fcntl(pipe->read_end.get(), F_SETFL, O_NONBLOCK);
  return result;
}

// ---- in the child: async-signal-safe calls only ----------------------------------------------

void reset_signals() noexcept {
  struct sigaction usual{};
  usual.sa_handler = SIG_DFL;
  for (int number = 1; number < NSIG; ++number) ::sigaction(number, &usual, nullptr);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

void arrange_descriptors(const Launch& launch, const Preparation& prepared) noexcept {
  ::dup2(launch.input >= 0 ? launch.input : prepared.nothing.get(), STDIN_FILENO);
  ::dup2(prepared.output.write_end.get(), STDOUT_FILENO);
  ::dup2(prepared.errors.write_end.get(), STDERR_FILENO);
  // Our descriptors close on exec anyway; this closes those with which the runner itself was
  // started. Kernels before 5.11 refuse it, and then those stay open.
  (void)::close_range(STDERR_FILENO + 1, ~0u, CLOSE_RANGE_CLOEXEC);
  for (const int descriptor : launch.descriptors) ::fcntl(descriptor, F_SETFD, 0);
}

[[noreturn]] void become(const Launch& launch, const Preparation& prepared,
                         const RaisedFileLimit& limit, pid_t runner, Guard& guard) noexcept {
  ::setpgid(0, 0);
  // Not by the runner, which may be killed before it gets to that.
  guard.add(::getpid());
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != runner) ::_exit(EXIT_FAILURE);  // it died before the line above
  arrange_descriptors(launch, prepared);
  limit.restore();
  reset_signals();
  ::execve(launch.program.c_str(), prepared.arguments.data(), prepared.environment.data());
  const int why = errno;
  (void)!::write(prepared.verdict.write_end.get(), &why, sizeof why);
  ::_exit(EXIT_FAILURE);
}

// ---- in the runner ---------------------------------------------------------------------------

/// 0 if the program was executed, else errno. Waits until either has happened.
int read_verdict(Pipe& verdict) noexcept {
  verdict.write_end.reset();
  int why = 0;
  ssize_t length = 0;
  do {
    length = ::read(verdict.read_end.get(), &why, sizeof why);
  } while (length < 0 && errno == EINTR);
  return length == sizeof why ? why : 0;
}

void discard(pid_t pid, Guard& guard) noexcept {
  ::kill(-pid, SIGKILL);
  guard.remove(pid);
  reap_child(pid, Deadline::never());  // it executed nothing yet, so it can be killed
}

std::string hint_for(int why) {
  switch (why) {
    case ENOEXEC:
      return "it is no program for this machine, or a script without a #! line";
    case E2BIG:
      return "its arguments and environment are too long";
    case ENOENT:
      return "its interpreter or loader is missing";
    default:
      return {};
  }
}

Error spawn_error(const Launch& launch, int why) {
  return cli::system_error(fmt::format("{}: cannot start {}", launch.label, launch.program), why,
                           hint_for(why));
}

}  // namespace

Result<Child> spawn(const Launch& launch, const RaisedFileLimit& limit, Guard& guard) {
  Result<Preparation> prepared = prepare(launch);
  if (!prepared) return tl::unexpected(prepared.error());
  const pid_t runner = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return tl::unexpected(spawn_error(launch, errno));
  if (pid == 0) become(launch, *prepared, limit, runner, guard);
  ::setpgid(pid, pid);  // here too, so that the group exists whoever comes first
  Descriptor exit = open_pidfd(pid);
  const int opened = errno;
  const int why = read_verdict(prepared->verdict);
  if (why != 0 || !exit) {
    discard(pid, guard);
    return tl::unexpected(spawn_error(launch, why != 0 ? why : opened));
  }
  return Child{pid, std::move(exit), std::move(prepared->output.read_end),
               std::move(prepared->errors.read_end)};
}

}  // namespace gantry::run
