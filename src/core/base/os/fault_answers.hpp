#pragma once  // base/os/fault_answers.hpp: who in this library answers SIGSEGV and SIGBUS.

#include <csignal>

namespace gantry {

/// Called inside the handler, in any thread. True: the instruction may run again. It may also leave
/// by a jump. False: the fault is somebody else's.
using FaultAnswer = bool (*)(int signal, siginfo_t* info, void* context) noexcept;

// A handler of both is installed once a process. It asks the answers one after another, then calls
// the handler that was there before, or takes the default action, which ends the process with the
// signal as without us.
// Limits. A handler that somebody installs after ours takes over, unless it calls ours in turn;
// then a fault is theirs. A thread that blocks the signals dies by them.

/// Once for each answer, and it stays. False: the kernel refused the handler, or there are too many
/// answers.
[[nodiscard]] bool answer_faults(FaultAnswer answer) noexcept;

/// Called inside the handler when nobody answered, before the handler that was there before or the
/// end of the process. There is one such function in the library; it is told from then on.
using FaultTeller = void (*)(int signal, const siginfo_t* info) noexcept;
void tell_of_faults(FaultTeller teller) noexcept;

}  // namespace gantry
