#include "core/base/os/membarrier.hpp"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace gantry {
namespace {

bool register_process() noexcept {
#if defined(__SANITIZE_THREAD__)
  return false;  // the sanitizer cannot see it
#else
  return ::syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
#endif
}

}  // namespace

const bool detail::kHasMembarrier = register_process();

void heavy_fence() noexcept {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  // After a fork() the child has to register again.
  if (detail::kHasMembarrier &&
      ::syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) != 0 && register_process())
    ::syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
}

}  // namespace gantry
