#pragma once  // base/os/block_signals.hpp: keeps the program's signal handlers off the library's
              // own threads.

#include <signal.h>

namespace gantry {

/// Blocks signals while threads are made. They inherit that, so the program's handlers never run on
/// them, not even for a moment.
class BlockSignals {
 public:
  BlockSignals() noexcept {
    sigset_t all;
    ::sigfillset(&all);
    for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS})
      ::sigdelset(&all, own);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~BlockSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockSignals(const BlockSignals&) = delete;
  BlockSignals& operator=(const BlockSignals&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace gantry
