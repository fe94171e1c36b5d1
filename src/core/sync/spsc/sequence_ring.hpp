#pragma once  // sync/spsc/sequence_ring.hpp: records from one writer to one reader that do not
              // trust each other.

#include <atomic>
#include <bit>
#include <cstdint>
#include <span>

#include "core/base/assert.hpp"
#include "core/sync/ordered_store.hpp"

namespace gantry {

/// One place of the ring, in the writer's memory; the reader maps it read-only.
template <class Record>
struct alignas(128) RingCell {             // two lines: processors fetch lines in such pairs
  std::atomic<std::uint64_t> sequence{0};  // of the record below; 0: none yet
  Record record;
};

// Rules. One writer thread, one reader thread, possibly in two processes. The cells belong to the
// writer, the word `taken` to the reader; neither writes the other's. Sequences count from 1.
//   I1  Cell i only ever holds sequences s with s % cells == i.
//   I2  A cell's sequence only grows.
//   I3  The writer overwrites the cell of s - cells only after `taken` reached s - cells.
//   I4  The reader takes s only after s - 1.
// Pairs. [P] publication: the record before its sequence. [T] taking: the record's reads before
// `taken`. Both words are also one half of a sleep handshake (sync/wait_flag.hpp), hence the full
// order behind their stores; as a pair release/acquire would do.

/// The writer's role. A plain value over memory that outlives it; hold exactly one.
template <class Record>
class RingWriter {
 public:
  /// `cells`: a power of two of them, since a division would take longer than all the rest.
  explicit RingWriter(std::span<RingCell<Record>> cells) noexcept
      : cells_(cells), mask_(cells.size() - 1) {
    GANTRY_ASSERT(std::has_single_bit(cells.size()));
  }

  [[nodiscard]] std::uint64_t published() const noexcept { return published_; }

  /// Refreshes the reader's word from `taken`. False: the reader went backwards or ahead of us, so
  /// it is broken or hostile; the old value stays.
  [[nodiscard]] bool refresh(const std::atomic<std::uint64_t>& taken) noexcept {
    const std::uint64_t now = taken.load(std::memory_order_seq_cst);  // [T]
    if (now < taken_ || now > published_) return false;
    taken_ = now;
    return true;
  }

  /// Records published and, as far as refresh() has seen, not taken.
  [[nodiscard]] std::uint64_t unread() const noexcept { return published_ - taken_; }

  /// One of the unread records, in the writer's own memory.
  [[nodiscard]] const Record& record(std::uint64_t sequence) const noexcept {
    return cells_[sequence & mask_].record;
  }

  /// Needs unread() < cells (I3). `fill` writes the record in place. It must be quick, with
  /// everything prepared: the reader polls the cell's first line, and takes it away from under a
  /// slow writer.
  template <class Fill>
  std::uint64_t publish(Fill fill) noexcept {
    const std::uint64_t next = published_ + 1;
    RingCell<Record>& cell = cells_[next & mask_];
    fill(cell.record);
    store_then_order(cell.sequence, next);  // [P]
    published_ = next;
    return next;
  }

 protected:
  std::span<RingCell<Record>> cells_;
  std::uint64_t mask_;
  std::uint64_t published_ = 0;
  std::uint64_t taken_ = 0;  // I3: never ahead of the reader's own word
};

/// The reader's role. A plain value over memory that outlives it; hold exactly one.
template <class Record>
class RingReader {
 public:
  explicit RingReader(std::span<const RingCell<Record>> cells) noexcept
      : cells_(cells), mask_(cells.size() - 1) {
    GANTRY_ASSERT(std::has_single_bit(cells.size()));
  }

  [[nodiscard]] std::uint64_t taken() const noexcept { return taken_; }

  [[nodiscard]] bool ready() const noexcept {
    const std::uint64_t next = taken_ + 1;
    return cells_[next & mask_].sequence.load(std::memory_order_seq_cst) == next;  // [P]
  }

  /// Records that can be taken one after the other now, at most as many as there are cells.
  [[nodiscard]] std::uint64_t count_ready() const noexcept {
    std::uint64_t count = 0;
    while (count < cells_.size() &&
           cells_[(taken_ + 1 + count) & mask_].sequence.load(std::memory_order_acquire) ==  // [P]
               taken_ + 1 + count)
      ++count;
    return count;
  }

  /// True if the record `places` behind the newest one taken is there already.
  [[nodiscard]] bool is_published(std::uint64_t places) const noexcept {
    const std::uint64_t sequence = taken_ + places;
    return cells_[sequence & mask_].sequence.load(std::memory_order_acquire) == sequence;  // [P]
  }

  /// Needs ready(). The record with sequence taken() + 1, in the writer's memory: check what you
  /// copied, not what you see.
  [[nodiscard]] const Record& next() const noexcept { return cells_[(taken_ + 1) & mask_].record; }

  /// Needs ready(). Done with next(); its cell is the writer's again after report().
  void take() noexcept { ++taken_; }

  /// Records taken and not reported yet.
  [[nodiscard]] std::uint64_t unreported() const noexcept { return taken_ - reported_; }

  /// Says how far it has come, for whoever handles our death. It wakes nobody, and the records
  /// still count as unreported.
  void mark(std::atomic<std::uint64_t>& taken) const noexcept {
    taken.store(taken_, std::memory_order_release);  // [T]
  }

  /// Gives the cells of all taken records back by the reader's own word.
  void report(std::atomic<std::uint64_t>& taken) noexcept {
    reported_ = taken_;
    taken.store(taken_, std::memory_order_seq_cst);  // [T]
  }

 protected:
  std::span<const RingCell<Record>> cells_;
  std::uint64_t mask_;
  std::uint64_t taken_ = 0;
  std::uint64_t reported_ = 0;
};

}  // namespace gantry
