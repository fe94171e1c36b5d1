#pragma once  // channel/consumer/received_payloads.hpp: where received messages lie, and until
              // when.

#include "channel/consumer/consumer_core.hpp"
#include "channel/consumer/held_slots.hpp"
#include "channel/wire/received_record.hpp"

namespace gantry {

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
