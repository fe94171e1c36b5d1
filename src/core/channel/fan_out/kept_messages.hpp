#pragma once  // channel/fan_out/kept_messages.hpp: messages that wait for consumers that join
              // later.

#include <deque>

#include "core/base/assert.hpp"
#include "core/channel/fan_out/consumer_state.hpp"
#include "core/channel/fan_out/slot_table.hpp"

namespace gantry {

/// True for a streamed message if a chunk took the place of another.
[[nodiscard]] bool outgrew_window(const MessageRecord& record) noexcept;
/// True if the consumer still needs what was lent for that message. A consumer may release what it
/// has not taken.
[[nodiscard]] inline bool needs(const ConsumerState& consumer, const SlotTable& slots,
                                const MessageHeader& header) noexcept {
  return header.slot != kNoSlot && (consumer.holds() >> header.slot & 1) != 0 &&
         slots[header.slot].number == header.number;
}

/// The backlog: what was published while there was no consumer; the next one gets all of it. The
/// history: the newest messages, for each consumer that joins. Used under the channel's lock.
///   K1  Backlog and history are in the order of publication.
///   K2  A slot has kBacklogBit exactly while a message of the backlog lies in it, and kHistoryBit
///       exactly while one of the history does. The slot is still that message's.
///   K3  The history is no longer than was asked for.
class KeptMessages {
 public:
  KeptMessages(SlotTable& slots, unsigned most) : slots_(slots), most_(most) {}
  KeptMessages(const KeptMessages&) = delete;
  KeptMessages& operator=(const KeptMessages&) = delete;

  /// Adds a published message to the backlog.
  void keep(const RecordToSend& message);
  /// Adds to the backlog what a consumer that left had not taken, but for streamed messages that
  /// cannot be repeated.
  void keep_unread(const ConsumerState& consumer);
  /// Adds a published message to the history, if there is one. A streamed message is left out.
  void remember(const RecordToSend& message);
  /// Drops the message in the slot, which its sender gave up; keep_unread() will leave it out.
  void take_back(Slot& slot) noexcept;
  /// Drops the oldest message of the history. False: it is empty.
  bool forget_oldest() noexcept;

  /// The slabs in which the kept messages lie.
  [[nodiscard]] std::vector<std::uint32_t> slabs() const;
  /// Gives a new consumer the backlog and the newest of the history, at most `room` messages, in
  /// the order of their numbers, each once.
  void hand_over(ConsumerState& consumer, std::size_t room);

  [[nodiscard]] std::size_t backlog() const noexcept { return backlog_.size(); }
  [[nodiscard]] std::size_t history() const noexcept { return history_.size(); }
  /// Number of the newest message; 0 if none is kept.
  [[nodiscard]] std::uint64_t newest() const noexcept;

  /// Debug builds only, as GANTRY_CHECK_INVARIANTS. Checks K1 to K3.
  void check_invariants() const noexcept;

 private:
  friend struct InvariantBreaker<KeptMessages>;

  SlotTable& slots_;
  unsigned most_;
  std::deque<MessageRecord> backlog_;
  std::deque<MessageRecord> history_;
};

}  // namespace gantry
