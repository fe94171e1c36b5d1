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
  [[nodiscard]] unsigned count() const noexcept { return count_; }

 private:
  Extent* top_ = nullptr;
  unsigned count_ = 0;
};

/// The owner's between enter() and leave() of `lock`; a thief's, who holds the pool's lock, between
/// steal() and hand_back(). The counters have the owner as their one writer and any reader.
struct ThreadCache {
  static constexpr std::size_t kLarge = 16;

  /// How many pieces of a class are kept, and half of that moved to or from the depot at once.
  [[nodiscard]] static constexpr unsigned most(unsigned size_class) noexcept {
    constexpr Bytes kKept = Bytes{256} << 10;
    const Bytes fit = kKept / class_capacity(size_class);
    return fit > 128 ? 128 : fit < 8 ? 8 : static_cast<unsigned>(fit);
  }

  [[nodiscard]] Extent* pop(unsigned size_class, Bytes capacity) noexcept {
    return size_class != kNoClass ? classes[size_class].pop() : pop_large(capacity);
  }

  /// False: there is no room; the caller finds another place for it.
  [[nodiscard]] bool push(Extent& extent) noexcept {
    if (extent.size_class == kNoClass) return push_large(extent);
    ExtentList& list = classes[extent.size_class];
    if (list.count() >= most(extent.size_class)) return false;
    list.push(extent);
    return true;
  }

  // Large pieces serve whatever fills them by four fifths: the sizes of messages wander.
  [[nodiscard]] Extent* pop_large(Bytes capacity) noexcept {
    const Bytes most = capacity + capacity / 4;
    for (std::size_t i = 0; i < kLarge; ++i) {
      if (large_capacity[i] < capacity || large_capacity[i] > most) continue;
      large_capacity[i] = 0;
      return std::exchange(large[i], nullptr);
    }
    return nullptr;
  }
  [[nodiscard]] bool push_large(Extent& extent) noexcept {
    for (std::size_t i = 0; i < kLarge; ++i) {
      if (large_capacity[i] != 0) continue;
      large_capacity[i] = extent.capacity;
      large[i] = &extent;
      return true;
    }
    return false;
  }
  /// Puts it where the longest kept one was, which is returned; null when there was room.
  [[nodiscard]] Extent* replace_large(Extent& extent) noexcept {
    if (push_large(extent)) return nullptr;
    const std::size_t victim = next_victim++ % kLarge;
    large_capacity[victim] = extent.capacity;
    return std::exchange(large[victim], &extent);
  }

  BiasedLock lock;
  std::array<ExtentList, kClasses> classes;
  std::array<Bytes, kLarge> large_capacity{};  // 0: none
  std::array<Extent*, kLarge> large{};
  std::size_t next_victim = 0;

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
