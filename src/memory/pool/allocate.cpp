#include <algorithm>
#include <bit>

#include "base/assert.hpp"
#include "base/result.hpp"
#include "memory/pool/poison.hpp"
#include "memory/pool/state.hpp"

// Handing out and giving back. Most calls see only the near way, through what the thread keeps;
// what it cannot do, the slow way does under the pool's lock.
namespace gantry {
namespace {

ThreadCache* near_cache(PoolState& pool) noexcept {
  const HotCache& hot = hot_caches[pool.number() % kHotCaches];
  return hot.pool == pool.number() ? hot.cache : cache_of_this_thread(pool);
}

void count_allocation(ThreadCache& cache, Bytes size) noexcept {
  cache.allocations.add(1);
  cache.live_bytes.add(size);
  const auto live = static_cast<std::int64_t>(cache.live_bytes.get());
  if (live > static_cast<std::int64_t>(cache.peak_bytes.get()))
    cache.peak_bytes.set(cache.live_bytes.get());
}

void count_return(ThreadCache& cache, Bytes size) noexcept {
  cache.returns.add(1);
  cache.live_bytes.add(std::uint64_t{0} - size);
}

// Rare cases stand apart: every call would pay for their stack frame and registers.
[[gnu::noinline]] Result<DeviceKey> key_of_nothing() {
  return fail(Code::invalid_argument, "the key of an empty block");
}

}  // namespace

// ---- handing out ---------------------------------------------------------------------------

Result<PoolState::Need> PoolState::need_for(Bytes size, const BlockOptions& options) const {
  if (size == 0) return fail(Code::invalid_argument, "a block of 0 bytes");
  const Bytes alignment = options.alignment == 0 ? kLine : options.alignment;
  if (!std::has_single_bit(alignment))
    return fail(Code::invalid_argument,
                fmt::format("a block aligned to {}: not a power of two", alignment));
  const Bytes most = std::min(options_.budget_bytes, kLargestClass);
  if (size > most || alignment > most)
    return fail(Code::too_large,
                fmt::format("a block of {} bytes aligned to {}: the limit is {} bytes", size,
                            alignment, most),
                "split it, or raise the budget if the machine has the memory");
  if (alignment > kPage) return Need{size, round_up(size, kPage), alignment, kNoClass, true};
  // Between a line and a page only a page keeps every piece of a run aligned.
  const Bytes capacity = capacity_for(alignment > kLine ? std::max(size, kPage) : size);
  return Need{size, capacity, alignment_of(capacity), class_of(capacity), false};
}

// Always makes the Block that the caller gets: moving it would cost as much as making it.
inline Block PoolState::hand_out(Extent& extent, Bytes size, Tag tag) noexcept {
  extent.size.store(size, std::memory_order_relaxed);
  extent.tag.store(tag.number, std::memory_order_relaxed);
  extent.born_s.store(wall_seconds(), std::memory_order_relaxed);
  extent.of_container.store(false, std::memory_order_relaxed);
  extent.handles.store(1, std::memory_order_release);  // [H] report() sees the above
  unpoison({extent.data, size});
  return block_of(extent);
}

// A kept piece that holds `capacity`, or null. Does not check what having a cache implies: a forked
// child has none, and none keeps a piece larger than the budget.
inline Extent* PoolState::near_allocate(Bytes size, Bytes capacity, ThreadCache* cache) noexcept {
  if (capacity - 1 >= kLargestClass || cache == nullptr) return nullptr;
  const unsigned size_class = class_of(capacity);
  if (!cache->lock.enter()) return nullptr;
  Extent* const extent = cache->pop(size_class, capacity);
  if (extent != nullptr) count_allocation(*cache, size);
  cache->lock.leave();
  return extent;
}

inline Result<Block> PoolState::allocate(Bytes size, const BlockOptions& options) {
  ThreadCache* const cache = near_cache(*this);
  Extent* const extent = options.alignment == 0 ? near_allocate(size, size, cache) : nullptr;
  if (extent != nullptr && extent->present) return hand_out(*extent, size, options.tag);
  return far_allocate(size, options, cache, extent);
}

// `extent`: the piece that the near way found, without its pages; or null.
[[gnu::noinline]] Result<Block> PoolState::far_allocate(Bytes size, const BlockOptions& options,
                                                        ThreadCache* cache,
                                                        Extent* extent) noexcept {
  return guarded([&]() -> Result<Block> {
    GANTRY_TRY(check_not_forked());
    if (extent == nullptr) {
      auto need = need_for(size, options);
      if (!need) return tl::unexpected(named(std::move(need).error()));
      need->counts_lingering = options.counts_lingering;
      // An alignment may have changed the size, or made a piece that no thread keeps.
      if (options.alignment != 0 && !need->loose)
        extent = near_allocate(size, need->capacity, cache);
      if (extent == nullptr) {
        GANTRY_ASSIGN(extent, slow_allocate(*need, cache));
      }
    }
    Block block = hand_out(*extent, size, options.tag);
    if (!extent->present) {
      auto made = extent->slab->make_present(extent->offset(), extent->capacity);
      if (!made) return tl::unexpected(named(std::move(made).error()));
      extent->present = true;
    }
    return block;
  });
}

// Counts the block, too: a call that returns a piece has allocated.
Result<Extent*> PoolState::slow_allocate(const Need& need, ThreadCache* cache) {
  return guarded([&]() -> Result<Extent*> {
    {
      const std::lock_guard lock(mutex_);
      if (auto cut = take(need)) return settle(need, *cut, cache);
    }
    const std::lock_guard growing(growing_);
    for (Need wanted = need;;) {
      {
        const std::lock_guard lock(mutex_);
        auto cut = take(wanted);
        if (!cut) {
          reclaim();
          cut = take(wanted);
        }
        if (cut) return settle(wanted, *cut, cache);
      }
      auto grown = grow(wanted);
      if (grown) continue;
      // The last resort: not a byte more than asked for.
      const Bytes least = round_up(wanted.size, kPage);
      if (wanted.loose || least >= wanted.capacity || wanted.capacity < kPage)
        return tl::unexpected(std::move(grown).error());
      wanted = {wanted.size, least, kPage, kNoClass, true, need.counts_lingering};
    }
  });
}

// Needs mutex_. Counts the first piece, and stocks the thread's cache with the rest. Nobody can
// steal that meanwhile.
Extent* PoolState::settle(const Need& need, Cut cut, ThreadCache* cache) noexcept {
  while (Extent* extent = cut.rest.pop())
    if (cache == nullptr || !cache->push(*extent)) to_slab(*extent);
  ThreadCache& counters = cache != nullptr ? *cache : shared_;
  count_allocation(counters, need.size);
  counters.far_allocations.add(1);
  return cut.first;
}

// ---- giving back ---------------------------------------------------------------------------

void PoolState::give_back(Extent& extent) noexcept {
  // [H] acquire: what other handles' users did is over. A single handle needs no read-modify-write.
  if (extent.handles.load(std::memory_order_acquire) != 1) {
    const std::uint32_t before = extent.handles.fetch_sub(1, std::memory_order_acq_rel);
    if (before == (Extent::kAbandoned | 1)) return retire(extent);
    if (before != 1) return;
  }
  GANTRY_ASSERT(extent.size.load(std::memory_order_relaxed) != 0);  // I1: it is in a block
  const Bytes size = extent.size.load(std::memory_order_relaxed);
  if (kSpoils && !fork_guard_.is_this()) return;  // a fork's copy: the memory is the parent's
  extent.handles.store(0, std::memory_order_relaxed);
  const ByteSpan memory(extent.data, extent.capacity);
  unpoison(memory);
  spoil(memory.first(size));
  poison(memory);
  ThreadCache* const cache = near_cache(*this);
  if (cache != nullptr && !extent.loose.load(std::memory_order_relaxed) && cache->lock.enter()) {
    const bool kept = cache->push(extent);
    if (kept) count_return(*cache, size);
    cache->lock.leave();
    if (kept) return;
  }
  slow_give_back(extent, cache);
}

[[gnu::noinline]] void PoolState::slow_give_back(Extent& extent, ThreadCache* cache) noexcept {
  if (!fork_guard_.is_this()) return;  // a fork's copy: the parent has the block
  bool over = false;
  {
    const std::lock_guard lock(mutex_);
    count_return(cache != nullptr ? *cache : shared_, extent.size.load(std::memory_order_relaxed));
    if (closing_) {
      over = --closed_blocks_ == 0;
    } else if (extent.loose.load(std::memory_order_relaxed) || cache == nullptr) {
      to_slab(extent);
    } else {
      make_room(*cache, extent.size_class);
      if (!cache->push(extent)) to_slab(extent);
    }
  }
  if (over) delete this;
}

// ---- the handles' ways in, here to be one function with the above ----------------------------

Result<Block> Pool::allocate(Bytes size, const BlockOptions& options) {
  return handle_->state->allocate(size, options);
}
void Block::give_back() noexcept {
  Extent& extent = *PoolState::extent_of(*this);
  extent.slab->pool.give_back(extent);
}
Result<DeviceKey> Block::key_for(const Registrar& registrar) const {
  if (head_ == nullptr) return key_of_nothing();
  const Extent& extent = *PoolState::extent_of(*this);
  const Slab& slab = *extent.slab;
  const SlabRegistration* const known = slab.registration_with(registrar);
  if (known == nullptr || !slab.pool.fork_guard().is_this())
    return slab.pool.far_key_for(extent, registrar);
  const DeviceKey& key = known->key;
  return DeviceKey{key.key, key.remote_key, key.offset + extent.offset()};
}

}  // namespace gantry
