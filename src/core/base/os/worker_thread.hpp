#pragma once  // base/os/worker_thread.hpp: the library's own threads.

#include <pthread.h>
#include <sys/mman.h>

#include <system_error>
#include <thread>

#include "core/base/os/block_signals.hpp"
#include "core/base/result.hpp"

namespace gantry {

/// How to mend that no thread could be started, which the kernel does not say: its stack finds no
/// address space, or there are too many processes.
inline const char* mend_of_no_thread() noexcept {
  std::size_t stack_bytes = std::size_t{8} << 20;
  if (pthread_attr_t usual{}; ::pthread_getattr_default_np(&usual) == 0) {
    ::pthread_attr_getstacksize(&usual, &stack_bytes);
    ::pthread_attr_destroy(&usual);
  }
  void* const stack =
      ::mmap(nullptr, stack_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (stack == MAP_FAILED) return "raise the limit of address space (ulimit -v)";
  ::munmap(stack, stack_bytes);
  return "raise the limit of processes (ulimit -u)";
}

/// The thread blocks all signals that a process can be sent: a program that blocks one after it
/// opened an end, to take it from a signalfd, is not ended by it through a thread of ours.
/// `what`: for the error: "starting a thread for files: ...". Errors: `system`, `out_of_memory`.
template <class Run>
[[nodiscard]] Result<std::thread> start_thread(std::string_view what, Run run) noexcept {
  return guarded([&]() -> Result<std::thread> {
    const BlockSignals blocked;
    try {
      return std::thread(std::move(run));
    } catch (const std::system_error& error) {
      return fail(Code::system, fmt::format("starting {}: {}", what, error.what()),
                  mend_of_no_thread());
    }
  });
}

}  // namespace gantry
