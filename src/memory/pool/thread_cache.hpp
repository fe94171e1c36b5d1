#pragma once  // memory/pool/thread_cache.hpp: free pieces that one thread keeps ready for itself.

#include <array>

#include "memory/pool/size_class.hpp"
#include "memory/pool/slab.hpp"
#include "sync/biased_lock.hpp"
#include "sync/counter.hpp"

namespace gantry {

/// A list of pieces, linked through themselves.
class ExtentList {
 public:
  void push(Extent& extent) noexcept {
    extent.next = top_;
    top_ = &extent;
    ++count_;
  }
  [[nodiscard]] Extent* pop() noexcept {
    Extent* const extent = top_;
    if (extent == nullptr) return nullptr;
    top_ = extent->next;
    --count_;
    return extent;
  }
  [[nodiscard]] const Extent* top() const noexcept { return top_; }
  [[nodiscard]] unsigned count() const noexcept { return count_; }

 private:
  Extent* top_ = nullptr;
  unsigned count_ = 0;
};

/// The owner's between enter() and leave() of `lock`; a thief's, who holds the pool's lock, between
/// steal() and hand_back(). The counters have the owner as their one writer and any reader.
struct alignas(128) ThreadCache {
  /// How many pieces of a class are kept, and half of that moved to or from the depot at once.
  [[nodiscard]] static constexpr unsigned most(unsigned size_class) noexcept {
    return kMost[size_class];  // a division here was a seventh of what giving back cost
  }

  /// Of at least `size`; null when there is none, or it would take a search to find one.
  [[nodiscard]] Extent* pop(unsigned size_class, Bytes size) noexcept {
    ExtentList& list = classes[size_class];
    if (size_class < kExactClasses) return list.pop();
    // The sizes of messages wander: what a large one nearly fills will do.
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
  // Signed in effect: a thread may free what another one allocated. Sums over all threads count.
  Counter live_bytes;
  Counter peak_bytes;  // of live_bytes, in this thread
  Counter allocations;
  Counter returns;
  Counter far_allocations;            // of the allocations, those not served from here
  std::atomic<bool> orphaned{false};  // [O] its thread has ended; the next new one takes it over
};

/// The calling thread's cache of a pool, or null: see thread_caches.cpp.
struct HotCache {
  std::uint64_t pool = 0;  // its number; 0: none
  ThreadCache* cache = nullptr;
};
inline constexpr std::size_t kHotCaches = 8;
// Reached in one instruction, without the check that a constructor would need.
extern constinit thread_local std::array<HotCache, kHotCaches> hot_caches
    __attribute__((tls_model("initial-exec")));

}  // namespace gantry
