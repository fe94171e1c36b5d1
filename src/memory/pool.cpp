#include <algorithm>
#include <gantry/memory.hpp>
#include <map>
#include <mutex>
#include <utility>

#include "base/result.hpp"
#include "base/system_memory.hpp"
#include "memory/free_ranges.hpp"

namespace gantry {

// What the pool handle and every live block hold together. Slab numbers are never used twice, so
// that another process cannot take a new slab for an old one.
struct Block::Shared {
  struct Slab {
    std::shared_ptr<Region> region;
    FreeRanges free;
    Bytes touched = 0;  // pages below this offset are resident
  };

  explicit Shared(const PoolOptions& given) : options(given) {}

  mutable std::mutex mutex;
  const PoolOptions options;
  std::map<std::uint32_t, Slab> slabs;
  std::uint32_t next_slab = 1;
  PoolReport totals;

  struct Place {
    std::uint32_t slab = 0;
    Bytes offset = 0;
  };

  Result<Place> take(Bytes size);
  Result<void> grow(Bytes size);
  Bytes trim_locked();
  void give_back(std::uint32_t slab, Bytes offset, Bytes size) noexcept;
  Result<void> make_resident(const Place& place, Bytes size);
};

namespace {

Bytes aligned(Bytes size) noexcept {
  return (size + Pool::kAlignment - 1) / Pool::kAlignment * Pool::kAlignment;
}

}  // namespace

Result<Block::Shared::Place> Block::Shared::take(Bytes size) {
  for (int attempt = 0; attempt < 2; ++attempt) {
    for (auto& [number, slab] : slabs)
      if (const auto offset = slab.free.take(size)) return Place{number, *offset};
    if (attempt == 0) GANTRY_TRY(grow(size));
  }
  return fail(Code::out_of_memory, fmt::format("no room for {} bytes in a new slab", size));
}

Result<void> Block::Shared::grow(Bytes size) {
  Bytes wanted = std::max(size, options.slab_bytes);
  if (totals.slab_bytes + wanted > options.budget_bytes) trim_locked();
  if (totals.slab_bytes + wanted > options.budget_bytes) wanted = size;
  if (totals.slab_bytes + wanted > options.budget_bytes)
    return fail(Code::out_of_memory,
                fmt::format("a block of {} bytes: {} of the pool's budget of {} bytes are in use",
                            size, totals.slab_bytes, options.budget_bytes),
                "release messages sooner, use fewer slots, or raise the budget");
  if (const Bytes left = system_memory().available; wanted > left)
    return fail(Code::out_of_memory,
                fmt::format("a block of {} bytes: the machine has {} bytes left", size, left),
                "free memory, or send smaller messages");
  GANTRY_ASSIGN(Region region, Region::create(wanted, "gantry-slab"));
  const Bytes got = region.size();
  slabs.emplace(next_slab++, Slab{std::make_shared<Region>(std::move(region)), FreeRanges(got), 0});
  totals.slab_bytes += got;
  return {};
}

Bytes Block::Shared::trim_locked() {
  Bytes freed = 0;
  std::erase_if(slabs, [&](const auto& entry) {
    if (!entry.second.free.is_all_free()) return false;
    freed += entry.second.region->size();
    return true;
  });
  totals.slab_bytes -= freed;
  return freed;
}

void Block::Shared::give_back(std::uint32_t slab, Bytes offset, Bytes size) noexcept {
  const std::lock_guard lock(mutex);
  slabs.at(slab).free.give(offset, aligned(size));
  totals.live_bytes -= size;
  totals.blocks -= 1;
}

// Outside the lock: making pages takes a hundred times longer than anything else here, and the
// range is already the caller's alone.
Result<void> Block::Shared::make_resident(const Place& place, Bytes size) {
  std::shared_ptr<Region> region;
  Bytes from = 0;
  {
    const std::lock_guard lock(mutex);
    Slab& slab = slabs.at(place.slab);
    region = slab.region;
    from = std::max(slab.touched, place.offset);
  }
  const Bytes end = place.offset + aligned(size);
  if (from >= end) return {};
  GANTRY_TRY(region->touch(from, end - from));
  const std::lock_guard lock(mutex);
  Bytes& touched = slabs.at(place.slab).touched;
  // Others may have the memory between and still be making it: then this piece is touched again.
  if (touched >= place.offset) touched = std::max(touched, end);
  return {};
}

Pool::Pool(std::shared_ptr<Block::Shared> shared) : shared_(std::move(shared)) {}

Result<Pool> Pool::create(const PoolOptions& options) {
  PoolOptions filled = options;
  if (filled.slab_bytes == 0) return fail(Code::invalid_argument, "a pool with slabs of 0 bytes");
  if (filled.budget_bytes == 0) filled.budget_bytes = system_memory().total / 5 * 4;
  return Pool(std::make_shared<Block::Shared>(filled));
}

Result<Block> Pool::allocate(Bytes size) {
  if (size == 0) return fail(Code::invalid_argument, "a block of 0 bytes");
  const Bytes budget = shared_->options.budget_bytes;
  if (size > budget || aligned(size) > budget)
    return fail(Code::too_large,
                fmt::format("a block of {} bytes: the limit is {} bytes", size, budget),
                "split the message, or raise the budget if the machine has the memory");
  Block::Shared::Place place;
  Block block;
  {
    const std::lock_guard lock(shared_->mutex);
    GANTRY_ASSIGN(place, shared_->take(aligned(size)));
    PoolReport& totals = shared_->totals;
    totals.live_bytes += size;
    totals.peak_bytes = std::max(totals.peak_bytes, totals.live_bytes);
    totals.blocks += 1;
    block.data_ = shared_->slabs.at(place.slab).region->data() + place.offset;
  }
  block.shared_ = shared_;
  block.size_ = size;
  block.offset_ = place.offset;
  block.slab_ = place.slab;
  GANTRY_TRY(shared_->make_resident(place, size));
  return block;
}

Bytes Pool::trim() {
  const std::lock_guard lock(shared_->mutex);
  return shared_->trim_locked();
}

PoolReport Pool::report() const {
  const std::lock_guard lock(shared_->mutex);
  PoolReport report = shared_->totals;
  report.slabs = shared_->slabs.size();
  report.budget_bytes = shared_->options.budget_bytes;
  return report;
}

std::shared_ptr<const Region> Pool::slab(std::uint32_t number) const {
  const std::lock_guard lock(shared_->mutex);
  const auto found = shared_->slabs.find(number);
  return found == shared_->slabs.end() ? nullptr : found->second.region;
}

Block::Block(Block&& other) noexcept {
  *this = std::move(other);
}

Block& Block::operator=(Block&& other) noexcept {
  std::swap(shared_, other.shared_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(offset_, other.offset_);
  std::swap(slab_, other.slab_);
  return *this;
}

Block::~Block() {
  if (shared_) shared_->give_back(slab_, offset_, size_);
}

}  // namespace gantry
