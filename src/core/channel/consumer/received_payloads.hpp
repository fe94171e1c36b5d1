#pragma once  // channel/consumer/received_payloads.hpp: where received messages lie, and until
              // when.

#include <array>
#include <atomic>
#include <gantry/runtime.hpp>
#include <optional>
#include <vector>

#include "core/channel/consumer/consumer_core.hpp"
#include "core/channel/consumer/received_slabs.hpp"
#include "core/channel/wire/format.hpp"
#include "core/channel/wire/received_record.hpp"

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
    GANTRY_ASSERT(slot < slots_.size());
    GANTRY_DEBUG_ASSERT(!is_held(slot));
    Slot& one = slots_[slot];
    one.number = number;
    one.bytes = bytes;
    one.ticks = ticks;
    one.slabs.assign(slabs.begin(), slabs.end());
    for (ReceivedSlab* slab : one.slabs) slab->hold();
    one.held.store(true, std::memory_order_release);  // [H]
  }
  void drop(std::size_t slot) noexcept {
    GANTRY_ASSERT(slot < slots_.size());
    Slot& one = slots_[slot];
    for (ReceivedSlab* slab : one.slabs) slab->let_go();
    one.held.store(false, std::memory_order_release);  // [H]
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

/// Maps the slabs that messages lie in, holds the slots of those in the user's hands, and gives
/// their credits back. Threads: the receiving one; give_back(), where(), key_for() and
/// is_immutable() from any.
class GANTRY_LOCAL ReceivedPayloads final : public detail::SlotOwner {
 public:
  explicit ReceivedPayloads(ConsumerCore& core) noexcept : core_(core) {}

  /// What this end's sender may cost. Before begin().
  void limit(std::shared_ptr<SenderQuota> quota) noexcept { quota_ = std::move(quota); }
  /// The slabs of a producer that died while it let us in are forgotten: the next numbers its own.
  void begin() { slabs_ = ReceivedSlabs(quota_, core_.options.registrars); }
  /// A packet of the producer about its slabs. Errors: those of ReceivedSlabs::learn().
  Result<void> learn(Received& received);
  /// Takes in what the producer has said over the socket so far, without waiting. An error breaks
  /// the stream, or says that the producer is gone.
  void hear();
  /// The socket that the producer sent, if one has come. Once.
  [[nodiscard]] Result<ReceivedFd> take_control_end();

  /// Finds the record's segments and holds its slot until give_back(). Errors break the stream;
  /// what this throws leaves everything as it was.
  [[nodiscard]] Result<std::vector<Segment>> hold(const ReceivedRecord& received);
  /// The same for a message in one block that is whole.
  [[nodiscard]] Result<ConstByteSpan> hold_block(const ReceivedRecord& received);
  /// Of a slot whose message nobody got: without a credit.
  void drop(std::uint16_t slot) noexcept { held_.drop(slot); }

  /// How far message `number` has landed in `slot`. Nothing: this end was cut off, and the slot is
  /// another message's.
  [[nodiscard]] std::optional<std::uint64_t> landing_word(std::uint16_t slot,
                                                          std::uint64_t number) const noexcept {
    return core_.page().landing[slot].read(number);
  }
  /// Of a streamed message: the producer may fill the first `chunks` anew.
  void pass_chunks(std::uint16_t slot, std::uint64_t number, std::uint64_t chunks) noexcept;
  /// Private memory for what is streamed. Error: `too_large`.
  [[nodiscard]] Result<SenderQuota::Charge> charge_gathered(Bytes bytes) {
    return quota_->take(Expense::gathered_bytes, bytes);
  }

  [[nodiscard]] Bytes gathered_bytes() const { return quota_->used(Expense::gathered_bytes); }

  void give_back(std::uint64_t token) noexcept override;
  [[nodiscard]] std::optional<detail::RegionSlice> where(std::uint64_t token,
                                                         ConstByteSpan bytes) const override;
  [[nodiscard]] bool is_immutable(std::uint64_t token, ConstByteSpan bytes) const override;
  [[nodiscard]] Result<std::optional<DeviceKey>> key_for(std::uint64_t token, ConstByteSpan bytes,
                                                         const Registrar& registrar) const override;

  [[nodiscard]] std::vector<HeldSlot> held(double ns_per_tick) const {
    return held_.list(ns_per_tick);
  }
  [[nodiscard]] std::size_t held_count() const noexcept { return held_.count(); }
  [[nodiscard]] Bytes mapped_bytes() const noexcept { return slabs_.mapped_bytes(); }
  [[nodiscard]] std::vector<ReceivedRegistration> registrations() const {
    return slabs_.registrations();
  }
  /// Packets about slabs that were taken in.
  [[nodiscard]] std::uint64_t heard() const noexcept { return slabs_.heard(); }
  [[nodiscard]] ConsumerCore& core() noexcept { return core_; }

 private:
  Result<std::vector<Segment>> find_window(const Place& place);
  Result<std::vector<Segment>> find_segments(const ReceivedRecord& received);
  Result<void> hold_found(const ReceivedRecord& received, Bytes bytes);
  Result<ConstByteSpan> find_bytes(std::uint32_t number, Bytes offset, Bytes bytes);
  void confirm_heard() noexcept;

  ConsumerCore& core_;
  std::shared_ptr<SenderQuota> quota_;  // of this producer
  ReceivedSlabs slabs_;
  PinnedSlabs found_;  // of the message that is being looked at; it goes before slabs_
  HeldSlots held_;
};

/// Token of a held message: its slot above its number.
inline constexpr unsigned kNumberBits = 56;
[[nodiscard]] constexpr std::uint64_t token_of(std::uint16_t slot, std::uint64_t number) noexcept {
  return (std::uint64_t{slot} << kNumberBits) | (number & ((std::uint64_t{1} << kNumberBits) - 1));
}

}  // namespace gantry
