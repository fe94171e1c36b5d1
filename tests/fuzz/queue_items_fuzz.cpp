// Items of a queue of work that another process wrote: a batch of them, and the plain values of the
// Python package. Each is read within its bytes, in memory of exactly that size.
#include <memory>

#include "../bindings/python/core/item_code.h"
#include "core/channel/queue/item_batch.hpp"
#include "fuzz/input.hpp"

namespace {

using gantry::fuzz::require;

/// So that AddressSanitizer sees a byte too many.
class Exact {
 public:
  explicit Exact(std::span<const std::uint8_t> bytes)
      : copy_(std::make_unique<std::byte[]>(bytes.size())), size_(bytes.size()) {
    if (!bytes.empty()) std::memcpy(copy_.get(), bytes.data(), bytes.size());
  }
  [[nodiscard]] gantry::ConstByteSpan bytes() const { return {copy_.get(), size_}; }

 private:
  std::unique_ptr<std::byte[]> copy_;
  std::size_t size_;
};

void read_batch(gantry::fuzz::Input input) {
  const std::size_t most = input.take<std::uint16_t>();
  const Exact table(input.take_bytes(input.take<std::uint16_t>())),
      bytes(input.take_bytes(1 << 20));
  const auto items = gantry::ItemBatch::read(bytes.bytes(), table.bytes(), most);
  if (!items) return;
  require(!items->empty() && items->size() <= most &&
          items->size() <= gantry::WorkMember::kMostBatched);
  const std::byte* at = bytes.bytes().data();
  for (const gantry::BatchItem& item : *items) {
    require(item.bytes.data() == at && item.bytes.size() <= gantry::WorkMember::kMostBatchedItem);
    at += item.bytes.size();
  }
  require(at == bytes.bytes().data() + bytes.bytes().size());
  // What was read is a batch that can be written, and is the same.
  gantry::ItemBatch again;
  for (const gantry::BatchItem& item : *items) require(again.add(item));
  const gantry::Draft draft = again.draft();
  const auto& parts = const_cast<gantry::Draft&>(draft).parts();
  require(std::ranges::equal(parts[0].bytes, bytes.bytes()) &&
          std::ranges::equal(parts[1].bytes, table.bytes()));
}

void read_values(gantry::fuzz::Input input) {
  const Exact bytes(input.take_bytes(kItemMost));
  const auto* const first = reinterpret_cast<const unsigned char*>(bytes.bytes().data());
  ItemReader reader{first, bytes.bytes().size()};
  ItemWriter writer;
  writer.size = 0;
  for (ItemValue value; item_next(&reader, &value) == 0;) {
    require(reader.left <= bytes.bytes().size());
    require(item_write(&writer, &value) == 0);  // it is as long as what was read
    require(writer.size == static_cast<std::size_t>(reader.at - first) &&
            std::memcmp(writer.bytes, first, writer.size) == 0);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  gantry::fuzz::Input input(data, size);
  if (input.take<std::uint8_t>() % 2 == 0)
    read_batch(input);
  else
    read_values(input);
  return 0;
}
