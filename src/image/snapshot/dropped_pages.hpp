#pragma once  // image/snapshot/dropped_pages.hpp: pages that the program gave back, maybe before
              // they were there.

#include <pthread.h>

#include <cstdlib>
#include <memory>
#include <mutex>
#include <shared_mutex>

#include "base/result.hpp"

namespace gantry::snapshot {

/// They are zero from then on: nobody may make them as they were saved. Locks it as a
/// std::shared_mutex whose owner by lock() never starves.
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

}  // namespace gantry::snapshot
