#include "core/base/os/populate.hpp"
#include "core/base/sizes.hpp"

#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace gantry {
namespace {

#ifndef MADV_POPULATE_READ  // Linux 5.14; the C library's header may be older
constexpr int MADV_POPULATE_READ = 22;
constexpr int MADV_POPULATE_WRITE = 23;
#endif

void* address(std::uintptr_t at) noexcept {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): page arithmetic
  return reinterpret_cast<void*>(at);
}

// The kernel reads the word, or combines it with 0 in one atomic step; EFAULT if it cannot reach
// the word. A thread that waits at that word sees at most one needless wake-up.
int reach_word(void* word, PageAccess access) noexcept {
  long failed = 0;
  if (access == PageAccess::read)
    failed = ::syscall(SYS_futex, word, FUTEX_CMP_REQUEUE_PRIVATE, 0, 0, word, 0);
  else
    failed = ::syscall(SYS_futex, word, FUTEX_WAKE_OP_PRIVATE, 0, 0, word,
                       FUTEX_OP(FUTEX_OP_OR, 0, FUTEX_OP_CMP_EQ, 0));
  return failed < 0 && errno != EAGAIN ? errno : 0;  // EAGAIN: the word is not 0
}

int populate_by_page(std::uintptr_t begin, std::uintptr_t end, std::uintptr_t page,
                     PageAccess access) noexcept {
  for (std::uintptr_t at = begin; at < end; at += page)
    if (const int error = reach_word(address(at), access); error != 0) return error;
  return 0;
}

}  // namespace

bool populating_works() noexcept {
  const auto page = page_bytes();
  void* const at =
      ::mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return true;
  unsigned char is_there = 1;
  const bool said_so = ::madvise(at, page, MADV_POPULATE_WRITE) == 0;
  ::mincore(at, page, &is_there);
  ::munmap(at, page);
  return !said_so || (is_there & 1u) != 0;
}

bool trust_populating() noexcept {
  static const bool works = populating_works();
  return works;
}
[[maybe_unused]] const bool kPopulatingAtLoad = trust_populating();  // base/os/fork.cpp

int populate(ByteSpan range, PageAccess access) noexcept {
  const auto page = page_bytes();
  const auto from = reinterpret_cast<std::uintptr_t>(range.data());
  const std::uintptr_t begin = from / page * page;
  const std::uintptr_t end = (from + range.size() + page - 1) / page * page;
  if (!trust_populating()) return populate_by_page(begin, end, page, access);
  const int advice = access == PageAccess::write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ;
  while (::madvise(address(begin), end - begin, advice) != 0) {
    const int error = errno;
    // An older kernel does not know the advice; a container may refuse it.
    if (error == EINVAL || error == ENOSYS || error == EPERM)
      return populate_by_page(begin, end, page, access);
    if (error != EINTR && error != EAGAIN) return error;
  }
  return 0;
}

}  // namespace gantry
