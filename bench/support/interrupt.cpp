#include "interrupt.hpp"

#include <signal.h>
#include <sys/signalfd.h>

namespace gantry::bench {

Result<Interrupt> Interrupt::create() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&signals, number);
  if (::sigprocmask(SIG_BLOCK, &signals, nullptr) != 0) {
    return Unexpected(system_error("sigprocmask"));
  }
  Descriptor descriptor(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!descriptor.is_open()) return Unexpected(system_error("signalfd"));
  return Interrupt(std::move(descriptor));
}

}  // namespace gantry::bench
