#pragma once  // engine/fault_guard.hpp: pages that cannot be read or written become answers instead
              // of signals.

#include <gantry/engine.hpp>

namespace gantry {

/// Memory that a guarded piece of work may touch. The guard does not handle a fault anywhere else.
struct GuardedRange {
  const std::byte* from = nullptr;
  Bytes bytes = 0;
  bool written = false;
};

// If this thread is inside catch_fault() and the address within one of its ranges, the handler of
// SIGSEGV and SIGBUS (base/os/fault_answers.hpp, whose limits hold here) jumps back there.
//   I1  The work has no destructors to run and takes no locks: it is left by a jump.
//   I2  Only this thread reads and writes its `landing`; the handler runs on the same thread.
// Memory under a userfaultfd that nobody serves makes the thread wait.

/// Installs the handler if it is not there yet. False: the kernel refused.
bool install_fault_guard() noexcept;

struct Fault {
  std::uintptr_t address = 0;
  bool written = false;
};

/// Runs `work` (I1). True: it came to its end; false: `fault` says where it did not.
bool catch_fault(std::span<const GuardedRange> ranges, void (*work)(void*) noexcept, void* argument,
                 Fault& fault) noexcept;

/// As catch_fault() with a memcpy(), in a few instructions. False: some page of the ranges cannot
/// be read or written; which one is found by doing it again.
[[nodiscard]] bool copy_guarded(std::byte* to, const std::byte* from, Bytes bytes) noexcept;

}  // namespace gantry
