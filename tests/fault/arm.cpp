#include "fault/arm.hpp"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "core/base/clock.hpp"

namespace gantry {
namespace fault {
namespace {

// The steps are passed on several threads, deep in code that knows nothing of the harness.
FaultCounts* counts_here = nullptr;
Arm arm_here;

void strike() noexcept {
  counts_here->struck_ns.store(monotonic_ns(), std::memory_order_release);
  ::kill(::getpid(), arm_here.signal);
  // Another thread may be the first to see the signal: this one goes no further.
  while (arm_here.signal == SIGKILL) ::pause();
}

void strike_later(std::uint64_t after_us) {
  sigevent how{};
  how.sigev_notify = SIGEV_SIGNAL;
  how.sigev_signo = arm_here.signal;
  timer_t timer{};
  if (::timer_create(CLOCK_MONOTONIC, &how, &timer) != 0) return;
  itimerspec when{};
  when.it_value.tv_sec = static_cast<time_t>(after_us / 1'000'000);
  when.it_value.tv_nsec = static_cast<long>(after_us % 1'000'000 * 1000);
  ::timer_settime(timer, 0, &when, nullptr);
}

}  // namespace

void arm_process(FaultCounts& counts, const Arm& arm) {
  arm_here = arm;
  counts_here = &counts;
  if (arm.after_us != 0) strike_later(arm.after_us);
}

}  // namespace fault

void reached_step(Step step) noexcept {
  using namespace fault;
  if (counts_here == nullptr) return;
  const auto index = static_cast<std::size_t>(step);
  // Relaxed: counts, read when this process has ended.
  const auto pass = counts_here->passes[index].fetch_add(1, std::memory_order_relaxed) + 1;
  const auto total = counts_here->total.fetch_add(1, std::memory_order_relaxed) + 1;
  const bool counts = arm_here.step < 0 || arm_here.step == static_cast<int>(index);
  if (counts && arm_here.pass != 0 && arm_here.pass == (arm_here.step < 0 ? total : pass)) strike();
}

}  // namespace gantry
