#pragma once  // snapshot/fault_source.hpp: pages that are not there, by userfaultfd; those that the
              // program gave back, and those that never come.

#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sys/ioctl.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <gantry/memory.hpp>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <span>

#include "core/base/os/fd.hpp"
#include "core/base/result.hpp"
#include "image/snapshot/memory.hpp"

namespace gantry::snapshot {

/// Pages that the program gave back, maybe before they were there. They are zero from then on:
/// nobody may make them as they were saved. A std::shared_mutex whose owner by lock() never
/// starves.
///   D1  Whoever makes pages looks which were dropped, and makes the others, under a shared lock.
///   D2  A program that drops pages goes on when the kernel's message is read. It is read, and the
///       pages noted here, under one exclusive lock: no copy comes behind the dropping and before
///       the note.
///   D3  The descriptor is closed under the exclusive lock, and used under a shared one.
class DroppedPages {
 public:
  /// Errors: `out_of_memory`. None is asked for later.
  [[nodiscard]] static Result<std::unique_ptr<DroppedPages>> make(std::uint64_t pages);
  ~DroppedPages() { ::pthread_rwlock_destroy(&lock_); }
  DroppedPages(const DroppedPages&) = delete;
  DroppedPages& operator=(const DroppedPages&) = delete;

  void lock() noexcept {
    ::pthread_rwlock_wrlock(&lock_);
    is_locked_ = true;
  }
  void unlock() noexcept {
    is_locked_ = false;
    ::pthread_rwlock_unlock(&lock_);
  }
  void lock_shared() noexcept { ::pthread_rwlock_rdlock(&lock_); }
  void unlock_shared() noexcept { ::pthread_rwlock_unlock(&lock_); }

  /// Of pages that do not exist none. Under lock().
  void add(std::uint64_t page, std::uint64_t pages) noexcept;
  // Under either lock, or in the thread that adds.
  [[nodiscard]] bool has(std::uint64_t page) const noexcept;
  /// How many from `page` on, of at most `pages`, were not dropped.
  [[nodiscard]] std::uint64_t kept_from(std::uint64_t page, std::uint64_t pages) const noexcept;

 private:
  struct Free {
    void operator()(std::uint64_t* words) const noexcept { std::free(words); }
  };
  explicit DroppedPages(std::uint64_t pages);

  pthread_rwlock_t lock_{};
  const std::uint64_t pages_;
  bool is_locked_ = false;  // by lock()
  bool has_any_ = false;
  // A bit a page. The kernel makes it when it is needed: of a terabyte it is 32 MiB.
  const std::unique_ptr<std::uint64_t, Free> words_;
};

/// Memory whose loading ended with an error. Whoever touches a page of it that is not there ends by
/// a signal; before that one line on standard error says which page and why. At most kMost of a
/// process are known at a time; others end without a word.
class DeadMemory {
 public:
  static constexpr std::size_t kMost = 16;

  DeadMemory() = default;
  DeadMemory(const DeadMemory&) = delete;
  DeadMemory& operator=(const DeadMemory&) = delete;
  ~DeadMemory();

  /// `signal` is what touching raises. Once.
  void tell(ByteSpan memory, int signal, const Error& why) noexcept;

 private:
  std::size_t place_ = kMost;
};

/// Tells who touches pages of a snapshot's memory that are not mapped, and maps them. Whoever
/// touched one sleeps until then. What the program drops of its own memory (MADV_DONTNEED) is zero
/// from then on, and is not made any more. Any thread may call every member but those for the one
/// that takes.
class FaultSource {
 public:
  /// `own_accesses_only`: good enough are faults of the program itself, not those of the kernel for
  /// it. Errors: `unsupported`, `permission_denied`, with how to mend that.
  [[nodiscard]] static Result<FaultSource> open(bool own_accesses_only);
  /// Begins; pages that are mapped already raise no faults. Errors: `system`.
  [[nodiscard]] Result<void> watch(const Memory& memory);
  /// Ends. Whoever sleeps touches again; what is not there is zero from then on.
  void ignore() noexcept;

  [[nodiscard]] int descriptor() const noexcept { return fd_.get(); }

  // ---- for the thread that takes, without which nobody who drops pages goes on
  /// Takes addresses that were touched, in their order, from the first byte of the memory on, and
  /// notes what was dropped. Waits only for pages that are being made, and takes no memory.
  static constexpr std::size_t kMostTaken = 64;
  [[nodiscard]] std::span<const Bytes> take(std::array<Bytes, kMostTaken>& into) noexcept;
  [[nodiscard]] bool was_dropped(std::uint64_t page) const noexcept { return dropped_->has(page); }
  /// As map() below, of a page; while somebody drops pages whoever sleeps on it touches it again
  /// instead.
  [[nodiscard]] Result<void> answer_map(std::uint64_t page) {
    return map(page * kPageBytes, kPageBytes, WhileDropping::wake);
  }

  // ---- for all
  // In whole pages, whose offsets count from the first byte on. A page that is mapped already stays
  // as it is. All wake whoever sleeps there. Errors: `out_of_memory`, `system`.
  [[nodiscard]] Result<void> copy(Bytes to, ConstByteSpan from);  ///< New pages with these bytes.
  /// What shared memory has there; else zeros.
  [[nodiscard]] Result<void> map(Bytes at, Bytes bytes) {
    return map(at, bytes, WhileDropping::wait);
  }
  /// Touching them is SIGBUS from now on (SIGSEGV before Linux 6.6).
  void poison(Bytes at, Bytes bytes) noexcept;
  [[nodiscard]] int poison_signal() const noexcept { return has_poison_ ? SIGBUS : SIGSEGV; }

 private:
  /// While somebody drops pages the kernel makes none.
  enum class WhileDropping : std::uint8_t { wait, wake };
  enum class Dropped : std::uint8_t { as_others, left_out };
  template <class Call>
  [[nodiscard]] int each(Bytes at, Bytes bytes, WhileDropping what, Dropped dropped,
                         Call call) noexcept;
  template <class Call>
  [[nodiscard]] std::pair<std::int64_t, int> try_once(Bytes at, Bytes bytes, Dropped dropped,
                                                      Call call) noexcept;
  /// False: errno says why.
  template <class Request>
  [[nodiscard]] bool asks(unsigned long what, Request& request) const noexcept {
    return ::ioctl(fd_.get(), what, &request) == 0;
  }
  [[nodiscard]] uffdio_range range_of(Bytes at, Bytes bytes) const noexcept;
  void let_go(Bytes at, Bytes bytes) noexcept;
  [[nodiscard]] Result<void> make_zero(Bytes at, Bytes bytes, WhileDropping what);
  [[nodiscard]] Result<void> map(Bytes at, Bytes bytes, WhileDropping what);
  void wake(Bytes at, Bytes bytes) noexcept;

  Fd fd_;
  std::unique_ptr<DroppedPages> dropped_;  // of shared memory none: it has them still
  ByteSpan memory_;
  bool is_shared_ = false;
  bool has_poison_ = false;
};

}  // namespace gantry::snapshot
