#include "program_guard.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace gantry::bench {
namespace {

constexpr std::chrono::seconds kPatience{5};  // for the program to end when it is asked to
constexpr int kNotFound = 127;

sigset_t set_of(std::initializer_list<int> numbers) {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : numbers) sigaddset(&set, number);
  return set;
}

[[noreturn]] void become_program(const Kept& kept, pid_t guard) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != guard) ::_exit(1);
  const sigset_t none = set_of({});
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  for (const int number : {SIGINT, SIGPIPE, SIGCHLD}) ::signal(number, SIG_DFL);
  const int log = ::open(kept.log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  const int nothing = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  ::dup2(nothing, STDIN_FILENO);
  ::dup2(log, STDOUT_FILENO);
  ::dup2(log, STDERR_FILENO);
  for (const std::string& variable : kept.variables) {
    const auto equals = variable.find('=');
    ::setenv(variable.substr(0, equals).c_str(), variable.substr(equals + 1).c_str(), 1);
  }
  std::vector<char*> argv;
  for (const std::string& word : kept.words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  ::execvp(argv[0], argv.data());
  std::ofstream(kept.log, std::ios::app) << system_error(kept.words.front()).message << "\n";
  ::_exit(kNotFound);
}

timespec timespec_of(std::chrono::milliseconds time) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(time);
  return {seconds.count(), std::chrono::nanoseconds(time - seconds).count()};
}

/// Whether the program has ended within that time.
bool ends_within(pid_t program, timespec patience) {
  const sigset_t ended = set_of({SIGCHLD});
  while (::waitpid(program, nullptr, WNOHANG) == 0)
    if (::sigtimedwait(&ended, nullptr, &patience) < 0 && errno == EAGAIN) return false;
  return true;
}

/// Processes of a program that has ended: they die with it, by their own wish.
void reap_orphans() {
  while (::waitpid(-1, nullptr, 0) > 0) {
  }
}

/// Until asked to end, or until the program has.
void wait_for_end(pid_t program, std::chrono::milliseconds grace) {
  const sigset_t signals = set_of({SIGTERM, SIGCHLD});
  int number = 0;
  while (::sigwait(&signals, &number) == 0 && number != SIGTERM) {
    if (program > 0 && ::waitpid(program, nullptr, WNOHANG) == program) return;
  }
  if (program <= 0 || ends_within(program, timespec_of(grace))) return;
  ::kill(program, SIGTERM);
  if (ends_within(program, timespec_of(kPatience))) return;
  ::kill(program, SIGKILL);
  ::waitpid(program, nullptr, 0);
}

[[noreturn]] void keep(const Kept& kept, pid_t parent, const Descriptor& report) {
  const sigset_t signals = set_of({SIGTERM, SIGCHLD});
  ::sigprocmask(SIG_SETMASK, &signals, nullptr);
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::raise(SIGTERM);
  ::setpgid(0, 0);                     // Ctrl-C is the benchmark's business
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);  // what the program starts is left to us
  const pid_t guard = ::getpid();
  pid_t program = 0;
  if (!kept.words.empty()) program = ::fork();
  if (program == 0 && !kept.words.empty()) become_program(kept, guard);
  static_cast<void>(write_all(report.get(), std::as_bytes(std::span(&program, 1))));
  wait_for_end(program, kept.grace);
  reap_orphans();
  std::error_code ignored;
  for (const std::string& path : kept.leftovers) std::filesystem::remove_all(path, ignored);
  ::_exit(0);
}

}  // namespace

Result<ProgramGuard> ProgramGuard::start(const Kept& kept) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return Unexpected(system_error("pipe"));
  const Descriptor from(ends[0]);
  Descriptor to(ends[1]);
  const pid_t parent = ::getpid();
  const pid_t guard = ::fork();
  if (guard < 0) return Unexpected(system_error("fork"));
  if (guard == 0) keep(kept, parent, to);
  to.reset();
  pid_t program = -1;
  const auto got = read_all(from.get(), std::as_writable_bytes(std::span(&program, 1)));
  Descriptor process(static_cast<int>(::syscall(SYS_pidfd_open, guard, 0)));
  ProgramGuard started(guard, program, std::move(process));
  if (!got) return Unexpected(got.error());
  return started;
}

ProgramGuard::ProgramGuard(ProgramGuard&& other) noexcept
    : guard_(std::exchange(other.guard_, -1)),
      program_(other.program_),
      process_(std::move(other.process_)) {}

ProgramGuard::~ProgramGuard() {
  if (guard_ < 0) return;
  ::kill(guard_, SIGTERM);
  while (::waitpid(guard_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

bool ProgramGuard::has_ended() const noexcept {
  pollfd ended{process_.get(), POLLIN, 0};
  return ::poll(&ended, 1, 0) > 0;
}

Result<void> await_saying(const ProgramGuard& guard, const std::string& log,
                          const std::string& words) {
  constexpr int kTries = 4000;
  constexpr int kTryMs = 5;
  for (int i = 0; i < kTries; ++i) {
    std::ostringstream text;
    text << std::ifstream(log).rdbuf();
    if (text.str().find(words) != std::string::npos) return {};
    pollfd ended{guard.descriptor(), POLLIN, 0};
    if (::poll(&ended, 1, kTryMs) > 0) break;
  }
  return Unexpected({Code::system, last_words(log), ""});
}

std::string last_words(const std::string& log) {
  std::ifstream in(log);
  std::string last;
  for (std::string line; std::getline(in, line);)
    if (line.find_first_not_of(" \t-*") != std::string::npos) last = line;
  return last;
}

}  // namespace gantry::bench
