#include "core/memory/pool/slab.hpp"

#include "core/base/result.hpp"
#include "core/memory/pool/size_class.hpp"

namespace gantry {
namespace {

constexpr Bytes kPagesAWord = 64;

}  // namespace

Slab::Slab(PoolState& owner, std::uint32_t given, std::shared_ptr<Region> memory, bool is_present,
           const SlabCharge::Total& charged)
    : pool(owner),
      number(given),
      charge(std::make_shared<SlabCharge>(charged, memory->size())),
      region(std::move(memory)),
      base(region->data()),
      free(region->size(), reinterpret_cast<std::uintptr_t>(base)) {
  const Bytes words = region->size() / kPage / kPagesAWord + 1;
  pages_ = std::make_unique<std::atomic<std::uint64_t>[]>(words);
  if (is_present)
    for (Bytes i = 0; i < words; ++i) pages_[i].store(~std::uint64_t{0}, std::memory_order_relaxed);
  poison({region->data(), region->size()});
}

Slab::~Slab() {
  unpoison({region->data(), region->size()});  // the next to map this address must not suffer
}

Result<void> Slab::make_present(Bytes offset, Bytes size) {
  const Bytes first = offset / kPage;
  const Bytes last = (offset + size - 1) / kPage;
  const auto bit = [](Bytes page) { return std::uint64_t{1} << (page % kPagesAWord); };
  Bytes missing = last + 1;
  for (Bytes page = first; page <= last && missing > last; ++page)
    if ((pages_[page / kPagesAWord].load(std::memory_order_relaxed) & bit(page)) == 0)
      missing = page;
  if (missing > last) return {};
  GANTRY_TRY(region->touch(missing * kPage, (last + 1 - missing) * kPage));
  // Only a hint: a thread that misses it touches again.
  for (Bytes page = missing; page <= last; ++page)
    pages_[page / kPagesAWord].fetch_or(bit(page), std::memory_order_relaxed);
  return {};
}

void Slab::register_with(std::size_t index, Registrar& registrar) noexcept {
  const std::lock_guard lock(registering);
  SlabRegistration& mine = registrations[index];
  if (mine.state.load(std::memory_order_relaxed) != SlabRegistration::State::none) return;
  auto made = registrar.register_fresh({region->data(), region->size()}, DeviceAccess::read_write);
  auto key = made ? made->key() : Result<DeviceKey>(tl::unexpected(made.error()));
  if (!key) {
    mine.error = std::move(key).error();
    mine.state.store(SlabRegistration::State::refused, std::memory_order_release);  // [S]
    return;
  }
  mine.registration = std::move(*made);
  mine.key = *key;
  mine.state.store(SlabRegistration::State::made, std::memory_order_release);  // [S]
  mine.with.store(&registrar, std::memory_order_release);                      // [S]
}

}  // namespace gantry
