#pragma once  // fault/arm.hpp: ends or stops this process at a chosen step of the protocol.

#include <atomic>
#include <csignal>

#include "core/channel/wire/step.hpp"

namespace gantry::fault {

/// Where a process is to be struck, and how.
struct Arm {
  int step = -1;               ///< A Step; -1: any.
  std::uint64_t pass = 0;      ///< At the pass-th time; 0: never.
  std::uint64_t after_us = 0;  ///< Not 0: at no step, but after so many microseconds of clock time.
  int signal = SIGKILL;        ///< Or SIGSTOP.
};

/// What the victim leaves behind for those who look after it; in shared memory.
struct FaultCounts {
  std::array<std::atomic<std::uint64_t>, kSteps> passes{};
  std::atomic<std::uint64_t> total{0};
  std::atomic<std::uint64_t> struck_ns{0};  ///< When, monotonic; 0: it was not, or by the clock.

  void clear() noexcept {
    for (auto& one : passes) one.store(0, std::memory_order_relaxed);
    total.store(0, std::memory_order_relaxed);
    struck_ns.store(0, std::memory_order_relaxed);
  }
};

/// From now on this process counts its steps in `counts`, and is struck as `arm` says.
void arm_process(FaultCounts& counts, const Arm& arm);

}  // namespace gantry::fault
