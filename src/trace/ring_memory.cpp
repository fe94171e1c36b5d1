#include "trace/ring_memory.hpp"

#include <sys/mman.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <utility>

#include "base/fault_answers.hpp"

namespace gantry::trace {
namespace {

struct Range {
  std::atomic<std::uintptr_t> from;  // 0: free; kTaken: not yet
  std::atomic<Bytes> bytes;
};
constexpr std::uintptr_t kTaken = 1;
constexpr std::size_t kMostRings = 4096;
std::array<Range, kMostRings> ranges{};

bool add(std::uintptr_t from, Bytes bytes) noexcept {
  for (Range& range : ranges) {
    std::uintptr_t free = 0;
    if (!range.from.compare_exchange_strong(free, kTaken, std::memory_order_acquire,  // [T]
                                            std::memory_order_relaxed))  // the next one, then
      continue;
    range.bytes.store(bytes, std::memory_order_relaxed);  // the address carries it
    range.from.store(from, std::memory_order_release);    // [R]
    return true;
  }
  return false;
}

void remove(std::uintptr_t from) noexcept {
  for (Range& range : ranges)
    if (range.from.load(std::memory_order_relaxed) == from)   // its owner's own
      return range.from.store(0, std::memory_order_release);  // [T]
}

bool put_own_memory(std::uintptr_t from, Bytes bytes) noexcept {
  void* const at = reinterpret_cast<void*>(from);  // NOLINT(performance-no-int-to-ptr): it was one
  return ::mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
                0) != MAP_FAILED;
}

// Runs in the handler.
bool replace(int signal, siginfo_t* info, void*) noexcept {
  if (signal != SIGBUS || info->si_code != BUS_ADRERR) return false;
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  for (Range& range : ranges) {
    const std::uintptr_t from = range.from.load(std::memory_order_acquire);  // [R]
    const Bytes bytes = range.bytes.load(std::memory_order_acquire);
    const bool is_ours = from > kTaken && address >= from && address - from < bytes;
    if (!is_ours || range.from.load(std::memory_order_relaxed) != from) continue;  // I2
    const int kept = errno;
    const bool is_there = put_own_memory(from, bytes);
    errno = kept;
    return is_there;
  }
  return false;
}

}  // namespace

Result<RingMemory> RingMemory::map(int file, Bytes bytes) {
  static const bool is_answered = answer_faults(&replace);
  if (!is_answered) return fail(Code::unsupported, "no handler of SIGBUS could be installed");
  void* const at =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file, 0);
  if (at == MAP_FAILED) return fail_errno("mapping a ring of events");
  RingMemory memory(at, bytes);
  memory.is_known_ = add(reinterpret_cast<std::uintptr_t>(at), bytes);  // I1
  if (!memory.is_known_)
    return fail(Code::unsupported, "more rings of events than a process can have");
  return memory;
}

RingMemory::RingMemory(RingMemory&& other) noexcept
    : at_(std::exchange(other.at_, nullptr)),
      bytes_(other.bytes_),
      is_known_(std::exchange(other.is_known_, false)) {}

bool RingMemory::retire() noexcept {
  const auto from = reinterpret_cast<std::uintptr_t>(at_);
  if (!is_known_ || !put_own_memory(from, bytes_)) return false;
  is_known_ = false;
  remove(from);  // I1: no write of it can fault any more
  return true;
}

RingMemory::~RingMemory() {
  if (at_ == nullptr) return;
  if (is_known_) remove(reinterpret_cast<std::uintptr_t>(at_));
  ::munmap(at_, bytes_);
}

}  // namespace gantry::trace
