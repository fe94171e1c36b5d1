#pragma once  // channel/fan_out/publisher.hpp: puts messages into the consumers' rings.

#include <cstring>
#include <span>

#include "core/base/assert.hpp"
#include "core/channel/fan_out/consumer_set.hpp"
#include "core/channel/wire/step.hpp"

namespace gantry {

/// Numbers messages and gives them to the consumers, of which it is the owner. The sender calls
/// every member under the consumers' mutex(); nothing here waits.
///   I2  A message is in the ring of every consumer that had room for it when it was published. If
///       there was no consumer it is in the backlog.
///   I4  From a consumer with drop_oldest the oldest messages that it has not taken are taken back,
///       so that it has room for the newest. A slot that it took, or may have taken, stays its own.
///   I5  Consumers that do not block hold together so few slots that the credits remain, or half of
///       all; less by a slot for each one with drop_oldest that has one at most, as long as half of
///       that remains.
///   I8  No kept message has a larger number than the latest.
///   I11 needed_ is at most the number of the oldest message whose place a consumer that is served
///       may read; one that joins gets messages that others had not taken, or later ones.
///   I12 A quiet message leaves at least half of its ring free. Whatever else takes a place there
///       rings, so no sender waits for room that lies in a ring and did not ring.
class Publisher {
 public:
  Publisher(const Pool& pool, const ConsumerSet::Limits& limits)
      : consumers_(pool, limits), places_(limits.places) {}

  [[nodiscard]] ConsumerSet& consumers() noexcept { return consumers_; }
  [[nodiscard]] std::uint64_t published() const noexcept { return number_; }

  /// Publishes small messages without extras, from the first on, as long as there is room for them
  /// and nothing else to do; then wakes the consumers. Returns how many; for the others use
  /// publish().
  [[nodiscard]] std::size_t try_publish_small(std::span<const ConstByteSpan> payloads,
                                              std::uint32_t type, std::uint64_t user) noexcept {
    if (!consumers_.is_plain()) return 0;
    std::size_t done = 0;
    for (; done < payloads.size() && all_have_room(); ++done)
      publish_small(payloads[done], type, user);
    if (done != 0)
      for (const auto& consumer : consumers_.consumers()) consumer->wake();
    GANTRY_CHECK_INVARIANTS(*this);
    return done;
  }

  /// The same for one message and for only(), if there is one. False: it did nothing.
  [[nodiscard]] bool try_publish_small_to_only(ConstByteSpan payload, std::uint32_t type,
                                               std::uint64_t user) noexcept {
    ConsumerState* const only = consumers_.only();
    if (only == nullptr) [[unlikely]]
      return false;
    if (only->unread() >= consumers_.limits().slots && !finds_room(*only)) [[unlikely]]
      return false;
    only->publish_small(payload, small_header(payload.size(), type, user));
    only->wake();
    GANTRY_CHECK_INVARIANTS(*this);
    return true;
  }

  /// Where a message goes beside its record. Without bytes it must go another way.
  struct BesidePlan {
    std::uint32_t place = 0;
    ByteSpan bytes;
  };
  /// Without bytes a ring is full, readers that departed have all places, or the consumers do not
  /// take such messages by now.
  [[nodiscard]] BesidePlan plan_beside();
  /// False: the consumers have changed since the plan was made, and the message must go another
  /// way.
  [[nodiscard]] bool try_publish_beside(const BesidePlan& plan, const BesidePayload& payload,
                                        std::uint32_t type, std::uint64_t user) noexcept;

  /// Tells the consumers where the message in `slot` lies. False: some that must not miss it have
  /// to confirm earlier packets first; refresh() sees that. Errors: AnnouncedSlabs::tell().
  [[nodiscard]] Result<bool> announce(const Slot& slot);
  /// Gives the message its number and puts it into the rings. `slot` null: small.
  void publish(RecordToSend& message, Slot* slot);
  /// Wakes consumers of a landing message of which more has landed.
  void wake_holders(const Slot& slot) noexcept;
  /// The fewest chunks of it that any of its consumers is done with; nothing when it has no
  /// consumer left.
  [[nodiscard]] std::optional<std::uint64_t> chunks_passed_of(const Slot& slot) noexcept;

  /// When there is no memory for the next message: the history and consumers with drop_oldest give
  /// up older messages, until one frees some memory. False: they have none that would.
  [[nodiscard]] bool take_back_for_memory();

  /// Debug builds only, as GANTRY_CHECK_INVARIANTS. Checks I8 and the consumers.
  void check_invariants() noexcept;

 private:
  friend struct InvariantBreaker<Publisher>;

  [[nodiscard]] Urgency urgency_at(ConsumerState& consumer, Urgency asked) const noexcept;
  [[nodiscard]] bool tell_at_last(ConsumerState& consumer, const Slot& slot);
  [[nodiscard]] bool may_have(ConsumerState& consumer, const MessageHeader& message);
  void take_back_surplus(ConsumerState& consumer);
  void take_back_oldest(ConsumerState& consumer);
  [[nodiscard]] bool take_back_for_slots(ConsumerState& consumer);
  [[nodiscard]] bool leaves_slots() noexcept;
  [[nodiscard]] int most_for_others() const noexcept;
  [[nodiscard]] std::uint64_t held_by_others() noexcept;
  [[nodiscard]] bool may_have_one(const ConsumerState& consumer) noexcept;

  [[nodiscard]] bool all_have_room() const noexcept {
    if (const ConsumerState* const only = consumers_.only())
      return only->unread() < consumers_.limits().slots;
    for (const auto& consumer : consumers_.consumers())
      if (consumer->unread() >= consumers_.limits().slots) return false;
    return true;
  }
  /// One look at how far the consumer has come, which is all that most small messages need.
  [[nodiscard]] bool finds_room(ConsumerState& only) noexcept;

  /// Gives the message its number.
  [[nodiscard]] MessageHeader small_header(Bytes bytes, std::uint32_t type,
                                           std::uint64_t user) noexcept {
    const std::uint64_t number = ++number_;
    return {.number = number,
            .ticks = is_timed(kNoSlot, number) ? trace::ticks_and_look() : 0,
            .user = user,
            .type = type,
            .slot = kNoSlot,
            .kind = static_cast<std::uint8_t>(PayloadLocation::here),
            .count = static_cast<std::uint8_t>(bytes)};
  }
  void publish_small(ConstByteSpan payload, std::uint32_t type, std::uint64_t user) noexcept {
    const MessageHeader header = small_header(payload.size(), type, user);
    if (ConsumerState* const only = consumers_.only()) return only->publish_small(payload, header);
    std::array<std::byte, Message::kInlineBytes> body{};
    if (!payload.empty()) std::memcpy(body.data(), payload.data(), payload.size());
    for (const auto& consumer : consumers_.consumers()) consumer->publish_small(body, header);
  }

  void look_at_places();

  ConsumerSet consumers_;
  BesidePlaces places_;
  std::uint64_t number_ = GANTRY_FIRST_NUMBER;
  std::uint64_t needed_ = 0;  // I11
  unsigned looks_ = 0;        // of finds_room()
};

}  // namespace gantry
