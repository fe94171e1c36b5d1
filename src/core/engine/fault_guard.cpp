#include "core/engine/fault_guard.hpp"

#include <pthread.h>
#include <ucontext.h>

#include <array>
#include <csetjmp>
#include <csignal>
#include <cstring>

#include "core/base/os/fault_answers.hpp"

namespace gantry {
namespace {

// GCC's own jump keeps three words, where sigsetjmp() keeps eight and obscures some of them: half
// of the guard's time. Sanitizers have to see the jump.
#if defined(__x86_64__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
using Jump = void* [5];
#define GANTRY_SET_JUMP(jump) __builtin_setjmp(jump)
#define GANTRY_JUMP(jump) __builtin_longjmp(jump, 1)
#else
using Jump = sigjmp_buf;
#define GANTRY_SET_JUMP(jump) sigsetjmp(jump, 0)
#define GANTRY_JUMP(jump) siglongjmp(jump, 1)
#endif

// The ranges of a copy stand by themselves, so that they need not be put together.
struct Landing {
  Jump jump;
  std::span<const GuardedRange> ranges;  // empty: a copy's, see below
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  Bytes bytes = 0;
  Fault fault;
};

// Where this thread lands after a fault; null outside catch_fault() (I2). The TLS model needs no
// allocation when a signal handler is the first to touch it.
[[gnu::tls_model("initial-exec")]] thread_local Landing* landing = nullptr;

// True if a write faulted; by the processor's error code where there is one.
#if defined(__x86_64__)
bool is_write(const void* context) noexcept {
  constexpr greg_t kWrite = 2;
  return (static_cast<const ucontext_t*>(context)->uc_mcontext.gregs[REG_ERR] & kWrite) != 0;
}
#elif defined(__aarch64__)
// The kernel passes records one behind the other; the syndrome's is not the first.
bool is_write(const void* context) noexcept {
  constexpr std::uint64_t kWrite = 1u << 6;  // WnR
  const auto& records = static_cast<const ucontext_t*>(context)->uc_mcontext.__reserved;
  _aarch64_ctx head{};
  for (std::size_t at = 0; at + sizeof(esr_context) <= sizeof records; at += head.size) {
    std::memcpy(&head, records + at, sizeof head);
    if (head.magic == 0 || head.size < sizeof head) break;
    if (head.magic != ESR_MAGIC) continue;
    esr_context syndrome{};
    std::memcpy(&syndrome, records + at, sizeof syndrome);
    return (syndrome.esr & kWrite) != 0;
  }
  return true;  // an emulator tells nothing
}
#else
bool is_write(const void*) noexcept {
  return true;
}
#endif

// If two ranges share the byte, the one that is used as the fault was.
const GuardedRange* range_of(std::span<const GuardedRange> ranges, std::uintptr_t address,
                             bool write) noexcept {
  const GuardedRange* found = nullptr;
  for (const GuardedRange& range : ranges) {
    const auto from = reinterpret_cast<std::uintptr_t>(range.from);
    if (address >= from && address - from < range.bytes &&
        (found == nullptr || range.written == write))
      found = &range;
  }
  return found;
}

// An address that no page table can hold faults without being reported.
constexpr std::uintptr_t kHighestAddress = std::uintptr_t{1} << 47;

const GuardedRange* impossible_range(std::span<const GuardedRange> ranges) noexcept {
  for (const GuardedRange& range : ranges)
    if (reinterpret_cast<std::uintptr_t>(range.from) + range.bytes > kHighestAddress) return &range;
  return nullptr;
}

bool jump_back(int, siginfo_t* info, void* context) noexcept {
  Landing* const here = landing;
  if (here != nullptr && info->si_code > 0) {  // positive: from the kernel, about this thread
    const bool told = info->si_code != SI_KERNEL;
    const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
    const std::array<GuardedRange, 2> of_copy{GuardedRange{here->from, here->bytes, false},
                                              GuardedRange{here->to, here->bytes, true}};
    const std::span<const GuardedRange> ranges =
        here->ranges.empty() ? std::span<const GuardedRange>(of_copy) : here->ranges;
    if (const GuardedRange* range =
            told ? range_of(ranges, address, is_write(context)) : impossible_range(ranges)) {
      here->fault = {told ? address : reinterpret_cast<std::uintptr_t>(range->from),
                     range->written};
      landing = nullptr;
      // Otherwise signals that the kernel blocked for the handler would stay blocked after the
      // jump.
      ::pthread_sigmask(SIG_SETMASK, &static_cast<ucontext_t*>(context)->uc_sigmask, nullptr);
      GANTRY_JUMP(here->jump);  // I1
    }
  }
  return false;
}

}  // namespace

bool install_fault_guard() noexcept {
  static const bool installed = answer_faults(&jump_back);
  return installed;
}

bool catch_fault(std::span<const GuardedRange> ranges, void (*work)(void*) noexcept, void* argument,
                 Fault& fault) noexcept {
  Landing here;
  here.ranges = ranges;
  if (GANTRY_SET_JUMP(here.jump) != 0) {
    fault = here.fault;
    return false;
  }
  landing = &here;
  std::atomic_signal_fence(std::memory_order_seq_cst);  // the handler sees it before the work
  work(argument);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  landing = nullptr;
  return true;
}

bool copy_guarded(std::byte* to, const std::byte* from, Bytes bytes) noexcept {
  if (to == nullptr || from == nullptr) return bytes == 0;  // which memcpy() must not be given
  Landing here;  // NOLINT: what the handler reads is set below
  here.from = from;
  here.to = to;
  here.bytes = bytes;
  if (GANTRY_SET_JUMP(here.jump) != 0) return false;
  landing = &here;
  std::atomic_signal_fence(std::memory_order_seq_cst);  // as above
  std::memcpy(to, from, bytes);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  landing = nullptr;
  return true;
}

}  // namespace gantry
