#pragma once  // device_memory.hpp: device memory: what buffers have taken is counted, and that of
              // freed ones is kept for new ones.

#include <algorithm>
#include <atomic>
#include <bit>
#include <gantry/types.hpp>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "core/base/assert.hpp"
#include "core/base/os/fork.hpp"
#include "core/base/sizes.hpp"

namespace gantry {

/// Any thread may call every member.
class MemoryBudget : public std::enable_shared_from_this<MemoryBudget> {
 public:
  /// The bytes of one buffer; gives them back when it goes. Null: there was not enough.
  using Share = std::shared_ptr<const void>;

  explicit MemoryBudget(Bytes limit) noexcept : limit_(limit) {}
  [[nodiscard]] static std::shared_ptr<MemoryBudget> make(Bytes limit) {
    return std::make_shared<MemoryBudget>(limit);
  }

  [[nodiscard]] Bytes left() const noexcept {
    return limit_ - taken_.load(std::memory_order_relaxed);  // a count by itself
  }
  [[nodiscard]] Share take(Bytes bytes) {
    Bytes taken = taken_.load(std::memory_order_relaxed);  // as above
    do {
      if (bytes > limit_ - taken) return nullptr;
    } while (!taken_.compare_exchange_weak(taken, taken + bytes, std::memory_order_relaxed));
    return {static_cast<const void*>(this), [budget = shared_from_this(), bytes](const void*) {
              GANTRY_DEBUG_ASSERT(budget->left() + bytes <= budget->limit_);
              budget->taken_.fetch_sub(bytes, std::memory_order_relaxed);  // as above
            }};
  }

 private:
  const Bytes limit_;
  std::atomic<Bytes> taken_{0};
};

/// Memory of a device is made at its first touch, which costs several times a copy into it. So a
/// freed buffer's memory waits here for the next of its size, up to a limit in all; the oldest goes
/// first. `Memory` is movable and frees itself. Any thread may call every member; a fork's copy
/// keeps nothing.
template <class Memory>
class KeptMemory {
 public:
  explicit KeptMemory(Bytes most_bytes) noexcept : most_bytes_(most_bytes) {}

  /// The size with which memory for `size` bytes is made, so that near sizes share it: at most an
  /// eighth and a page more.
  [[nodiscard]] static Bytes room_for(Bytes size) noexcept {
    const Bytes grain = std::max(kSmallestPage, std::bit_floor(size) / 8);
    return (size + grain - 1) / grain * grain;
  }

  /// Memory made with exactly `room`; nothing if there is none.
  [[nodiscard]] std::optional<Memory> take(Bytes room) {
    if (!fork_guard_.is_this()) return std::nullopt;
    const std::lock_guard lock(mutex_);
    const auto found =
        std::ranges::find_if(kept_, [room](const Kept& one) { return one.room == room; });
    if (found == kept_.end()) return std::nullopt;
    std::optional<Memory> memory(std::move(found->memory));
    kept_.erase(found);
    GANTRY_DEBUG_ASSERT(bytes_ >= room);
    bytes_ -= room;
    return memory;
  }

  void give(Memory memory, Bytes room) noexcept {
    if (!fork_guard_.is_this() || room > most_bytes_) return;
    List gone;  // freed after the lock was let go
    try {
      List one;
      one.push_back({std::move(memory), room});
      const std::lock_guard lock(mutex_);
      kept_.splice(kept_.begin(), one);
      bytes_ += room;
      while (bytes_ > most_bytes_) move_last(gone);
    } catch (const std::bad_alloc&) {
      return;  // freed
    }
  }

  void clear() noexcept {
    if (!fork_guard_.is_this()) return;
    List gone;
    const std::lock_guard lock(mutex_);
    gone.splice(gone.end(), kept_);
    bytes_ = 0;
  }
  [[nodiscard]] Bytes bytes() const noexcept {
    if (!fork_guard_.is_this()) return 0;
    const std::lock_guard lock(mutex_);
    return bytes_;
  }

 private:
  struct Kept {
    Memory memory;
    Bytes room;
  };
  using List = std::list<Kept>;
  void move_last(List& gone) noexcept {
    bytes_ -= kept_.back().room;
    gone.splice(gone.end(), kept_, std::prev(kept_.end()));
  }

  const Bytes most_bytes_;
  const ForkGuard fork_guard_;
  mutable std::mutex mutex_;  // guards what follows
  List kept_;                 // the youngest first
  Bytes bytes_ = 0;
};

/// How much a device with that much memory keeps: a ring of chunks, and little of the whole.
[[nodiscard]] inline Bytes bytes_to_keep(Bytes memory_bytes) noexcept {
  return std::min(Bytes{64} << 20, memory_bytes / 16);
}

}  // namespace gantry
