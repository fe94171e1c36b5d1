// Not instrumented; see fibers.hpp.
#include "orders/fibers.hpp"

#include <sys/auxv.h>

asm(R"(
.text
.globl gantry_orders_jump, gantry_orders_park
.hidden gantry_orders_jump, gantry_orders_park
gantry_orders_jump:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %fs:0, %rax
  movq %rax, 8(%rdi)
  movq (%rsi), %rsp
  movq 8(%rsi), %rax
  cmpq %fs:0, %rax
  je 1f
  wrfsbase %rax
1:
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret

gantry_orders_park:
  movq %rsp, %rcx        # begin_below()
  andq $-16, %rcx
  subq $64, %rcx
  movq $0, 40(%rcx)
  movq %rsi, 48(%rcx)
  movq $0, 56(%rcx)
  movq %rcx, (%rdi)
  movq %fs:0, %rax
  movq %rax, 8(%rdi)
  movq %rdx, %r8
  movl $1, 4(%r8)
  leaq 4(%r8), %rdi      # futex(words + 1, FUTEX_WAKE_PRIVATE, 1)
  movl $129, %esi
  movl $1, %edx
  movl $202, %eax
  syscall
1:
  movq %r8, %rdi         # futex(words, FUTEX_WAIT_PRIVATE, 0, nullptr)
  movl $128, %esi
  xorl %edx, %edx
  xorl %r10d, %r10d
  movl $202, %eax
  syscall
  cmpl $0, (%r8)
  je 1b
  ret
)");

namespace gantry::orders {

Context begin_below(void* top, void (*body)()) noexcept {
  auto** const frame = static_cast<void**>(top) - 8;
  frame[5] = nullptr;  // of rbp
  frame[6] = reinterpret_cast<void*>(body);
  frame[7] = nullptr;  // where it would return
  void* thread_pointer = nullptr;
  asm("movq %%fs:0, %0" : "=r"(thread_pointer));
  return {frame, thread_pointer};
}

bool can_change_threads() noexcept {
  return (getauxval(AT_HWCAP2) & 2) != 0;  // HWCAP2_FSGSBASE
}

}  // namespace gantry::orders
