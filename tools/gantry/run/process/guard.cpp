#include "run/process/guard.hpp"

#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <fstream>
#include <set>
#include <string>

#include "errors.hpp"
#include "run/process/pipes.hpp"
#include "run/process/processes.hpp"
#include "run/process/run_directory.hpp"

namespace gantry::run {
namespace {

constexpr const char* kName = "gantry-guard";

/// The groups that are left when the runner's end of the pipe is closed.
std::set<pid_t> read_orders(int orders) {
  std::set<pid_t> groups;
  pid_t order = 0;
  while (true) {
    const ssize_t length = ::read(orders, &order, sizeof order);  // whole: below PIPE_BUF
    if (length < 0 && errno == EINTR) continue;
    if (length != sizeof order) return groups;
    if (order > 0) groups.insert(order);
    if (order < 0) groups.erase(-order);
  }
}

/// The terminal must not end it with the runner, and it must not keep the caller's pipes open.
void detach() {
  ::prctl(PR_SET_NAME, kName);
  ::setsid();
  sigset_t all;
  ::sigfillset(&all);
  ::sigprocmask(SIG_BLOCK, &all, nullptr);
  const int nothing = ::open("/dev/null", O_RDWR);
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(nothing, stream);
  if (nothing > STDERR_FILENO) ::close(nothing);
}

[[noreturn]] void watch(Pipe pipe, Pipe detached, const std::string& run_directory) {
  detach();
  (void)!::write(detached.write_end.get(), "", 1);
  detached = {};
  pipe.write_end.reset();
  for (const pid_t group : read_orders(pipe.read_end.get())) ::kill(-group, SIGKILL);
  remove_run_directory(run_directory);
  ::_exit(0);
}

}  // namespace

Result<Guard> Guard::start(const std::string& run_directory) {
  Result<Pipe> pipe = Pipe::create();
  if (!pipe) return tl::unexpected(pipe.error());
  Result<Pipe> detached = Pipe::create();
  if (!detached) return tl::unexpected(detached.error());
  const pid_t pid = ::fork();
  if (pid < 0) return tl::unexpected(cli::system_error("fork", errno));
  if (pid == 0) watch(std::move(*pipe), std::move(*detached), run_directory);
  // Until then who kills the runner's group kills the guard, too.
  detached->write_end.reset();
  char byte = 0;
  while (::read(detached->read_end.get(), &byte, 1) < 0 && errno == EINTR) {
  }
  Guard guard(pid, std::move(pipe->write_end), open_pidfd(pid));
  if (!guard.exit_) return tl::unexpected(cli::system_error("pidfd_open", errno));
  return guard;
}

bool Guard::is_one(pid_t pid) {
  std::string name;
  std::getline(std::ifstream(fmt::format("/proc/{}/comm", pid)), name);
  return name == kName;
}

Guard::Guard(Guard&& other) noexcept
    : pid_(std::exchange(other.pid_, 0)),
      orders_(std::move(other.orders_)),
      exit_(std::move(other.exit_)) {}

Guard::~Guard() {
  if (pid_ == 0) return;
  orders_.reset();
  ::kill(pid_, SIGCONT);                // somebody may have stopped it: we would wait for ever
  reap_child(pid_, Deadline::never());  // it ends by itself
}

void Guard::add(pid_t group) noexcept {
  send(group);
}
void Guard::remove(pid_t group) noexcept {
  send(-group);
}

void Guard::send(pid_t order) noexcept {
  // A guard that somebody killed guards no more; the run itself does not depend on it.
  while (::write(orders_.get(), &order, sizeof order) < 0 && errno == EINTR) {
  }
}

}  // namespace gantry::run
