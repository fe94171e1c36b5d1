#pragma once  // channel/queue/work_ledger.hpp: which item is whose.

#include <deque>
#include <gantry/call.hpp>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <vector>

namespace gantry {

/// An item's bytes: with whoever put it, or copied.
class WorkPayload {
 public:
  /// Without its last segment. Copies it if it is `to_copy` and worth it.
  WorkPayload(Message message, bool to_copy);
  /// Of an item of a batch: `bytes` lie in what `owner` keeps, a copy or the batch's message.
  WorkPayload(std::shared_ptr<const void> owner, ConstByteSpan bytes, bool is_copied);
  /// A part of a message for each segment, which may be made again.
  [[nodiscard]] Draft draft() const;
  [[nodiscard]] bool is_copied() const noexcept { return is_copied_; }
  [[nodiscard]] Bytes bytes() const noexcept;
  /// The bytes of an item that may go with others in one message; empty: it goes alone.
  [[nodiscard]] std::optional<ConstByteSpan> small_bytes() const noexcept;

 private:
  std::shared_ptr<Message> message_;   // null: copied, or of a batch
  std::shared_ptr<const void> owner_;  // of a batch's bytes
  bool is_copied_ = false;
  std::vector<std::byte> copy_;
  std::vector<Draft::Part> parts_;  // their bytes lie in one of these
};

/// Copies of the first items, as many as go together in one message; empty: the first is too large.
/// Errors: `invalid_argument`, it cannot be read.
[[nodiscard]] Result<std::vector<std::shared_ptr<WorkPayload>>> copies_that_go_together(
    std::span<const ConstByteSpan> items, std::string_view queue);

/// Items and who has them. Knows nothing of channels. Used by one thread.
//   I1  An item is in exactly one place: waiting_, or the hands of one member.
//   I2  It leaves for good only when its holder acknowledges it, or after most_tries.
//   I3  An item that comes back goes in front of items that were never out, in the order of its
//       number. An item that could not be handed over goes behind all that failed less often.
//   I4  An answer to get_many() that the holder's user has not seen comes back without a try.
//   I5  kept_by_hands_ are the bytes of copies in members' hands, and kept_of_putters_ counts the
//       items there that lie in their putters' memory.
class WorkLedger {
 public:
  using Member = std::uint64_t;
  struct Item {
    std::uint64_t number = 0;
    unsigned tries = 0;
    unsigned failures = 0;      ///< How often it could not be handed over.
    std::uint64_t request = 0;  ///< Of its holder's, which it was the answer to.
    bool is_unseen = false;     ///< The holder, which will say that its user saw it, has not. I4
    std::shared_ptr<const WorkPayload> payload;
  };

  explicit WorkLedger(unsigned most_tries) noexcept : most_tries_(most_tries) {}

  void put(std::shared_ptr<const WorkPayload> payload);
  [[nodiscard]] bool has_waiting() const noexcept { return !waiting_.empty(); }
  [[nodiscard]] std::size_t waiting() const noexcept { return waiting_.size(); }
  /// Of the first that waits; null: none does.
  [[nodiscard]] std::shared_ptr<const WorkPayload> next_payload() const {
    return waiting_.empty() ? nullptr : waiting_.begin()->payload;
  }
  /// The first that waits, which is in the member's hands from now on. There is one. `will_say`:
  /// the member says when its user has seen it.
  [[nodiscard]] Item hand_to(Member member, std::uint64_t request = 0, bool will_say = false);
  /// The first ones that wait, if they are at least two that may go in one message: at most `most`.
  [[nodiscard]] std::vector<Item> hand_batch_to(Member member, std::uint64_t request,
                                                std::size_t most);
  /// Ignores what that member does not hold.
  void acknowledge(Member member, std::uint64_t number);
  // Of what a member was handed for a request, which is not 0, it is heard once: these three.
  /// All that the member was handed for that request.
  void acknowledge_batch(Member member, std::uint64_t request);
  void note_seen(Member member, std::uint64_t request);
  void take_back(Member member, std::uint64_t number);
  void take_all_back(Member member);
  /// As take_back() of what never arrived, through the member's fault: it does not count as a try.
  void not_delivered(Member member, std::uint64_t number);
  /// The same of all that the member was handed for that request and still holds.
  void not_read(Member member, std::uint64_t request);
  /// As take_back() of an item that cannot be handed over: it counts as a try, and others are next.
  void failed(Member member, std::uint64_t number);
  /// True if no item waits that failed less often than `failures`.
  [[nodiscard]] bool is_last_resort(unsigned failures) const noexcept {
    return waiting_.empty() || waiting_.begin()->failures >= failures;
  }

  [[nodiscard]] std::size_t copied() const noexcept { return copied_; }
  [[nodiscard]] bool is_empty() const noexcept { return waiting_.empty() && in_hand_ == 0; }
  /// True if an acknowledgement makes room that somebody may need: a putter's, or more than
  /// `most` bytes of copies.
  [[nodiscard]] bool frees_room(Bytes most) const noexcept {
    return kept_of_putters_ != 0 || kept_by_hands_ > most;
  }
  void drop_put() noexcept { ++dropped_; }
  void report_to(WorkQueueReport& report) const;

 private:
  /// Out of the member's hands; nothing if it does not hold that item.
  [[nodiscard]] std::optional<Item> take(Member member, std::uint64_t number);
  void return_item(Item item);
  void return_untried(Item item);
  [[nodiscard]] Item give(Member member, std::uint64_t request, bool will_say);
  /// In place of an earlier one to a request that a stranger gave the same number.
  void note_answer(Member member, std::uint64_t request, std::vector<std::uint64_t> numbers);
  /// What the member was handed for that request, if it has not been asked for that; it may have
  /// left the member's hands.
  [[nodiscard]] std::vector<std::uint64_t> take_answer(Member member, std::uint64_t request);
  void forget(const Item& item) noexcept;
  void note_in_hand(const WorkPayload& payload) noexcept;
  void note_out_of_hand(const WorkPayload& payload) noexcept;

  struct ByTurn {
    bool operator()(const Item& one, const Item& other) const noexcept {
      return std::pair(one.failures, one.number) < std::pair(other.failures, other.number);
    }
  };
  using Hands = std::map<std::uint64_t, Item>;
  struct Answer {
    std::vector<std::uint64_t> numbers;
    std::size_t held = 0;  // of these, at most; at least one
  };

  const unsigned most_tries_;
  std::set<Item, ByTurn> waiting_;
  std::map<Member, Hands> hands_;
  // Of a request that its member has said nothing of, so that no word costs more than its items.
  std::map<std::pair<Member, std::uint64_t>, Answer> answers_;
  std::size_t in_hand_ = 0;
  std::size_t copied_ = 0;
  Bytes kept_by_hands_ = 0;
  std::size_t kept_of_putters_ = 0;
  std::uint64_t put_ = 0;
  std::uint64_t acknowledged_ = 0;
  std::uint64_t redelivered_ = 0;
  std::uint64_t dropped_ = 0;
};

}  // namespace gantry
