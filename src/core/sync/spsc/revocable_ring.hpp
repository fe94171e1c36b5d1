#pragma once  // sync/spsc/revocable_ring.hpp: a sequence ring whose writer may take back untaken
              // records.

#include <algorithm>

#include "core/sync/spsc/sequence_ring.hpp"
#include "core/sync/spsc/word_copy.hpp"

namespace gantry {

// Rules, besides I1 to I4 of sequence_ring.hpp. The word `revoked` is the writer's: nobody may take
// records up to it any more. Writer W takes back s, reader R takes s:
//   W: revoked = s [V1]; read taken [V2]      R: copy s; taken = s [V3]; read revoked [V4]
// All four are seq_cst. In their single order either V3 precedes V2 and W sees that R may have s,
// or V1 precedes V4 and R sees that s is not its own; perhaps both, never neither.
//   I5  R has s only if V4 found revoked < s. Then W finds taken >= s whenever it takes s back, and
//       the copy was made before the cell could be overwritten.
//   I6  W has s back for certain only if V2 found taken < s. Else s is in doubt, and R's until R
//       says that it is done with it, as with any record that it took.
//   I7  R says so of every record that it passes over, before its word `taken` goes beyond it, and
//       of one that V4 found not to be its own. If W had it back already, that says nothing new.
//   I8  Both words only grow; neither goes beyond what was published.
// While a cell is overwritten its sequence is 0 (so I2 holds of the others only), and its record is
// copied word by word [W]: R's copy may be half overwritten, and then R knows it.

/// The writer's role. It also serves readers of the other kind, which do not notice.
template <class Record>
class RevocableWriter : public RingWriter<Record> {
 public:
  using RingWriter<Record>::RingWriter;

  /// As RingWriter's. What was taken back may be behind or ahead of the reader's word.
  [[nodiscard]] bool refresh(const std::atomic<std::uint64_t>& taken) noexcept {
    const std::uint64_t now = taken.load(std::memory_order_seq_cst);  // [T] [V2]
    if (now < seen_ || now > this->published_) return false;
    seen_ = now;
    if (now > this->taken_) this->taken_ = now;
    return true;
  }

  /// Needs unread() < cells (I3). For a reader that may be copying what the cell held before.
  std::uint64_t publish_over(const Record& record) noexcept {
    const std::uint64_t next = this->published_ + 1;
    RingCell<Record>& cell = this->cells_[next & this->mask_];
    cell.sequence.store(0, std::memory_order_relaxed);  // [W] the words' release carries it
    store_words(cell.record, record);
    cell.sequence.store(next, std::memory_order_seq_cst);  // [P]
    this->published_ = next;
    return next;
  }

  enum class Revoked {
    certain,   ///< The reader never gets it (I6).
    in_doubt,  ///< The reader may have it.
    broken,    ///< As refresh() false.
  };
  /// Needs unread() > 0. Takes the oldest unread record back; in any case it is unread no more.
  [[nodiscard]] Revoked revoke_oldest(std::atomic<std::uint64_t>& revoked,
                                      const std::atomic<std::uint64_t>& taken) noexcept {
    const std::uint64_t oldest = this->taken_ + 1;
    revoked.store(oldest, std::memory_order_seq_cst);  // [V1]
    if (!refresh(taken)) return Revoked::broken;       // [V2]
    if (seen_ >= oldest) return Revoked::in_doubt;
    this->taken_ = oldest;
    return Revoked::certain;
  }

 private:
  std::uint64_t seen_ = 0;  // the reader's word; taken_ is that, or what was taken back
};

/// The reader's role: a RingReader until claim() is called; until then its writer takes nothing
/// back.
template <class Record>
class RevocableReader : public RingReader<Record> {
 public:
  using RingReader<Record>::RingReader;

  /// True if something may be claimed. A look half-way through a writer's step may miss it, but
  /// then the writer's next store comes after the look, which is all that a sleep handshake needs.
  [[nodiscard]] bool can_claim(const std::atomic<std::uint64_t>& revoked) const noexcept {
    return is_there(past(revoked) + 1);
  }
  [[nodiscard]] std::uint64_t count_claimable(
      const std::atomic<std::uint64_t>& revoked) const noexcept {
    return count_from(past(revoked) + 1);
  }

  /// Records that the writer counts as unread, by the words of both ends. Any thread.
  [[nodiscard]] std::uint64_t count_unread(
      const std::atomic<std::uint64_t>& taken,
      const std::atomic<std::uint64_t>& revoked) const noexcept {
    // Relaxed: for display.
    return count_from(
        std::max(taken.load(std::memory_order_relaxed), revoked.load(std::memory_order_relaxed)) +
        1);
  }

  /// Copies and takes the oldest record that is not taken back. False: there is none, or the writer
  /// was faster each time; look again. Calls `pass_over(record)` with whole copies of records that
  /// this end must say it is done with (I7).
  template <class PassOver>
  [[nodiscard]] bool claim(Record& copy, std::atomic<std::uint64_t>& taken,
                           const std::atomic<std::uint64_t>& revoked, PassOver pass_over) noexcept {
    for (std::size_t attempt = 0; attempt < this->cells_.size(); ++attempt) {
      skip_to(past(revoked), copy, pass_over);
      // A fast writer takes the oldest one away again and again: then take one from the middle,
      // then the newest.
      if (const std::uint64_t there = attempt > 0 ? count_from(this->taken_ + 1) : 0; there > 1)
        skip_to(this->taken_ + (attempt == 1 ? there / 2 : there - 1), copy, pass_over);
      const std::uint64_t next = this->taken_ + 1;
      if (!copy_whole(next, copy)) {
        if (past(revoked) < next) return false;
        continue;
      }
      this->taken_ = next;
      this->report(taken);                                              // [V3]
      if (revoked.load(std::memory_order_seq_cst) < next) return true;  // [V4] I5
      ++missed_;
      pass_over(static_cast<const Record&>(copy));
    }
    return false;
  }

  /// Records that were published to this end and that it never got, as far as it knows.
  [[nodiscard]] std::uint64_t missed() const noexcept { return missed_; }

 private:
  [[nodiscard]] std::uint64_t past(const std::atomic<std::uint64_t>& revoked) const noexcept {
    const std::uint64_t up_to = revoked.load(std::memory_order_seq_cst);  // [V4]
    return up_to > this->taken_ ? up_to : this->taken_;
  }
  // 0 is a cell that is being overwritten. It also follows the last of all sequences, which only a
  // broken or hostile writer reaches.
  [[nodiscard]] bool is_there(std::uint64_t sequence) const noexcept {
    return sequence != 0 && this->cells_[sequence & this->mask_].sequence.load(
                                std::memory_order_seq_cst) == sequence;  // [P]
  }
  [[nodiscard]] std::uint64_t count_from(std::uint64_t first) const noexcept {
    std::uint64_t count = 0;
    while (count < this->cells_.size() && is_there(first + count)) ++count;
    return count;
  }
  // False: it is not there, or was overwritten meanwhile.
  [[nodiscard]] bool copy_whole(std::uint64_t sequence, Record& copy) const noexcept {
    if (!is_there(sequence)) return false;
    const RingCell<Record>& cell = this->cells_[sequence & this->mask_];
    load_words(copy, cell.record);
    return cell.sequence.load(std::memory_order_relaxed) == sequence;  // [W]
  }
  // I7. A record that is more than all cells behind, or no longer whole, was overwritten untaken:
  //     the writer had it back for certain.
  template <class PassOver>
  void skip_to(std::uint64_t last, Record& copy, PassOver& pass_over) noexcept {
    if (last <= this->taken_) return;
    missed_ += last - this->taken_;
    std::uint64_t back = last - this->taken_;
    if (back > this->cells_.size()) back = this->cells_.size();
    for (; back > 0; --back)
      if (copy_whole(last + 1 - back, copy)) pass_over(static_cast<const Record&>(copy));
    this->taken_ = last;
  }

  std::uint64_t missed_ = 0;
};

}  // namespace gantry
