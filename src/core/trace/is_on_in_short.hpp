#pragma once  // trace/is_on_in_short.hpp: is_on() for the one place where its instructions count.

#include "core/trace/tracer.hpp"

namespace gantry::trace {

/// As is_on(), in two instructions and without a register; of the atomic load GCC 12 makes four.
[[gnu::always_inline, nodiscard]] inline bool is_on_in_short() noexcept {
#if defined(__x86_64__)
  asm goto("cmpb $0, %0\n\tjne %l1" : : "m"(detail::is_on) : "cc" : on);
  return false;
on:
  return true;
#else
  return is_on();
#endif
}

}  // namespace gantry::trace
