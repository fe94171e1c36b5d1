#include "interrupt.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "errors.hpp"

namespace gantry::cli {
namespace {

// The kernel is asked, since a blocked signal becomes pending though it is ignored.
bool is_ignored(int number) noexcept {
  struct sigaction action{};
  return ::sigaction(number, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

// A program that is started with SIGHUP ignored (nohup) is meant to outlive the terminal.
sigset_t watched() noexcept {
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGINT);
  ::sigaddset(&signals, SIGTERM);
  if (!is_ignored(SIGHUP)) ::sigaddset(&signals, SIGHUP);
  return signals;
}

// Rounded up, so that poll(2) never returns before the deadline; -1 waits for ever.
int poll_timeout_ms(Deadline deadline) {
  if (deadline.is_never()) return -1;
  constexpr std::chrono::milliseconds kLongest = std::chrono::hours(1);
  return static_cast<int>(
      std::min(std::chrono::ceil<std::chrono::milliseconds>(deadline.left()), kLongest).count());
}

}  // namespace

Result<Interrupt> Interrupt::create() {
  const sigset_t signals = watched();
  const int descriptor = ::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
  if (descriptor < 0) return tl::unexpected(system_error("signalfd", errno));
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return Interrupt(descriptor);
}

Interrupt::Interrupt(Interrupt&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)) {}

Interrupt& Interrupt::operator=(Interrupt&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

Interrupt::~Interrupt() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  // A signal that came is taken off first: it has been obeyed, and would now end the program.
  const sigset_t signals = watched();
  const timespec at_once{};
  while (::sigtimedwait(&signals, nullptr, &at_once) > 0) {
  }
  restore_signals();
}

bool Interrupt::raised() const noexcept {
  pollfd entry{descriptor_, POLLIN, 0};
  return ::poll(&entry, 1, 0) == 1;
}

void Interrupt::restore_signals() noexcept {
  const sigset_t signals = watched();
  ::pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
}

Result<void> wait_ready(int descriptor, short events, const Interrupt& interrupt,
                        Deadline deadline) {
  std::array<pollfd, 2> entries{{{interrupt.descriptor(), POLLIN, 0}, {descriptor, events, 0}}};
  for (;;) {
    const int count = ::poll(entries.data(), entries.size(), poll_timeout_ms(deadline));
    if (count < 0 && errno != EINTR) return tl::unexpected(system_error("poll", errno));
    if (count > 0 && entries[0].revents != 0)
      return tl::unexpected(Error{Code::interrupted, "interrupted", {}});
    if (count > 0) return {};
    if (deadline.passed()) return tl::unexpected(Error{Code::timed_out, "the time is up", {}});
  }
}

}  // namespace gantry::cli
