#pragma once  // memory/pool/free_ranges.hpp: which parts of a slab are free.

#include <gantry/types.hpp>
#include <map>
#include <optional>
#include <set>
#include <vector>

namespace gantry {

/// Best fit, lowest address among equals: large holes are kept for large blocks, and the same warm
/// pages serve again. Only take() needs the heap; giving back cannot fail.
class FreeRanges {
 public:
  /// `base`: address of the first byte; alignments count from it.
  explicit FreeRanges(Bytes size, std::uintptr_t base = 0) : base_(base) {
    stock(1);
    insert(0, size);
  }

  /// Returns the offset of `size` bytes whose address is a multiple of `alignment`, a power of two.
  /// Among very many holes it may miss one that just serves an alignment.
  [[nodiscard]] std::optional<Bytes> take(Bytes size, Bytes alignment) {
    // Looks at some holes that the alignment may or may not spoil, then at one that it cannot
    // spoil.
    unsigned looks = 0;
    for (auto fit = by_size_.lower_bound({size, 0}); fit != by_size_.end(); ++fit) {
      if (++looks == kMostLooks) fit = by_size_.lower_bound({size + alignment - 1, 0});
      if (fit == by_size_.end()) break;
      const auto [room, begin] = *fit;
      const Bytes offset = ((base_ + begin + alignment - 1) & ~(alignment - 1)) - base_;
      if (offset < begin || offset - begin > room - size) continue;
      // for the rest on both sides, and for the place of each piece taken so far
      stock(taken_ + 3);
      ++taken_;
      erase(begin, room);
      if (offset > begin) insert(begin, offset - begin);
      if (const Bytes end = offset + size; end < begin + room) insert(end, begin + room - end);
      return offset;
    }
    return std::nullopt;
  }

  /// As take(), of `pieces` neighbours, each of which is given back by itself.
  [[nodiscard]] std::optional<Bytes> take_run(Bytes size, Bytes pieces, Bytes alignment) {
    stock(taken_ + pieces + 2);
    const auto offset = take(size * pieces, alignment);
    if (offset) taken_ += pieces - 1;
    return offset;
  }

  /// Takes back what take() gave; neighbours join (I1: no two ranges touch).
  void give(Bytes offset, Bytes size) noexcept {
    --taken_;
    const auto next = by_offset_.lower_bound(offset);
    const Bytes next_size =
        next != by_offset_.end() && offset + size == next->first ? next->second : 0;
    if (next != by_offset_.begin()) {
      const auto [begin, length] = *std::prev(next);
      if (begin + length == offset) {
        erase(begin, length);
        offset = begin;
        size += length;
      }
    }
    if (next_size != 0) {
      erase(offset + size, next_size);
      size += next_size;
    }
    insert(offset, size);
  }

  /// A taken piece will never come back.
  void forget() noexcept { --taken_; }

  [[nodiscard]] bool is_all_free() const noexcept { return taken_ == 0; }
  [[nodiscard]] Bytes largest() const noexcept {
    return by_size_.empty() ? 0 : by_size_.rbegin()->first;
  }

 private:
  static constexpr unsigned kMostLooks = 64;
  using ByOffset = std::map<Bytes, Bytes>;
  using BySize = std::set<std::pair<Bytes, Bytes>>;

  // Keeps spare nodes for `count` more ranges, so that none has to be made when nothing may fail.
  void stock(std::size_t count) {
    make_room(spare_offsets_, by_offset_.size() + count);
    make_room(spare_sizes_, by_size_.size() + count);
    while (spare_offsets_.size() < count) {
      ByOffset made{{0, 0}};
      spare_offsets_.push_back(made.extract(made.begin()));
    }
    while (spare_sizes_.size() < count) {
      BySize made{{0, 0}};
      spare_sizes_.push_back(made.extract(made.begin()));
    }
  }
  // In steps: reserve() alone would make room for exactly as many, and move all of them each time.
  template <class Spares>
  static void make_room(Spares& spares, std::size_t count) {
    if (spares.capacity() < count) spares.reserve(2 * count);
  }
  void insert(Bytes offset, Bytes size) noexcept {
    auto place = std::move(spare_offsets_.back());
    spare_offsets_.pop_back();
    place.key() = offset;
    place.mapped() = size;
    by_offset_.insert(std::move(place));
    auto length = std::move(spare_sizes_.back());
    spare_sizes_.pop_back();
    length.value() = {size, offset};
    by_size_.insert(std::move(length));
  }
  void erase(Bytes offset, Bytes size) noexcept {
    spare_offsets_.push_back(by_offset_.extract(offset));
    spare_sizes_.push_back(by_size_.extract({size, offset}));
  }

  std::uintptr_t base_;
  std::size_t taken_ = 0;  // pieces that are out
  ByOffset by_offset_;     // offset to length
  BySize by_size_;         // length and offset of the same
  std::vector<ByOffset::node_type> spare_offsets_;
  std::vector<BySize::node_type> spare_sizes_;
};

}  // namespace gantry
