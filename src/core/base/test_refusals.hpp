#pragma once  // base/test_refusals.hpp: refuses system calls as kernels and containers do, for
              // tests.

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace gantry::test {

/// One refused system call; with `is_for` it is refused only if argument number `argument` has
/// `value` (its low half).
struct Refusal {
  long call = 0;
  int error = 0;
  bool is_for = false;
  unsigned argument = 0;
  std::uint32_t value = 0;
};

/// Refuses these calls to this thread, and to whatever it starts, for good: call it in a child.
/// False: there are no filters here.
inline bool refuse_calls(const std::vector<Refusal>& refusals) {
  std::vector<sock_filter> filter;
  const auto load = [&filter](std::uint32_t offset) {
    filter.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset));
  };
  // Jumps over `steps` unless the loaded word is `value`.
  const auto unless = [&filter](std::uint32_t value, std::uint8_t steps) {
    filter.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, steps));
  };
  for (const Refusal& one : refusals) {
    load(offsetof(seccomp_data, nr));
    unless(static_cast<std::uint32_t>(one.call), one.is_for ? 3 : 1);
    if (one.is_for) {
      load(static_cast<std::uint32_t>(offsetof(seccomp_data, args) + 8 * one.argument));
      unless(one.value, 1);
    }
    filter.push_back(
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<std::uint32_t>(one.error)));
  }
  filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  const sock_fprog program{static_cast<unsigned short>(filter.size()), filter.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

inline constexpr int kNoFilters = 77;  ///< What a child returns when refuse_calls() was false.

/// Runs `work` in a child and returns its result, or 1000 + the signal that ended it. For processes
/// without other threads.
template <class Work>
int in_child(Work work) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(work());
  int status = -1;
  if (child < 0 || ::waitpid(child, &status, 0) != child) return -1;
  return WIFSIGNALED(status) ? 1000 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace gantry::test
