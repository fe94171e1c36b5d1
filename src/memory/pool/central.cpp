#include <algorithm>

#include "base/assert.hpp"
#include "base/result.hpp"
#include "memory/pool/state.hpp"

// The pool's common store: depots of pieces by class, and the slabs they are cut from.
namespace gantry {

std::optional<PoolState::Cut> PoolState::take(const Need& need) {
  const bool exact = need.size_class < kExactClasses;
  if (exact) {
    ExtentList& depot = depot_[need.size_class];
    if (Extent* first = depot.pop()) {
      Cut cut{first, {}};
      for (unsigned i = ThreadCache::most(need.size_class) / 2; i > 1; --i)
        if (Extent* extent = depot.pop()) cut.rest.push(*extent);
      return cut;
    }
  }
  const unsigned many = exact ? ThreadCache::most(need.size_class) / 2 : 1;
  for (const unsigned pieces : {many, 1u}) {
    for (const auto& slab : slabs_) {
      if (slab->is_retired) continue;
      if (auto cut = this->cut(*slab, need, pieces)) return cut;
    }
    if (many == 1) break;
  }
  return std::nullopt;
}

// A run of `pieces` neighbours, or nothing. Asks the heap first; then nothing can fail.
std::optional<PoolState::Cut> PoolState::cut(Slab& slab, const Need& need, unsigned pieces) {
  while (spare_extents_.count() < pieces) spare_extents_.push(extents_.emplace_back());
  std::vector<std::map<Bytes, Extent*>::node_type> places;
  places.reserve(pieces);
  for (unsigned i = 0; i < pieces; ++i) {
    std::map<Bytes, Extent*> made{{0, nullptr}};
    places.push_back(made.extract(made.begin()));
  }
  const auto offset = slab.free.take_run(need.capacity, pieces, need.alignment);
  if (!offset) return std::nullopt;
  Cut cut;
  for (unsigned i = pieces; i-- > 0;) {
    Extent* const spare = spare_extents_.pop();
    GANTRY_ASSERT(spare != nullptr);  // stocked above
    Extent& extent = *spare;
    extent.slab = &slab;
    extent.data = slab.at(*offset + i * need.capacity);
    extent.capacity = need.capacity;
    extent.size_class = need.size_class;
    extent.loose.store(need.loose, std::memory_order_relaxed);
    extent.present = false;
    places[i].key() = extent.offset();
    places[i].mapped() = &extent;
    slab.extents.insert(std::move(places[i]));
    if (i == 0)
      cut.first = &extent;
    else
      cut.rest.push(extent);
  }
  cut_bytes_ += need.capacity * pieces;
  peak_cut_bytes_ = std::max(peak_cut_bytes_, cut_bytes_);
  return cut;
}

void PoolState::to_slab(Extent& extent) noexcept {
  Slab& slab = *extent.slab;
  slab.extents.erase(extent.offset());
  slab.free.give(extent.offset(), extent.capacity);
  put_away(extent);
}

void PoolState::put_away(Extent& extent) noexcept {
  cut_bytes_ -= extent.capacity;
  extent.capacity = 0;  // it stands for nothing
  spare_extents_.push(extent);
}

// Moves half of what a thread keeps of a class to where others find it. The caller holds mutex_, so
// that nobody steals the cache, and is its owner.
void PoolState::make_room(ThreadCache& cache, unsigned size_class) noexcept {
  for (unsigned i = ThreadCache::most(size_class) / 2; i > 0; --i) {
    Extent* const kept = cache.classes[size_class].pop();
    if (kept == nullptr) return;
    if (size_class < kExactClasses)
      depot_[size_class].push(*kept);
    else
      to_slab(*kept);
  }
}

void PoolState::abandon(Extent& extent) noexcept {
  if (!fork_guard_.is_this()) return;
  // Others may have handles, too, and may use the memory. The last one retires it.
  extent.handles.fetch_or(Extent::kAbandoned, std::memory_order_relaxed);
  if (extent.handles.fetch_sub(1, std::memory_order_acq_rel) == (Extent::kAbandoned | 1))
    retire(extent);
}

// Its last handle is gone, and another process may still read it.
void PoolState::retire(Extent& extent) noexcept {
  if (!fork_guard_.is_this()) return;
  bool over = false;
  {
    const std::lock_guard lock(mutex_);
    shared_.returns.add(1);
    shared_.live_bytes.add(std::uint64_t{0} - extent.size.load(std::memory_order_relaxed));
    extent.handles.store(0, std::memory_order_relaxed);
    Slab& slab = *extent.slab;
    slab.is_retired = true;
    slab.extents.erase(extent.offset());
    slab.free.forget();
    // Pieces that are out come straight back to it later; kept ones come at once.
    for (const auto& [offset, other] : slab.extents)
      other->loose.store(true, std::memory_order_relaxed);
    if (!closing_) reclaim();
    put_away(extent);
    over = closing_ && --closed_blocks_ == 0;
  }
  if (over) delete this;
}

// Every piece that is in no block goes back to its slab, where it joins its neighbours.
void PoolState::reclaim() noexcept {
  for (const auto& cache : caches_) drain(*cache);
  for (ExtentList& depot : depot_)
    while (Extent* extent = depot.pop()) to_slab(*extent);
}

void PoolState::drain(ThreadCache& cache) noexcept {
  cache.lock.steal();
  for (ExtentList& list : cache.classes)
    while (Extent* extent = list.pop()) to_slab(*extent);
  cache.lock.hand_back();
}

// Chained to each other, for the caller to drop after it let the lock go, since unregistering takes
// time.
std::unique_ptr<Slab> PoolState::drop_empty_slabs() noexcept {
  std::unique_ptr<Slab> dropped;
  for (auto& slab : slabs_) {
    if (!slab->free.is_all_free()) continue;
    by_address_.erase(reinterpret_cast<std::uintptr_t>(slab->region->data()));
    slab_bytes_ -= slab->region->size();
    dropped_slabs_.fetch_add(1, std::memory_order_relaxed);  // see dropped_slabs()
    slab->next_dropped = std::move(dropped);
    dropped = std::move(slab);
  }
  std::erase(slabs_, nullptr);
  return dropped;
}

std::shared_ptr<ThreadCache> PoolState::new_cache() {
  const std::lock_guard lock(mutex_);
  for (const auto& cache : caches_)
    if (cache->orphaned.load(std::memory_order_acquire)) {  // [O] everything that its thread did is
                                                            // done
      cache->orphaned.store(false, std::memory_order_relaxed);
      return cache;
    }
  caches_.reserve(caches_.size() + 1);
  caches_.push_back(std::make_shared<ThreadCache>());
  if (closing_) caches_.back()->lock.steal();  // as close() did with the others
  return caches_.back();
}

}  // namespace gantry
