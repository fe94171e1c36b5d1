#include "core/memory/pool/state.hpp"

#include <algorithm>
#include <bit>
#include <gantry/memory.hpp>
#include <memory>

#include "core/base/assert.hpp"
#include "core/base/os/system_memory.hpp"
#include "core/base/result.hpp"

// Most calls see only the near way, through what the thread keeps; what it cannot do, the slow way
// does under the pool's lock. The handles' ways in stand here, too, to be one function with it.
namespace gantry {
namespace {

std::atomic<std::uint64_t> next_number{1};

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

std::string megabytes(Bytes bytes) {
  return bytes < (Bytes{1} << 20)
             ? fmt::format("{} bytes", bytes)
             : fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1 << 20));
}

std::string largest_of(const std::vector<Holder>& holders) {
  constexpr std::size_t kNamed = 3;
  std::string text;
  std::size_t named = 0;
  for (const Holder& holder : holders) {
    text += fmt::format("{} {}: {} in {} block{}, the oldest {} s old",
                        text.empty() ? "; held by" : ",",
                        holder.tag.empty() ? "(untagged)" : holder.tag, megabytes(holder.bytes),
                        holder.blocks, holder.blocks == 1 ? "" : "s", holder.oldest.count());
    if (++named == kNamed) break;
  }
  return text;
}

}  // namespace

// ---- beginning and end ---------------------------------------------------------------------

PoolState::PoolState(const PoolOptions& options)
    : options_(options), number_(next_number.fetch_add(1, std::memory_order_relaxed)) {
  tags_.emplace_back();  // Tag{0}: untagged
}

Result<PoolState*> PoolState::create(const PoolOptions& options) {
  PoolOptions filled = options;
  const auto refuse = [&](const char* what) {
    return fail(Code::invalid_argument, fmt::format("{}: {}", options.name, what));
  };
  if (options.slab_bytes == 0) return refuse("slabs of 0 bytes");
  if (options.slab_bytes > kLargestClass) return refuse("slabs larger than any machine's memory");
  if (options.name.size() > 200) return refuse("a name of more than 200 characters");
  if (options.registrars.size() > Pool::kMaxRegistrars) return refuse("more than 8 registrars");
  for (const auto& registrar : options.registrars) {
    if (registrar == nullptr) return refuse("an empty registrar");
    if (std::count(options.registrars.begin(), options.registrars.end(), registrar) != 1)
      return refuse("the same registrar twice");
  }
  if (filled.budget_bytes == 0) filled.budget_bytes = system_memory().total / 5 * 4;
  return new PoolState(filled);
}

void PoolState::close() noexcept {
  if (!fork_guard_.is_this()) return;  // a fork's copy: its threads and locks did not come along
  {
    // Nothing here is touched after the lock is let go: the last block's thread may be waiting for
    // it to end the pool. Nobody is growing it, since that takes a handle.
    const std::lock_guard lock(mutex_);
    // Never handed back: from here on no owner keeps a block for itself, and all come to mutex_.
    for (const auto& cache : caches_) cache->lock.steal();
    closing_ = true;
    closed_blocks_ = shared_.allocations.get() - shared_.returns.get();
    for (const auto& cache : caches_)
      closed_blocks_ += cache->allocations.get() - cache->returns.get();
    if (closed_blocks_ != 0) return;
  }
  delete this;
}

// A forked child asks this before any lock: the thread that held it then did not come along.
Result<void> PoolState::check_not_forked() const {
  if (fork_guard_.is_this()) return {};
  return tl::unexpected(named({Code::invalid_argument, "it is of the process that forked this one",
                               "make a pool in this process"}));
}

// ---- names and addresses -------------------------------------------------------------------

Result<Tag> PoolState::tag(std::string_view name) {
  return guarded([&]() -> Result<Tag> {
    constexpr std::size_t kMost = 4096;
    GANTRY_TRY(check_not_forked());
    const std::lock_guard lock(mutex_);
    const auto found = std::find(tags_.begin(), tags_.end(), name);
    const Tag tag{static_cast<std::uint32_t>(found - tags_.begin())};
    if (found != tags_.end()) return tag;
    if (tags_.size() >= kMost)
      return tl::unexpected(
          named({Code::too_large, fmt::format("tag '{}': there are {} already", name, kMost),
                 "use one tag for a kind of blocks, not for each block"}));
    tags_.emplace_back(name);
    return tag;
  });
}

Result<Block> PoolState::adopt(std::byte* data) {
  const auto refuse = [&](const char* why) {
    return guarded([&]() -> Result<Block> {
      return fail(Code::invalid_argument,
                  fmt::format("{}: {}: {}", options_.name, static_cast<const void*>(data), why));
    });
  };
  if (!fork_guard_.is_this()) return refuse("of the process that forked this one");
  const std::lock_guard lock(mutex_);
  Extent* const extent = store_.extent_at(data);
  if (extent == nullptr) return refuse("not memory of this pool");
  if (extent->data != data) return refuse("not the beginning of a block");
  if (extent->handles.load(std::memory_order_acquire) == 0) return refuse("given back already");
  std::uint32_t detached = extent->detached.load(std::memory_order_relaxed);
  do
    if (detached == 0) return refuse("a block that was not detached, or adopted already");
  while (
      !extent->detached.compare_exchange_weak(detached, detached - 1, std::memory_order_relaxed));
  return block_of(*extent);
}

Result<Block> PoolState::find(const std::byte* data) {
  if (auto here = guarded([&] { return check_not_forked(); }); !here)
    return tl::unexpected(std::move(here).error());
  const std::lock_guard lock(mutex_);
  Extent* const extent = store_.extent_at(data);
  // What lies behind the block's size is in none, nor is a block that its last handle abandoned.
  const bool is_in_block =
      extent != nullptr && data < extent->data + extent->size.load(std::memory_order_relaxed);
  std::uint32_t handles = is_in_block ? extent->handles.load(std::memory_order_acquire) : 0;
  do
    if ((handles & ~Extent::kAbandoned) == 0)
      return guarded([&]() -> Result<Block> {
        return fail(Code::invalid_argument,
                    fmt::format("{}: {}: in no block of this pool", options_.name,
                                static_cast<const void*>(data)),
                    "name an address within a block of which somebody has a handle");
      });
  while (!extent->handles.compare_exchange_weak(handles, handles + 1, std::memory_order_relaxed));
  return block_of(*extent);
}

Bytes PoolState::trim() {
  if (!fork_guard_.is_this()) return 0;
  std::unique_ptr<Slab> dropped;
  const std::lock_guard growing(growing_);
  const std::lock_guard lock(mutex_);
  const Bytes before = store_.slab_bytes();
  reclaim();
  dropped = store_.drop_empty_slabs();
  return before - store_.slab_bytes();
}

std::shared_ptr<const Region> PoolState::slab(std::uint32_t number) {
  if (!fork_guard_.is_this()) return nullptr;
  const std::lock_guard lock(mutex_);
  const Slab* const found = store_.slab_of(number);
  return found == nullptr ? nullptr : found->region;
}

std::shared_ptr<const void> PoolState::charge(std::uint32_t number) {
  if (!fork_guard_.is_this()) return nullptr;
  const std::lock_guard lock(mutex_);
  const Slab* const found = store_.slab_of(number);
  return found == nullptr ? nullptr : found->charge;
}

PoolReport PoolState::report() {
  PoolReport report;
  if (!fork_guard_.is_this()) return report;
  const std::lock_guard lock(mutex_);
  const auto add = [&](ThreadCache& cache) {
    report.live_bytes += cache.live_bytes.get();
    report.blocks += cache.allocations.get() - cache.returns.get();
    report.allocations += cache.allocations.get();
    report.reuses += cache.allocations.get() - cache.far_allocations.get();
    report.peak_bytes += cache.peak_bytes.get();
  };
  add(shared_);
  for (const auto& cache : caches_) add(*cache);
  report.budget_bytes = options_.budget_bytes;
  store_.fill(report);
  for (const auto& registrar : options_.registrars)
    report.registrars.push_back(registrar->report());
  report.holders = store_.holders(tags_);
  return report;
}

Error PoolState::named(Error error) const {
  error.message = fmt::format("{}: {}", options_.name, error.message);
  return error;
}

// ---- handing out ---------------------------------------------------------------------------

Result<Need> PoolState::need_for(Bytes size, const BlockOptions& options) const {
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
                "split it, or raise PoolOptions::budget_bytes");
  if (alignment > kPage) return Need{size, round_up(size, kPage), alignment, kNoClass, true};
  // Between a line and a page only a page keeps every piece of a run aligned.
  const Bytes capacity = capacity_for(alignment > kLine ? std::max(size, kPage) : size);
  return Need{size, capacity, alignment_of(capacity), class_of(capacity), false};
}

// Always makes the Block that the caller gets: moving it would cost as much as making it.
inline Block PoolState::hand_out(Extent& extent, Bytes size, Tag tag) noexcept {
  GANTRY_DEBUG_ASSERT(extent.handles.load(std::memory_order_relaxed) == 0);  // I1
  GANTRY_DEBUG_ASSERT(size <= extent.capacity);
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
      if (auto cut = store_.take(need)) return settle(need, *cut, cache);
    }
    const std::lock_guard growing(growing_);
    for (Need wanted = need;;) {
      {
        const std::lock_guard lock(mutex_);
        auto cut = store_.take(wanted);
        if (!cut) {
          reclaim();
          cut = store_.take(wanted);
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
Extent* PoolState::settle(const Need& need, SlabStore::Cut cut, ThreadCache* cache) noexcept {
  while (Extent* extent = cut.rest.pop())
    if (cache == nullptr || !cache->push(*extent)) store_.to_slab(*extent);
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
      store_.to_slab(extent);
    } else {
      store_.make_room(*cache, extent.size_class);
      if (!cache->push(extent)) store_.to_slab(extent);
    }
  }
  if (over) delete this;
}

void PoolState::abandon(Extent& extent) noexcept {
  if (!fork_guard_.is_this()) return;
  // Others may have handles, too, and may use the memory. The last one retires it.
  extent.handles.fetch_or(Extent::kAbandoned, std::memory_order_relaxed);
  if (extent.handles.fetch_sub(1, std::memory_order_acq_rel) == (Extent::kAbandoned | 1))
    retire(extent);
}

// Its last handle is gone, and another process may still read it. Kept pieces of its slab go back
// at once.
void PoolState::retire(Extent& extent) noexcept {
  if (!fork_guard_.is_this()) return;
  bool over = false;
  {
    const std::lock_guard lock(mutex_);
    count_return(shared_, extent.size.load(std::memory_order_relaxed));
    extent.handles.store(0, std::memory_order_relaxed);
    store_.retire(extent);
    if (!closing_) reclaim();
    over = closing_ && --closed_blocks_ == 0;
  }
  if (over) delete this;
}

// Every piece that is in no block goes back to its slab, where it joins its neighbours.
void PoolState::reclaim() noexcept {
  for (const auto& cache : caches_) store_.drain(*cache);
  store_.drain_depots();
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

// ---- growing: each new slab is registered with every device before anybody gets a piece of it ---

Result<void> PoolState::grow(const Need& need) {
  auto size = fit_budget(need);
  if (!size) return tl::unexpected(named(std::move(size).error()));
  auto slab = make_slab(*size);
  if (const Bytes least = need.least_slab(); !slab && least < *size) slab = make_slab(least);
  if (!slab) return tl::unexpected(named(std::move(slab).error()));
  const std::lock_guard lock(mutex_);
  store_.add(std::move(*slab));
  return {};
}

// A whole slab if the budget allows one, else what is needed and no more.
std::optional<Bytes> PoolState::largest_fit(const Need& need) const noexcept {
  const Bytes budget = options_.budget_bytes;
  const Bytes taken = store_.slab_bytes() + (need.counts_lingering ? store_.lingering_bytes() : 0);
  const auto fits = [&](Bytes size) {
    return size <= budget && taken <= budget && size <= budget - taken;
  };
  const Bytes least = need.least_slab();
  const Bytes whole = std::max(least, round_up(options_.slab_bytes, kPage));
  if (fits(whole)) return whole;
  return fits(least) ? std::optional(least) : std::nullopt;
}

// The size for the new slab. Empty slabs make room; only here is anything ever unregistered.
Result<Bytes> PoolState::fit_budget(const Need& need) {
  std::optional<Bytes> fit = largest_fit(need);
  if (!fit) {
    std::unique_ptr<Slab> dropped;  // destroyed after the lock
    {
      const std::lock_guard lock(mutex_);
      dropped = store_.drop_empty_slabs();
    }
    dropped.reset();  // memory that nobody else maps no longer counts
    fit = largest_fit(need);
  }
  if (!fit) {
    const std::lock_guard lock(mutex_);
    const Bytes lingering = need.counts_lingering ? store_.lingering_bytes() : 0;
    return fail(
        Code::out_of_memory,
        fmt::format("a block of {} bytes: {} of the budget of {} bytes are taken{}{}", need.size,
                    store_.slab_bytes() + lingering, options_.budget_bytes,
                    lingering == 0
                        ? std::string()
                        : fmt::format(", {} of them by memory that readers still map", lingering),
                    largest_of(store_.holders(tags_))),
        "release blocks sooner, or raise PoolOptions::budget_bytes");
  }
  const Bytes left = system_memory().available;
  if (*fit > left) fit = need.least_slab();
  if (*fit > left)
    return fail(Code::out_of_memory,
                fmt::format("a block of {} bytes: the machine has {} bytes left", need.size, left),
                "free memory, or use smaller blocks");
  return *fit;
}

Result<std::unique_ptr<Slab>> PoolState::make_slab(Bytes size) {
  GANTRY_ASSIGN(Region made, Region::create(size, "gantry-" + options_.name, options_.region));
  const bool touched = options_.touch == When::at_growth || options_.collapse;
  if (touched) GANTRY_TRY(made.touch(0, made.size(), 0));
  const auto collapsed = options_.collapse ? made.collapse() : Result<void>();
  auto slab = std::make_unique<Slab>(*this, next_slab_++, std::make_shared<Region>(std::move(made)),
                                     touched, store_.charged());
  if (!collapsed) slab->collapse_error = to_string(collapsed.error());
  if (options_.registration == When::at_growth)
    for (std::size_t i = 0; i < options_.registrars.size(); ++i)
      slab->register_with(i, *options_.registrars[i]);
  return slab;
}

Result<DeviceKey> PoolState::far_key_for(const Extent& extent, const Registrar& registrar) {
  using State = SlabRegistration::State;
  if (!fork_guard_.is_this())
    return fail(Code::invalid_argument, "the registration is of the process that forked this one",
                "make a pool in this process");
  for (std::size_t i = 0; i < options_.registrars.size(); ++i) {
    if (options_.registrars[i].get() != &registrar) continue;
    SlabRegistration& registration = extent.slab->registrations[i];
    if (registration.state.load(std::memory_order_acquire) == State::none)  // [S]
      extent.slab->register_with(i, *options_.registrars[i]);
    if (registration.state.load(std::memory_order_acquire) == State::refused)  // [S]
      return tl::unexpected(named(registration.error));
    DeviceKey key = registration.key;
    key.offset += extent.offset();
    return key;
  }
  return tl::unexpected(named({Code::invalid_argument,
                               fmt::format("registrar '{}' is not one of its", registrar.name()),
                               "name it in PoolOptions::registrars"}));
}

// ---- the handles ---------------------------------------------------------------------------

Result<Pool> Pool::create(const PoolOptions& options) {
  return guarded([&]() -> Result<Pool> {
    auto handle = std::make_shared<Handle>();  // first: without it, what it will hold would leak
    GANTRY_ASSIGN(handle->state, PoolState::create(options));
    return Pool(std::move(handle));
  });
}

Result<Tag> Pool::tag(std::string_view name) {
  return handle_->state->tag(name);
}
Result<Block> Pool::adopt(std::byte* data) {
  return handle_->state->adopt(data);
}
Result<Block> Pool::find(const std::byte* data) const {
  return handle_->state->find(data);
}
Bytes Pool::trim() {
  return handle_->state->trim();
}
PoolReport Pool::report() const {
  return handle_->state->report();
}
std::shared_ptr<const Region> Pool::slab(std::uint32_t number) const {
  return handle_->state->slab(number);
}
std::shared_ptr<const void> Pool::charge(std::uint32_t number) const {
  return handle_->state->charge(number);
}
std::uint64_t Pool::dropped_slabs() const noexcept {
  return handle_->state->dropped_slabs();
}
bool Pool::is_of_this_process() const noexcept {
  return handle_->state->fork_guard().is_this();
}
bool Pool::is_shareable() const noexcept {
  return handle_->state->options().region.shareable;
}
bool Pool::owns(const Block& block) const noexcept {
  const Extent* const extent = PoolState::extent_of(block);
  return extent != nullptr && &extent->slab->pool == handle_->state;
}

std::uint32_t Block::slab() const noexcept {
  const Extent* const extent = PoolState::extent_of(*this);
  return extent == nullptr ? 0 : extent->slab->number;
}
Bytes Block::offset() const noexcept {
  const Extent* const extent = PoolState::extent_of(*this);
  return extent == nullptr ? 0 : extent->offset();
}
void Block::abandon() noexcept {
  Extent* const extent = PoolState::extent_of(*this);
  head_ = nullptr;
  if (extent != nullptr) extent->slab->pool.abandon(*extent);
}
Block Block::share() const noexcept {
  Extent* const extent = PoolState::extent_of(*this);
  if (extent == nullptr) return {};
  extent->handles.fetch_add(1, std::memory_order_relaxed);
  return Block(*extent);
}
bool Block::is_shared() const noexcept {
  const Extent* const extent = PoolState::extent_of(*this);
  // [H] acquire: what the others did before they dropped theirs is over.
  return extent != nullptr && extent->handles.load(std::memory_order_acquire) != 1;
}
// Relaxed: it was written before anybody else had a handle, and stays as long as there is one.
bool Block::is_of_container() const noexcept {
  const Extent* const extent = PoolState::extent_of(*this);
  return extent != nullptr && extent->of_container.load(std::memory_order_relaxed);
}
std::byte* Block::detach() noexcept {
  Extent* const extent = PoolState::extent_of(*this);
  if (extent == nullptr) return nullptr;
  extent->detached.fetch_add(1, std::memory_order_relaxed);
  head_ = nullptr;
  return extent->data;
}

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

// ---- memory of containers ------------------------------------------------------------------

std::byte* detail::allocate_detached(Pool& pool, Bytes size, Bytes alignment, Tag tag) noexcept {
  // Containers may ask for nothing and expect an address of their own. Every block has most of
  // their alignments.
  if (alignment <= Pool::kLineAlignment) alignment = 0;
  auto block = pool.allocate(std::max<Bytes>(size, 1), {alignment, tag});
  if (!block) return nullptr;
  PoolState::extent_of(*block)->of_container.store(true, std::memory_order_relaxed);
  return block->detach();
}

void detail::free_detached(Pool& pool, std::byte* data) noexcept {
  if (!pool.is_of_this_process()) return;  // the parent has it
  const auto block = pool.adopt(data);
  GANTRY_ASSERT(block.has_value());  // freed twice, or memory of another pool
}

}  // namespace gantry
