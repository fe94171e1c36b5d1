#pragma once  // base/os/cpu.hpp: a hint to the processor in polling loops.

namespace gantry {

/// Call once per turn of a polling loop: saves power and leaves the sibling thread room.
inline void cpu_relax() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");
#endif
}

}  // namespace gantry
