#pragma once  // channel/queue/item_batch.hpp: several small items as one message.

#include <cstdint>
#include <gantry/call.hpp>
#include <optional>
#include <vector>

namespace gantry {

/// An item within a batch. A post names neither number nor tries: the queue gives them.
struct BatchItem {
  std::uint64_t number = 0;
  unsigned tries = 0;
  ConstByteSpan bytes;
};

/// Appends a copy. False: the bytes cannot be read.
[[nodiscard]] bool append_guarded(std::vector<std::byte>& to, ConstByteSpan bytes);

/// The two segments of a batch: the bytes of its items without gaps, and a table with an entry of
/// 16 bytes for each item.
class ItemBatch {
 public:
  /// False: the item is too large for a batch, or cannot be read, or this one is full.
  bool add(const BatchItem& item);
  [[nodiscard]] std::size_t size() const noexcept { return table_.size(); }
  /// The draft's bytes are this batch's.
  [[nodiscard]] Draft draft() const;

  /// The items that a peer wrote, at most `most`, each within `bytes`; empty: they are not such a
  /// batch. Reads `table` once, and does not look into `bytes`.
  [[nodiscard]] static std::optional<std::vector<BatchItem>> read(ConstByteSpan bytes,
                                                                  ConstByteSpan table,
                                                                  std::size_t most);

 private:
  struct Entry {
    std::uint64_t number = 0;
    std::uint32_t tries = 0;
    std::uint32_t bytes = 0;
  };
  static_assert(sizeof(Entry) == 16);

  std::vector<std::byte> bytes_;
  std::vector<Entry> table_;
};

}  // namespace gantry
