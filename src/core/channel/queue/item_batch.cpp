#include "core/channel/queue/item_batch.hpp"

#include <cstring>
#include <span>

#include "core/engine/fault_guard.hpp"

namespace gantry {

bool append_guarded(std::vector<std::byte>& to, ConstByteSpan bytes) {
  if (bytes.empty()) return true;
  const std::size_t before = to.size();
  to.resize(before + bytes.size());
  static_cast<void>(install_fault_guard());  // perhaps no engine has been used yet
  if (copy_guarded(to.data() + before, bytes.data(), bytes.size())) return true;
  to.resize(before);
  return false;
}

bool ItemBatch::add(const BatchItem& item) {
  const std::size_t size = item.bytes.size();
  if (size > WorkMember::kMostBatchedItem || table_.size() >= WorkMember::kMostBatched ||
      size > WorkMember::kMostBatchBytes - bytes_.size() || !append_guarded(bytes_, item.bytes))
    return false;
  table_.push_back({item.number, item.tries, static_cast<std::uint32_t>(size)});
  return true;
}

Draft ItemBatch::draft() const {
  Draft draft;
  draft.copy(bytes_).copy(std::as_bytes(std::span(table_)));
  return draft;
}

std::optional<std::vector<BatchItem>> ItemBatch::read(ConstByteSpan bytes, ConstByteSpan table,
                                                      std::size_t most) {
  const std::size_t count = table.size() / sizeof(Entry);
  if (count == 0 || count > std::min(most, WorkMember::kMostBatched) ||
      table.size() != count * sizeof(Entry) || bytes.size() > WorkMember::kMostBatchBytes)
    return std::nullopt;
  std::vector<BatchItem> items(count);
  for (std::size_t i = 0; i < count; ++i) {
    Entry entry;  // a copy: the peer may write to its table meanwhile
    std::memcpy(&entry, table.data() + i * sizeof entry, sizeof entry);
    if (entry.bytes > std::min<std::size_t>(bytes.size(), WorkMember::kMostBatchedItem))
      return std::nullopt;
    items[i] = {entry.number, entry.tries, bytes.first(entry.bytes)};
    bytes = bytes.subspan(entry.bytes);
  }
  if (!bytes.empty()) return std::nullopt;
  return items;
}

}  // namespace gantry
