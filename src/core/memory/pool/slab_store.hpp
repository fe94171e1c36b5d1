#pragma once  // memory/pool/slab_store.hpp: the pieces of a pool that neither a block nor a thread
              // has.

#include <deque>

#include "core/memory/pool/thread_cache.hpp"

namespace gantry {

/// What a new block must have.
struct Need {
  Bytes size;
  Bytes capacity;
  Bytes alignment;
  unsigned size_class;
  bool loose;
  bool counts_lingering = false;  // see BlockOptions

  /// The smallest slab that has it: an alignment may cost its own size.
  [[nodiscard]] Bytes least_slab() const noexcept {
    return round_up(capacity + (alignment > kPage ? alignment : 0), kPage);
  }
};

/// Depots of pieces by class, and the slabs that they are cut from. All members but charged() and
/// dropped_slabs() are called under the pool's lock.
///   I1  `cut_bytes` is the capacity of all pieces that are out of their slabs.
class SlabStore {
 public:
  struct Cut {
    Extent* first = nullptr;
    ExtentList rest;  // cut with it, in one run of memory
  };
  [[nodiscard]] std::optional<Cut> take(const Need& need);
  /// A piece goes back to its slab, where it joins its neighbours.
  void to_slab(Extent& extent) noexcept;
  /// The piece never comes back, and its slab serves nothing new.
  void retire(Extent& extent) noexcept;
  /// Moves half of what a thread keeps of a class to where others find it. The caller is the
  /// cache's owner; the lock keeps others from stealing it.
  void make_room(ThreadCache& cache, unsigned size_class) noexcept;
  void drain(ThreadCache& cache) noexcept;
  void drain_depots() noexcept;

  void add(std::unique_ptr<Slab> slab);
  /// Slabs of which nothing is out, chained to each other: the caller drops them after it let the
  /// lock go, since unregistering takes time.
  [[nodiscard]] std::unique_ptr<Slab> drop_empty_slabs() noexcept;

  /// Null: `data` is in no piece of this pool.
  [[nodiscard]] Extent* extent_at(const std::byte* data) const;
  /// Null: it is gone.
  [[nodiscard]] const Slab* slab_of(std::uint32_t number) const noexcept;
  [[nodiscard]] Bytes slab_bytes() const noexcept { return slab_bytes_; }
  /// Bytes of dropped slabs that are still mapped. A slab that is being made is charged before it
  /// is added, so this may be too high for a moment.
  [[nodiscard]] Bytes lingering_bytes() const noexcept;
  [[nodiscard]] const SlabCharge::Total& charged() const noexcept { return charged_; }
  [[nodiscard]] std::uint64_t dropped_slabs() const noexcept {
    return dropped_slabs_.load(std::memory_order_relaxed);  // a hint to look; the look locks
  }

  /// Who has most of the blocks, by tag.
  [[nodiscard]] std::vector<Holder> holders(const std::vector<std::string>& tags) const;
  /// Fills in what is known here; `report.peak_bytes` becomes at most what was cut.
  void fill(PoolReport& report) const;

 private:
  [[nodiscard]] std::optional<Cut> cut(Slab& slab, const Need& need, unsigned pieces);
  void put_away(Extent& extent) noexcept;
  void fill_room(PoolReport& report) const;

  std::vector<std::unique_ptr<Slab>> slabs_;
  std::map<std::uintptr_t, Slab*> by_address_;
  Bytes slab_bytes_ = 0;  // bytes of slabs_
  // Bytes of slabs_, and of dropped slabs that are still mapped: here, or by others that hold a
  // charge. Shrinks at any time.
  const SlabCharge::Total charged_ = std::make_shared<std::atomic<Bytes>>(0);
  std::atomic<std::uint64_t> dropped_slabs_{0};
  Bytes cut_bytes_ = 0;
  Bytes peak_cut_bytes_ = 0;
  std::array<ExtentList, kExactClasses> depot_;
  std::deque<Extent> extents_;  // all there ever were; their addresses stay
  ExtentList spare_extents_;    // those that stand for no piece
};

}  // namespace gantry
