#pragma once  // orders/fibers.hpp: one kernel thread that goes from stack to stack.

#include <cstdint>

namespace gantry::orders {

/// Where somebody goes on.
struct Context {
  void* stack_pointer;
  void* thread_pointer;  // of its thread_locals
};

/// Somebody who begins `body`, which never returns, on the stack below `top`.
[[nodiscard]] Context begin_below(void* top, void (*body)()) noexcept;

/// Whether this machine lets programs set their thread pointer.
[[nodiscard]] bool can_change_threads() noexcept;

extern "C" {
/// Goes on at `to`; returns when somebody goes on at `from`.
void gantry_orders_jump(Context* from, const Context* to);
/// Lends the calling thread's stack and thread_locals: who goes on at `context` begins `body`
/// there. Sets words[1]. Returns when words[0] is set, a futex; until then the thread touches no
/// memory.
void gantry_orders_park(Context* context, void (*body)(), std::uint32_t* words);
}

}  // namespace gantry::orders
