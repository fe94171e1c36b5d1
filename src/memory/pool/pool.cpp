#include <algorithm>
#include <memory>

#include "base/result.hpp"
#include "base/system_memory.hpp"
#include "memory/pool/state.hpp"

// The pool as its users see it, its beginning and its end.
namespace gantry {
namespace {

std::atomic<std::uint64_t> next_number{1};

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

// Needs mutex_. Null: `data` is in no piece of this pool.
Extent* PoolState::extent_at(const std::byte* data) const {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  const auto after = by_address_.upper_bound(address);
  if (after == by_address_.begin()) return nullptr;
  const Slab& slab = *std::prev(after)->second;
  const Bytes offset = address - std::prev(after)->first;
  if (offset >= slab.region->size()) return nullptr;
  const auto next = slab.extents.upper_bound(offset);
  if (next == slab.extents.begin()) return nullptr;
  Extent& extent = *std::prev(next)->second;
  return offset < extent.offset() + extent.capacity ? &extent : nullptr;
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
  Extent* const extent = extent_at(data);
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
  Extent* const extent = extent_at(data);
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
  const Bytes before = slab_bytes_;
  reclaim();
  dropped = drop_empty_slabs();
  return before - slab_bytes_;
}

// Needs mutex_. Null: it is gone.
Slab* PoolState::slab_of(std::uint32_t number) const noexcept {
  const auto found = std::find_if(slabs_.begin(), slabs_.end(),
                                  [number](const auto& slab) { return slab->number == number; });
  return found == slabs_.end() ? nullptr : found->get();
}

std::shared_ptr<const Region> PoolState::slab(std::uint32_t number) {
  if (!fork_guard_.is_this()) return nullptr;
  const std::lock_guard lock(mutex_);
  const Slab* const found = slab_of(number);
  return found == nullptr ? nullptr : found->region;
}

std::shared_ptr<const void> PoolState::charge(std::uint32_t number) {
  if (!fork_guard_.is_this()) return nullptr;
  const std::lock_guard lock(mutex_);
  const Slab* const found = slab_of(number);
  return found == nullptr ? nullptr : found->charge;
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
std::byte* detail::detach_for_container(Block block) noexcept {
  PoolState::extent_of(block)->of_container.store(true, std::memory_order_relaxed);
  return block.detach();
}
std::byte* Block::detach() noexcept {
  Extent* const extent = PoolState::extent_of(*this);
  if (extent == nullptr) return nullptr;
  extent->detached.fetch_add(1, std::memory_order_relaxed);
  head_ = nullptr;
  return extent->data;
}

}  // namespace gantry
