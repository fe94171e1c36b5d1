#pragma once  // memory/pool/thread_cache.hpp: free pieces that one thread keeps for itself.

#include <array>

#include "core/memory/pool/size_class.hpp"
#include "core/memory/pool/slab.hpp"
#include "core/sync/biased_lock.hpp"
#include "core/sync/counter.hpp"

namespace gantry {

/// Used by its owner between enter() and leave() of `lock`, and by a thief, who holds the pool's
/// lock, between steal() and hand_back(). Only the owner writes the counters; anyone reads them.
struct alignas(128) ThreadCache {
  /// Pieces of a class that are kept; half of that moves to or from the depot at once.
  [[nodiscard]] static constexpr unsigned most(unsigned size_class) noexcept {
    // a table, since a division here was a seventh of the cost of giving back
    return kMost[size_class];
  }

  /// A piece of at least `size`; null if there is none, or finding one would take a search.
  [[nodiscard]] Extent* pop(unsigned size_class, Bytes size) noexcept {
    ExtentList& list = classes[size_class];
    if (size_class < kExactClasses) return list.pop();
    // Message sizes vary, so a piece that a size nearly fills will do.
    if (list.top() != nullptr && list.top()->capacity >= size) return list.pop();
    return classes[size_class + 1].pop();
  }

  /// False: there is no room; the caller finds another place for it.
  [[nodiscard]] bool push(Extent& extent) noexcept {
    ExtentList& list = classes[extent.size_class];
    if (list.count() >= most(extent.size_class)) return false;
    list.push(extent);
    return true;
  }

  BiasedLock lock;
  std::array<ExtentList, kClasses + 1> classes;  // the last one stays empty: pop() may look there

 private:
  static constexpr std::array<std::uint8_t, kClasses> kMost = [] {
    constexpr Bytes kKept = Bytes{256} << 10;
    std::array<std::uint8_t, kClasses> most{};
    for (unsigned i = 0; i < kClasses; ++i) {
      const Bytes fit = i < kExactClasses ? kKept / class_capacity(i) : 0;
      most[i] = static_cast<std::uint8_t>(fit > 128 ? 128 : fit < 8 ? 8 : fit);
    }
    return most;
  }();

 public:
  // Signed in effect: a thread may free what another allocated. Only sums over all threads count.
  Counter live_bytes;
  Counter peak_bytes;  // of live_bytes, in this thread
  Counter allocations;
  Counter returns;
  Counter far_allocations;            // allocations that were not served from here
  std::atomic<bool> orphaned{false};  // [O] its thread has ended; the next new thread takes it over
};

/// The calling thread's cache of a pool, or null: see cache_of_this_thread().
struct HotCache {
  std::uint64_t pool = 0;  // its number; 0: none
  ThreadCache* cache = nullptr;
};
inline constexpr std::size_t kHotCaches = 8;
// Reached in one instruction, without the check that a constructor would need.
extern constinit thread_local std::array<HotCache, kHotCaches> hot_caches
    __attribute__((tls_model("initial-exec")));

/// The calling thread's cache of `pool`, made if it has none. Null: there is no memory for one, the
/// thread is ending, or the pool is of the process that forked this one.
[[nodiscard]] ThreadCache* cache_of_this_thread(PoolState& pool) noexcept;

}  // namespace gantry
