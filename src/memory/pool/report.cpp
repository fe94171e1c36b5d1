#include <algorithm>

#include "base/result.hpp"
#include "memory/pool/state.hpp"

// What a pool reports. All of it needs the pool's lock and none of it is on any fast path.
namespace gantry {
namespace {

std::string megabytes(Bytes bytes) {
  return bytes < (Bytes{1} << 20)
             ? fmt::format("{} bytes", bytes)
             : fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1 << 20));
}

}  // namespace

std::vector<Holder> PoolState::holders() const {
  std::vector<Holder> by_tag(tags_.size());
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
  for (std::size_t i = 0; i < by_tag.size(); ++i) by_tag[i].tag = tags_[i];
  std::erase_if(by_tag, [](const Holder& holder) { return holder.blocks == 0; });
  std::sort(by_tag.begin(), by_tag.end(),
            [](const Holder& a, const Holder& b) { return a.bytes > b.bytes; });
  return by_tag;
}

std::string PoolState::largest_holders() const {
  constexpr std::size_t kNamed = 3;
  std::string text;
  std::size_t named = 0;
  for (const Holder& holder : holders()) {
    text += fmt::format("{} {}: {} in {} block{}, the oldest {} s old",
                        text.empty() ? "; held by" : ",",
                        holder.tag.empty() ? "(untagged)" : holder.tag, megabytes(holder.bytes),
                        holder.blocks, holder.blocks == 1 ? "" : "s", holder.oldest.count());
    if (++named == kNamed) break;
  }
  return text;
}

// Needs mutex_. A slab that is being made is charged before it is one of slabs_, so this may be too
// high for a moment.
Bytes PoolState::lingering_bytes() const noexcept {
  const Bytes charged = charged_->load(std::memory_order_relaxed);
  return charged - std::min(charged, slab_bytes_);
}

PoolReport PoolState::report() {
  PoolReport report;
  if (!fork_guard_.is_this()) return report;
  const std::lock_guard lock(mutex_);
  std::uint64_t peaks = 0;
  const auto add = [&](ThreadCache& cache) {
    report.live_bytes += cache.live_bytes.get();
    report.blocks += cache.allocations.get() - cache.returns.get();
    report.allocations += cache.allocations.get();
    report.reuses += cache.allocations.get() - cache.far_allocations.get();
    peaks += cache.peak_bytes.get();
  };
  add(shared_);
  for (const auto& cache : caches_) add(*cache);
  report.peak_bytes = std::min<Bytes>(peaks, peak_cut_bytes_);
  report.slab_bytes = slab_bytes_;
  report.lingering_bytes = lingering_bytes();
  report.budget_bytes = options_.budget_bytes;
  report.slabs = slabs_.size();
  report_room(report);
  for (const auto& registrar : options_.registrars)
    report.registrars.push_back(registrar->report());
  report.registration_errors = registration_errors();
  for (const auto& slab : slabs_)
    if (!slab->collapse_error.empty())
      report.collapse_errors.push_back(
          fmt::format("slab {}: {}", slab->number, slab->collapse_error));
  report.holders = holders();
  return report;
}

// Free memory of the slabs that still serve.
void PoolState::report_room(PoolReport& report) const {
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

std::vector<std::string> PoolState::registration_errors() const {
  std::vector<std::string> errors;
  for (const auto& slab : slabs_)
    for (const SlabRegistration& registration : slab->registrations)
      if (registration.state.load(std::memory_order_acquire) == SlabRegistration::State::refused)
        errors.push_back(fmt::format("slab {}: {}", slab->number, registration.error.message));
  return errors;
}

Error PoolState::named(Error error) const {
  error.message = fmt::format("{}: {}", options_.name, error.message);
  return error;
}

}  // namespace gantry
