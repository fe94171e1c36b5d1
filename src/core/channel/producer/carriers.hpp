#pragma once  // channel/producer/carriers.hpp: the ways of a message: in its record, beside it, in
              // a slot; and in memory that the caller fills.

#include "core/channel/producer/send_operation.hpp"

namespace gantry {

/// True if the shortest record will do: nothing but type and user's number goes with the payload.
[[nodiscard]] inline bool is_plain(const SendOptions& options) noexcept {
  return (options.correlation | options.deadline_ns) == 0 && options.as == nullptr;
}
/// A payload that is copied.
[[nodiscard]] inline Draft::Part part_of(ConstByteSpan payload) {
  Draft::Part part;
  part.copied = part.bytes = payload;
  return part;
}

/// Carries messages of a producer, on the thread that sends: the caller's or the progress thread's.
/// The shortest way of all, for small messages that need not wait, is Producer::Impl's.
class Carriers {
 public:
  /// Memory that readers still map when time is up: see PayloadAllocator::Lingering.
  enum class Memory : std::uint8_t { awaited, available };

  Carriers(ProducerCore& core, CreditGate& gate) noexcept : core_(core), gate_(gate) {}

  /// True if what is sent so may become something else.
  [[nodiscard]] bool converts(const SendOptions& options) const noexcept {
    return core_.options.as || options.as != nullptr;
  }
  /// Gives each part that is to become something else its plan. A second time it changes nothing.
  /// Errors: As::plan_for(); `invalid_argument` for a block or a message that travels on and is of
  /// another type, since neither is copied.
  [[nodiscard]] Result<void> settle(std::span<Draft::Part> parts, const SendOptions& options) const;

  /// Sends a payload of up to kInlineBytes. The caller does the accounting.
  [[nodiscard]] Result<void> send_small(ConstByteSpan payload, const SendOptions& options,
                                        Urgency urgency = Urgency::urgent);
  /// Two looks at the lock and a copy: no slot, no block, nothing that must be given back. It waits
  /// for the ring alone, since slots may be kept for ever. Nothing: it must go another way. `told`:
  /// of a tensor; else nothing.
  [[nodiscard]] std::optional<Result<void>> try_send_beside(ConstByteSpan payload,
                                                            const SendOptions& options, Lane& lane,
                                                            const BesidePayload* told = nullptr,
                                                            const ReshapePlan* reshape = nullptr);
  /// The same of parts, if they are one that is copied. By the caller's lane.
  [[nodiscard]] std::optional<Result<void>> try_send_beside(std::span<const Draft::Part> parts,
                                                            const SendOptions& options);
  /// Settles and sends. The second copier is the caller's; the progress thread copies alone.
  [[nodiscard]] Result<void> send_in_slot(std::span<Draft::Part> parts, const SendOptions& options,
                                          Lane& lane, Memory memory = Memory::awaited);
  /// For settled parts, on the caller's thread.
  [[nodiscard]] SendOperation operation(std::span<Draft::Part> parts, const SendOptions& options) {
    return {{core_, gate_, allocator_, cache_uses_}, parts, options, *core_.lane, second_.get()};
  }

  [[nodiscard]] PayloadAllocator& allocator() noexcept { return allocator_; }
  void have_second(std::unique_ptr<SecondCopier> second) noexcept { second_ = std::move(second); }
  [[nodiscard]] bool has_second() const noexcept { return second_ != nullptr; }

 private:
  ProducerCore& core_;
  CreditGate& gate_;
  PayloadAllocator allocator_{core_, gate_};
  PayloadAllocator available_{core_, gate_, PayloadAllocator::Lingering::is_awaited_elsewhere};
  CacheUses cache_uses_;
  std::unique_ptr<SecondCopier> second_;  // null: there is to be none
};

/// Lends slots out, and publishes them: a Loan once it is filled, an EarlyMessage before. The
/// caller's thread alone; replies' loans, any thread.
class Loans final : public detail::SlotOwner, public detail::EarlySender {
 public:
  Loans(ProducerCore& core, CreditGate& gate, Carriers& carriers) noexcept
      : core_(core), gate_(gate), carriers_(carriers) {}

  /// Waits for a slot and memory. `self`: this, and what must live as long as the loan.
  [[nodiscard]] Result<Loan> lend(std::shared_ptr<detail::SlotOwner> self, Bytes size,
                                  Deadline deadline);
  /// Fails for a loan that publish() may not be called with.
  [[nodiscard]] Result<void> check(const Loan& loan, const SendOptions& options) const;
  [[nodiscard]] Result<void> publish(Loan loan, const SendOptions& options);
  [[nodiscard]] Result<EarlyMessage> send_early(std::shared_ptr<detail::EarlySender> self,
                                                std::span<Draft::Part> parts,
                                                const SendOptions& options);
  /// A message that was sent early has not landed yet: nothing else may be sent.
  [[nodiscard]] bool is_landing() const noexcept { return is_landing_; }
  [[nodiscard]] Result<void> check_landed() const;

  void give_back(std::uint64_t token) noexcept override;
  void land(std::uint64_t token, Bytes bytes, bool is_last) noexcept override;
  void give_up(std::uint64_t token, Bytes landed) noexcept override {
    land(token, landed | LandingWord::kAborted, true);
  }

 private:
  ProducerCore& core_;
  CreditGate& gate_;
  Carriers& carriers_;
  bool is_landing_ = false;
};

}  // namespace gantry
