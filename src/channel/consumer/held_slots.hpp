#pragma once  // channel/consumer/held_slots.hpp: what a consumer's user has in hand, by slot.

#include <array>
#include <atomic>
#include <gantry/channel/status.hpp>
#include <optional>
#include <vector>

#include "channel/consumer/received_slabs.hpp"
#include "channel/wire/format.hpp"

namespace gantry {

/// Set by the receiving thread, cleared by the releasing one. The producer lends a slot again only
/// after it was released, so an entry has one owner at a time. [H]
class HeldSlots {
 public:
  [[nodiscard]] bool is_held(std::size_t slot) const noexcept {
    return slots_[slot].held.load(std::memory_order_acquire);  // [H]
  }
  /// The slabs stay mapped until drop(). `number`, `bytes` and `ticks` are the message's.
  void hold(std::size_t slot, std::span<ReceivedSlab* const> slabs, std::uint64_t number,
            Bytes bytes, std::uint64_t ticks) {
    Slot& one = slots_[slot];
    one.number = number;
    one.bytes = bytes;
    one.ticks = ticks;
    one.slabs.assign(slabs.begin(), slabs.end());
    for (ReceivedSlab* slab : one.slabs)
      slab->held.fetch_add(1, std::memory_order_relaxed);  // [U] this thread alone adds and unmaps
    one.held.store(true, std::memory_order_release);       // [H]
  }
  void drop(std::size_t slot) noexcept {
    Slot& one = slots_[slot];
    for (ReceivedSlab* slab : one.slabs)
      slab->held.fetch_sub(1, std::memory_order_release);  // [U] all reads of it are over
    one.held.store(false, std::memory_order_release);      // [H]
  }
  [[nodiscard]] std::size_t count() const noexcept {
    std::size_t held = 0;
    for (std::size_t slot = 0; slot < slots_.size(); ++slot) held += is_held(slot) ? 1 : 0;
    return held;
  }
  /// What is held now, the oldest first. The receiving thread.
  [[nodiscard]] std::vector<HeldSlot> list(double ns_per_tick) const;
  /// That in which these bytes of a held slot lie; null: in none.
  [[nodiscard]] const ReceivedSlab* slab_of(std::size_t slot, ConstByteSpan bytes) const noexcept {
    for (const ReceivedSlab* slab : slots_[slot].slabs) {
      const std::byte* const begin = slab->region->data();
      if (bytes.data() >= begin && bytes.data() < begin + slab->region->size()) return slab;
    }
    return nullptr;
  }
  [[nodiscard]] std::optional<detail::RegionSlice> where(std::size_t slot,
                                                         ConstByteSpan bytes) const {
    const ReceivedSlab* const slab = slab_of(slot, bytes);
    if (slab == nullptr) return std::nullopt;
    return detail::RegionSlice{
        slab->region, static_cast<Bytes>(bytes.data() - slab->region->data()), slab->inherited};
  }

 private:
  struct Slot {
    std::atomic<bool> held{false};
    std::uint64_t number = 0;  // this and the next two: for people, by the receiving thread
    Bytes bytes = 0;
    std::uint64_t ticks = 0;
    std::vector<ReceivedSlab*> slabs;
  };
  std::array<Slot, kMaxSlots> slots_;
};

}  // namespace gantry
