#pragma once  // engine/fault_guard.hpp: pages that cannot be read or written, as answers rather
              // than signals.

#include <gantry/engine.hpp>

namespace gantry {

/// What a guarded piece of work may touch. A fault anywhere else is not ours.
struct GuardedRange {
  const std::byte* from = nullptr;
  Bytes bytes = 0;
  bool written = false;
};

// How. SIGSEGV and SIGBUS get a handler of ours, once a process. It looks whether this thread is
// inside catch_fault() and the address within one of its ranges; then it jumps back there.
// Otherwise the handler that was there before is called, or the default action is taken, which ends
// the process with the signal as if we had not been there.
//   I1  The work has no destructors to run and takes no locks: it is left by a jump.
//   I2  Only this thread reads and writes its `landing`; the handler runs on the same thread.
// Limits. A handler that somebody installs after ours takes over, unless it calls ours in turn:
// then a fault is theirs. A thread that blocks SIGSEGV or SIGBUS dies by them. Memory under a
// userfaultfd that nobody serves makes the thread wait.

/// Installs the handler if it is not yet there. False: the kernel refused.
bool install_fault_guard() noexcept;

struct Fault {
  std::uintptr_t address = 0;
  bool written = false;
};

/// Runs `work` (I1). True: it came to its end; false: `fault` tells where it did not.
bool catch_fault(std::span<const GuardedRange> ranges, void (*work)(void*) noexcept, void* argument,
                 Fault& fault) noexcept;

}  // namespace gantry
