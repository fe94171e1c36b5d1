#pragma once  // channel/fan_out/slot_table.hpp: the credits for messages in blocks, and who holds
              // which.

#include <array>
#include <bit>
#include <memory>
#include <vector>

#include "core/base/assert.hpp"
#include "core/channel/wire/format.hpp"

namespace gantry {

/// Bits of Slot::consumers besides those of the consumers themselves.
// the sender fills it, or lent it
inline constexpr std::uint64_t kSenderBit = std::uint64_t{1} << 63;
// it waits for a first consumer
inline constexpr std::uint64_t kBacklogBit = std::uint64_t{1} << 62;
inline constexpr std::uint64_t kHistoryBit = std::uint64_t{1} << 61;  // kept for late joiners
static_assert(kMaxConsumers < 61);

/// What a message holds for its consumers. Its sender fills `block`, `spare` and `table` without
/// the lock while only it needs the slot; all else changes under the lock alone.
struct Slot {
  std::uint64_t number = 0;     // of the message, once published
  std::uint64_t consumers = 0;  // who still needs it; a slot is free exactly when nobody does
  std::uint64_t ticks = 0;      // time of publication
  Bytes bytes = 0;
  bool was_missed = false;    // streamed: its last consumer left without having taken it
  bool is_lent = false;       // a loan, until it is published or dropped
  bool was_given_up = false;  // published, and then its sender could not go on
  Block block;                // copied or loaned payload
  Block spare;                // the last such block, kept for the slot's next message
  Block table;
  std::shared_ptr<const Region> sealed;  // SendMode::immutable: all of its payload
  std::vector<Block> moved;
  std::vector<std::shared_ptr<Message>> forwarded;
  // the slabs in which the message lies, by AnnouncedSlabs' numbers
  std::vector<std::uint32_t> slabs;

  /// `keeps`: a block that is small enough, and to which nobody else has a handle, becomes the
  /// spare.
  void drop_memory(bool keeps = false) noexcept;
  /// Shares of all its memory, for a holder that outlives the slot.
  [[nodiscard]] Slot share() const;
  /// True if it has memory that was not allocated for a copy.
  [[nodiscard]] bool lends() const noexcept {
    return sealed || !moved.empty() || !forwarded.empty();
  }
  /// True if it has no memory except the spare block.
  [[nodiscard]] bool is_empty() const noexcept {
    return !block && !table && !sealed && moved.empty() && forwarded.empty() && slabs.empty();
  }
  /// Nobody uses the memory ever again; see Block::abandon().
  void abandon() noexcept;
};

/// All slots of a channel; used under the channel's lock. Consumers are bits, not a count, so that
/// exactly what a dead one held can be given back.
///   I1  A slot counts as used exactly when somebody needs it.
///   I2  A slot is needed only by possible consumers, the sender, the backlog or the history.
///   I3  A free slot has no memory but its spare block, counts no bytes, was missed by nobody, is
///       no loan and was not given up.
///   I4  A spare block is no larger than kLargestSpare.
///   I5  The next turn is that of one of the slots.
///   I6  Whoever lets a slot go needed it until then, so freed() counts it once.
class SlotTable {
 public:
  /// Larger ones are beyond what the caches of two CPUs hold of several places.
  static constexpr Bytes kLargestSpare = Bytes{1} << 20;

  /// With `keeps` slots keep their blocks.
  explicit SlotTable(bool keeps) noexcept : keeps_(keeps) { GANTRY_CHECK_INVARIANTS(*this); }

  [[nodiscard]] Slot& operator[](std::size_t index) noexcept { return slots_[index]; }
  [[nodiscard]] const Slot& operator[](std::size_t index) const noexcept { return slots_[index]; }
  [[nodiscard]] std::uint16_t index_of(const Slot& slot) const noexcept {
    return static_cast<std::uint16_t>(&slot - slots_.data());
  }

  /// A free slot, now the sender's; null when there is none. The first `turns` slots are used in
  /// turn, so that memory rests between two messages; others only when all of these are in use.
  [[nodiscard]] Slot* take(unsigned turns) noexcept;
  void add(std::size_t index, std::uint64_t consumers) noexcept;
  /// The sender is done with the slot.
  void release(Slot& slot) noexcept { remove(index_of(slot), kSenderBit); }
  /// `consumers` do not need it any more. True: nobody else does either, and its memory went back.
  bool remove(std::size_t index, std::uint64_t consumers) noexcept;

  /// Slots, as bits, that any of `consumers` needs.
  [[nodiscard]] std::uint64_t needed_by(std::uint64_t consumers) const noexcept;
  [[nodiscard]] std::uint64_t used() const noexcept { return used_; }
  [[nodiscard]] std::uint64_t freed() const noexcept { return freed_; }  ///< Slots freed so far.
  /// Slots, as bits, that are out on loan.
  [[nodiscard]] std::uint64_t lent() const noexcept;
  /// True if somebody may need a message with more than copies: sealed, moved or passed on. As of
  /// the latest note_published() and refresh_lends().
  [[nodiscard]] bool lends() const noexcept { return lends_; }
  void note_published(const Slot& slot) noexcept { lends_ = lends_ || slot.lends(); }
  void refresh_lends() noexcept;
  /// True if somebody needs a message that was passed on.
  [[nodiscard]] bool holds_forwards() const noexcept;
  /// Of all slots from `first` on. True: there were any.
  bool drop_spares(std::size_t first = 0) noexcept;
  /// From now on no slot keeps its block, since somebody else allocates from the pool, too.
  void keep_no_more() noexcept {
    keeps_ = false;
    drop_spares();
  }
  [[nodiscard]] bool keeps() const noexcept { return keeps_; }
  [[nodiscard]] Bytes bytes_of(std::uint64_t slots) const noexcept;
  /// Bytes that drop_spares() would give back.
  [[nodiscard]] Bytes spare_bytes() const noexcept;

  /// Debug builds only, as GANTRY_CHECK_INVARIANTS. Checks I1 to I5.
  void check_invariants() const noexcept;

 private:
  /// Used slots, as bits, of which `holds` is true.
  template <class Holds>
  [[nodiscard]] std::uint64_t which(Holds holds) const noexcept;

  std::array<Slot, kMaxSlots> slots_;
  std::uint64_t used_ = 0;  // bit i: somebody needs slots_[i]
  std::uint64_t freed_ = 0;
  unsigned next_ = 0;
  bool keeps_;
  bool lends_ = false;
};
static_assert(kMaxSlots == 64);

/// Calls `use(index)` for every bit set.
template <class Use>
void for_each_bit(std::uint64_t bits, Use use) {
  for (; bits != 0; bits &= bits - 1) use(static_cast<std::size_t>(std::countr_zero(bits)));
}

}  // namespace gantry
