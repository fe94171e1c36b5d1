#pragma once  // sync/overwriting_ring.hpp: the newest events of many writers, for whoever looks
              // later.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

namespace gantry {

// Any thread writes; nobody ever waits, and what is not read in time is overwritten. In shared
// memory it stays readable when its writers were killed. The event with number i, from 0, goes into
// cell i % cells.
//   I1  An event has its cell's stamp i + 1 only after all of its words. [S]
//   I2  Whoever sees a word of event i + cells also sees a head beyond i + cells: the number was
//       taken first. [H]
//   I3  So an event whose stamp fits before its words were read, and whose cell nobody had taken
//       again after, is whole; others are counted as lost. The one exception is a writer that
//       sleeps between number and stamp while all other cells are written: it may spoil the event
//       that came into its cell meanwhile. Readers check every field, as they must anyhow.

template <std::size_t words>
struct alignas(64) StampedCell {
  std::atomic<std::uint64_t> stamp;
  std::array<std::atomic<std::uint64_t>, words> word;
};

/// Writes events of `words` words. A view: head and cells must outlive it. `cells`: a power of two.
template <std::size_t words>
class OverwritingRing {
 public:
  using Cell = StampedCell<words>;
  using Event = std::array<std::uint64_t, words>;

  OverwritingRing(std::atomic<std::uint64_t>& head, std::span<Cell> cells) noexcept
      : head_(&head), cells_(cells.data()), mask_(cells.size() - 1) {}

  void write(const Event& event) noexcept {
    // Relaxed: the fence orders it before the words.
    const std::uint64_t number = head_->fetch_add(1, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);  // I2 [H]
    Cell& cell = cells_[number & mask_];
    store(cell, event, std::make_index_sequence<words>());
    cell.stamp.store(number + 1, std::memory_order_release);  // I1 [S]
  }

  [[nodiscard]] std::uint64_t written() const noexcept {
    return head_->load(std::memory_order_acquire);
  }
  /// Nothing: it is not complete, or was overwritten. Any thread.
  [[nodiscard]] std::optional<Event> read(std::uint64_t number) const noexcept {
    const Cell& cell = cells_[number & mask_];
    if (cell.stamp.load(std::memory_order_acquire) != number + 1) return std::nullopt;  // I1 [S]
    Event event;
    for (std::size_t i = 0; i < words; ++i) event[i] = cell.word[i].load(std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_acquire);                                   // I2 [H]
    if (head_->load(std::memory_order_relaxed) > number + mask_ + 1) return std::nullopt;  // I3
    return event;
  }

 private:
  // Not a loop: compilers keep small ones, and an event costs twice the instructions then.
  template <std::size_t... at>
  [[gnu::always_inline]] static void store(Cell& cell, const Event& event,
                                           std::index_sequence<at...>) noexcept {
    (cell.word[at].store(event[at], std::memory_order_relaxed), ...);  // the stamp carries them
  }

  std::atomic<std::uint64_t>* head_;
  Cell* cells_;
  std::uint64_t mask_;
};

}  // namespace gantry
