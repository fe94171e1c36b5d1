#pragma once  // memory/pool/state.hpp: the pool behind its handles.

#include <mutex>

#include "core/base/os/fork.hpp"
#include "core/memory/pool/slab_store.hpp"

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
  [[nodiscard]] std::uint64_t dropped_slabs() const noexcept { return store_.dropped_slabs(); }
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
  explicit PoolState(const PoolOptions& options);
  ~PoolState() = default;

  [[nodiscard]] Result<void> check_not_forked() const;

  [[nodiscard]] Error named(Error error) const;
  [[nodiscard]] static Block block_of(Extent& extent) noexcept { return Block(extent); }

  [[nodiscard]] Extent* near_allocate(Bytes size, Bytes capacity, ThreadCache* cache) noexcept;
  [[nodiscard]] Result<Block> far_allocate(Bytes size, const BlockOptions& options,
                                           ThreadCache* cache, Extent* extent) noexcept;
  [[nodiscard]] Result<Need> need_for(Bytes size, const BlockOptions& options) const;
  [[nodiscard]] Block hand_out(Extent& extent, Bytes size, Tag tag) noexcept;
  [[nodiscard]] Result<Extent*> slow_allocate(const Need& need, ThreadCache* cache);
  void slow_give_back(Extent& extent, ThreadCache* cache) noexcept;

  // Under mutex_.
  [[nodiscard]] Extent* settle(const Need& need, SlabStore::Cut cut, ThreadCache* cache) noexcept;
  void retire(Extent& extent) noexcept;
  void reclaim() noexcept;

  // Under growing_.
  [[nodiscard]] Result<void> grow(const Need& need);
  [[nodiscard]] Result<std::unique_ptr<Slab>> make_slab(Bytes size);
  [[nodiscard]] Result<Bytes> fit_budget(const Need& need);
  [[nodiscard]] std::optional<Bytes> largest_fit(const Need& need) const noexcept;

  const PoolOptions options_;
  const std::uint64_t number_;
  const ForkGuard fork_guard_;
  ThreadCache shared_;  // counts for threads that have no cache; under mutex_

  std::mutex growing_;
  mutable std::mutex mutex_;
  SlabStore store_;              // slabs come and go under growing_, too
  std::uint32_t next_slab_ = 1;  // under growing_; never used twice: another process must not take
                                 // a new slab for an old one
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

}  // namespace gantry
