#pragma once  // memory/pool/state.hpp: the pool behind its handles.

#include <deque>
#include <mutex>

#include "base/fork.hpp"
#include "memory/pool/thread_cache.hpp"

namespace gantry {

// A piece (Extent) can be, from near to far: in a block, in its thread's cache, in the depot of its
// class, in its slab's free ranges. Locks, in this order: growing_, mutex_, a cache stolen.
//   I1  A piece is in exactly one of these places.
//   I2  Only the holder of mutex_ moves pieces between caches, depot and slabs; or the cache's
//       owner, inside its lock.
//   I3  Giving back never fails: without a store for its thread it goes the slow way.
class PoolState {
 public:
  [[nodiscard]] static Result<PoolState*> create(const PoolOptions& options);

  /// The last handle is gone: the pool ends with its last block.
  void close() noexcept;

  [[nodiscard]] Result<Block> allocate(Bytes size, const BlockOptions& options);
  void give_back(Extent& extent) noexcept;
  void abandon(Extent& extent) noexcept;

  [[nodiscard]] Result<Tag> tag(std::string_view name);
  [[nodiscard]] Result<Block> adopt(std::byte* data);
  [[nodiscard]] Result<Block> find(const std::byte* data);
  [[nodiscard]] Bytes trim();
  [[nodiscard]] PoolReport report();
  [[nodiscard]] std::shared_ptr<const Region> slab(std::uint32_t number);
  [[nodiscard]] std::shared_ptr<const void> charge(std::uint32_t number);
  [[nodiscard]] std::uint64_t dropped_slabs() const noexcept {
    return dropped_slabs_.load(std::memory_order_relaxed);  // a hint to look; the look locks
  }
  /// For a block whose slab is not known to be registered: registers it, or says why it cannot.
  [[nodiscard]] Result<DeviceKey> far_key_for(const Extent& extent, const Registrar& registrar);

  [[nodiscard]] std::uint64_t number() const noexcept { return number_; }
  [[nodiscard]] const PoolOptions& options() const noexcept { return options_; }
  [[nodiscard]] const ForkGuard& fork_guard() const noexcept { return fork_guard_; }
  /// Null for an empty block.
  [[nodiscard]] static Extent* extent_of(const Block& block) noexcept {
    return static_cast<Extent*>(block.head_);
  }
  /// Returns a cache: one whose thread has ended, or a new one. Any thread.
  [[nodiscard]] std::shared_ptr<ThreadCache> new_cache();

 private:
  struct Need {
    Bytes size;
    Bytes capacity;
    Bytes alignment;
    unsigned size_class;
    bool loose;
    bool counts_lingering = false;  // see BlockOptions
  };
  struct Cut {
    Extent* first = nullptr;
    ExtentList rest;  // cut with it, in one run of memory
  };

  explicit PoolState(const PoolOptions& options);
  ~PoolState() = default;

  [[nodiscard]] Result<void> check_not_forked() const;

  // allocate.cpp
  [[nodiscard]] Extent* near_allocate(Bytes size, Bytes capacity, ThreadCache* cache) noexcept;
  [[nodiscard]] Result<Block> far_allocate(Bytes size, const BlockOptions& options,
                                           ThreadCache* cache, Extent* extent) noexcept;
  [[nodiscard]] Result<Need> need_for(Bytes size, const BlockOptions& options) const;
  [[nodiscard]] Block hand_out(Extent& extent, Bytes size, Tag tag) noexcept;
  [[nodiscard]] Result<Extent*> slow_allocate(const Need& need, ThreadCache* cache);
  [[nodiscard]] Extent* settle(const Need& need, Cut cut, ThreadCache* cache) noexcept;
  void slow_give_back(Extent& extent, ThreadCache* cache) noexcept;

  // central.cpp; need mutex_
  [[nodiscard]] std::optional<Cut> take(const Need& need);
  [[nodiscard]] std::optional<Cut> cut(Slab& slab, const Need& need, unsigned pieces);
  void to_slab(Extent& extent) noexcept;
  void put_away(Extent& extent) noexcept;
  void retire(Extent& extent) noexcept;
  void make_room(ThreadCache& cache, unsigned size_class) noexcept;
  void reclaim() noexcept;
  void drain(ThreadCache& cache) noexcept;
  [[nodiscard]] std::unique_ptr<Slab> drop_empty_slabs() noexcept;

  // grow.cpp; needs growing_
  [[nodiscard]] Result<void> grow(const Need& need);
  [[nodiscard]] Result<std::unique_ptr<Slab>> make_slab(Bytes size);
  [[nodiscard]] static Bytes least_slab(const Need& need) noexcept;
  [[nodiscard]] Result<Bytes> fit_budget(const Need& need);
  [[nodiscard]] std::optional<Bytes> largest_fit(const Need& need) const noexcept;

  // report.cpp; need mutex_
  [[nodiscard]] Slab* slab_of(std::uint32_t number) const noexcept;
  [[nodiscard]] Bytes lingering_bytes() const noexcept;
  [[nodiscard]] std::vector<Holder> holders() const;
  [[nodiscard]] std::string largest_holders() const;
  void report_room(PoolReport& report) const;
  [[nodiscard]] std::vector<std::string> registration_errors() const;
  [[nodiscard]] Error named(Error error) const;
  [[nodiscard]] static Block block_of(Extent& extent) noexcept { return Block(extent); }
  [[nodiscard]] Extent* extent_at(const std::byte* data) const;

  const PoolOptions options_;
  const std::uint64_t number_;
  const ForkGuard fork_guard_;
  ThreadCache shared_;  // counts for threads that have no cache; under mutex_

  std::mutex growing_;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Slab>> slabs_;
  std::map<std::uintptr_t, Slab*> by_address_;
  // never used twice: another process must not take a new slab for an old one
  std::uint32_t next_slab_ = 1;
  Bytes slab_bytes_ = 0;  // bytes of slabs_
  // Bytes of slabs_, and of dropped slabs that are still mapped: here, or by others that hold a
  // charge. Grows under growing_, shrinks at any time.
  const SlabCharge::Total charged_ = std::make_shared<std::atomic<Bytes>>(0);
  std::atomic<std::uint64_t> dropped_slabs_{0};
  Bytes cut_bytes_ = 0;  // in pieces
  Bytes peak_cut_bytes_ = 0;
  std::array<ExtentList, kExactClasses> depot_;
  std::deque<Extent> extents_;  // all there ever were; their addresses stay
  ExtentList spare_extents_;    // those that stand for no piece
  std::vector<std::shared_ptr<ThreadCache>> caches_;
  std::vector<std::string> tags_;
  bool closing_ = false;             // every cache is stolen for good then
  std::uint64_t closed_blocks_ = 0;  // still alive, once closing_
};

struct GANTRY_LOCAL Pool::Handle {
  Handle() = default;
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() {
    if (state != nullptr) state->close();
  }
  PoolState* state = nullptr;
};

/// The calling thread's cache of `pool`, made if it has none. Null: there is no memory for one, the
/// thread is ending, or the pool is of the process that forked this one.
[[nodiscard]] ThreadCache* cache_of_this_thread(PoolState& pool) noexcept;

namespace detail {
/// As Block::detach(), of a block for a container: Block::is_of_container().
[[nodiscard]] std::byte* detach_for_container(Block block) noexcept;
}  // namespace detail

}  // namespace gantry
