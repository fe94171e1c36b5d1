#pragma once  // memory/free_ranges.hpp: which parts of a slab are free; lowest address first.

#include <gantry/types.hpp>
#include <map>
#include <optional>

namespace gantry {

/// First fit from the bottom, so that the same warm pages serve again and the top stays untouched.
class FreeRanges {
 public:
  explicit FreeRanges(Bytes size) : size_(size) { ranges_.emplace(0, size); }

  /// The offset of `size` bytes, now taken.
  [[nodiscard]] std::optional<Bytes> take(Bytes size) {
    for (auto range = ranges_.begin(); range != ranges_.end(); ++range) {
      const auto [offset, room] = *range;
      if (room < size) continue;
      ranges_.erase(range);
      if (room > size) ranges_.emplace(offset + size, room - size);
      return offset;
    }
    return std::nullopt;
  }

  /// Takes back what take() gave; neighbours grow together (I1: no two ranges touch).
  void give(Bytes offset, Bytes size) {
    auto next = ranges_.lower_bound(offset);
    if (next != ranges_.end() && offset + size == next->first) {
      size += next->second;
      next = ranges_.erase(next);
    }
    if (next != ranges_.begin()) {
      const auto before = std::prev(next);
      if (before->first + before->second == offset) {
        before->second += size;
        return;
      }
    }
    ranges_.emplace(offset, size);
  }

  [[nodiscard]] bool is_all_free() const {
    return ranges_.size() == 1 && ranges_.begin()->second == size_;
  }

 private:
  Bytes size_;
  std::map<Bytes, Bytes> ranges_;  // offset to length
};

}  // namespace gantry
