#include "interrupt.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>

namespace gantry::bench {
namespace {

// Whoever starts a program with SIGHUP ignored (nohup) wants it to outlive the terminal.
bool is_ignored(int number) {
  struct sigaction action{};
  return ::sigaction(number, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

Result<Interrupt> Interrupt::create() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int number : {SIGINT, SIGTERM, SIGHUP})
    if (!is_ignored(number)) sigaddset(&signals, number);
  if (::sigprocmask(SIG_BLOCK, &signals, nullptr) != 0) {
    return Unexpected(system_error("sigprocmask"));
  }
  Descriptor descriptor(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!descriptor.is_open()) return Unexpected(system_error("signalfd"));
  return Interrupt(std::move(descriptor));
}

Result<void> check_interrupt(int descriptor) {
  pollfd interrupt{descriptor, POLLIN, 0};
  if (::poll(&interrupt, 1, 0) <= 0) return {};
  return Unexpected({Code::interrupted, "interrupted", ""});
}

}  // namespace gantry::bench
