#include "core/memory/pool/slab_store.hpp"

#include <algorithm>

#include "core/base/assert.hpp"
#include "core/base/result.hpp"

namespace gantry {

std::optional<SlabStore::Cut> SlabStore::take(const Need& need) {
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
std::optional<SlabStore::Cut> SlabStore::cut(Slab& slab, const Need& need, unsigned pieces) {
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

void SlabStore::to_slab(Extent& extent) noexcept {
  Slab& slab = *extent.slab;
  slab.extents.erase(extent.offset());
  slab.free.give(extent.offset(), extent.capacity);
  put_away(extent);
}

void SlabStore::put_away(Extent& extent) noexcept {
  GANTRY_ASSERT(cut_bytes_ >= extent.capacity);  // I1
  cut_bytes_ -= extent.capacity;
  extent.capacity = 0;  // it stands for nothing
  spare_extents_.push(extent);
}

void SlabStore::make_room(ThreadCache& cache, unsigned size_class) noexcept {
  for (unsigned i = ThreadCache::most(size_class) / 2; i > 0; --i) {
    Extent* const kept = cache.classes[size_class].pop();
    if (kept == nullptr) return;
    if (size_class < kExactClasses)
      depot_[size_class].push(*kept);
    else
      to_slab(*kept);
  }
}

void SlabStore::retire(Extent& extent) noexcept {
  Slab& slab = *extent.slab;
  slab.is_retired = true;
  slab.extents.erase(extent.offset());
  slab.free.forget();
  // Pieces that are out come straight back to it later.
  for (const auto& [offset, other] : slab.extents)
    other->loose.store(true, std::memory_order_relaxed);
  put_away(extent);
}

void SlabStore::drain(ThreadCache& cache) noexcept {
  cache.lock.steal();
  for (ExtentList& list : cache.classes)
    while (Extent* extent = list.pop()) to_slab(*extent);
  cache.lock.hand_back();
}

void SlabStore::drain_depots() noexcept {
  for (ExtentList& depot : depot_)
    while (Extent* extent = depot.pop()) to_slab(*extent);
}

// Once there is room for the entries nothing fails.
void SlabStore::add(std::unique_ptr<Slab> slab) {
  slabs_.reserve(slabs_.size() + 1);
  by_address_.emplace(reinterpret_cast<std::uintptr_t>(slab->base), slab.get());
  slab_bytes_ += slab->region->size();
  slabs_.push_back(std::move(slab));
}

std::unique_ptr<Slab> SlabStore::drop_empty_slabs() noexcept {
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

Extent* SlabStore::extent_at(const std::byte* data) const {
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

const Slab* SlabStore::slab_of(std::uint32_t number) const noexcept {
  const auto found = std::find_if(slabs_.begin(), slabs_.end(),
                                  [number](const auto& slab) { return slab->number == number; });
  return found == slabs_.end() ? nullptr : found->get();
}

Bytes SlabStore::lingering_bytes() const noexcept {
  const Bytes charged = charged_->load(std::memory_order_relaxed);
  return charged - std::min(charged, slab_bytes_);
}

// ---- reports -------------------------------------------------------------------------------

std::vector<Holder> SlabStore::holders(const std::vector<std::string>& tags) const {
  std::vector<Holder> by_tag(tags.size());
  const std::uint32_t now = wall_seconds();
  for (const Extent& extent : extents_) {
    if (extent.handles.load(std::memory_order_acquire) == 0) continue;  // [H]
    const std::uint32_t tag = extent.tag.load(std::memory_order_relaxed);
    Holder& holder = by_tag[tag < by_tag.size() ? tag : 0];
    holder.bytes += extent.size.load(std::memory_order_relaxed);
    holder.blocks += 1;
    const std::uint32_t age = now - extent.born_s.load(std::memory_order_relaxed);
    // Born after we read the clock, or the clock was set back: no age.
    if (age < ~std::uint32_t{0} / 2)
      holder.oldest = std::max(holder.oldest, std::chrono::seconds(age));
  }
  for (std::size_t i = 0; i < by_tag.size(); ++i) by_tag[i].tag = tags[i];
  std::erase_if(by_tag, [](const Holder& holder) { return holder.blocks == 0; });
  std::sort(by_tag.begin(), by_tag.end(),
            [](const Holder& a, const Holder& b) { return a.bytes > b.bytes; });
  return by_tag;
}

void SlabStore::fill(PoolReport& report) const {
  report.peak_bytes = std::min(report.peak_bytes, peak_cut_bytes_);
  report.slab_bytes = slab_bytes_;
  report.lingering_bytes = lingering_bytes();
  report.slabs = slabs_.size();
  fill_room(report);
  for (const auto& slab : slabs_) {
    for (const SlabRegistration& registration : slab->registrations)
      if (registration.state.load(std::memory_order_acquire) == SlabRegistration::State::refused)
        report.registration_errors.push_back(
            fmt::format("slab {}: {}", slab->number, registration.error.message));
    if (!slab->collapse_error.empty())
      report.collapse_errors.push_back(
          fmt::format("slab {}: {}", slab->number, slab->collapse_error));
  }
}

// Free memory of the slabs that still serve.
void SlabStore::fill_room(PoolReport& report) const {
  Bytes serving = 0;
  for (const auto& slab : slabs_) {
    if (slab->is_retired) continue;
    serving += slab->region->size();
    report.largest_free_bytes = std::max(report.largest_free_bytes, slab->free.largest());
  }
  Bytes cut = 0;  // of the cut bytes, those in blocks
  Bytes live = 0;
  for (const Extent& extent : extents_) {
    if (extent.capacity == 0) continue;
    const bool in_block = extent.handles.load(std::memory_order_acquire) != 0;  // [H]
    if (in_block) cut += extent.capacity;
    if (extent.slab->is_retired) continue;
    if (in_block) live += extent.size.load(std::memory_order_relaxed);
    if (!in_block) report.largest_free_bytes = std::max(report.largest_free_bytes, extent.capacity);
  }
  report.free_bytes = serving - std::min(serving, live);
  report.kept_bytes = cut_bytes_ - std::min(cut_bytes_, cut);
}

}  // namespace gantry
