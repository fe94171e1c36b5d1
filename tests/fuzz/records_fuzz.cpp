// Records and tables as a hostile producer writes them: what is accepted must be in range.
#include "core/channel/wire/received_record.hpp"
#include "fuzz/input.hpp"

namespace {

using namespace gantry;
using fuzz::require;

__extension__ using Wide = unsigned __int128;

// Bits of so many numbers. Of groups there are whole ones, with all that Groups says is in one.
Wide bits_of(const DataType& type, Wide numbers) {
  const std::optional<Groups> groups = groups_of(type);
  if (!groups) return numbers * type.bits * type.lanes;
  require(numbers % groups->size == 0);
  const Wide scale = groups->scale == Groups::Scale::f32    ? 32
                     : groups->scale == Groups::Scale::e8m0 ? 8
                                                            : 16;
  return numbers / groups->size * (scale + (groups->zero_point ? 8 : 0)) + numbers * type.bits;
}

// The farthest byte, computed without the shortcuts of the code under test.
void check_tensor(const Tensor& tensor, Bytes bytes) {
  require(tensor.dimensions <= Tensor::kMaxDimensions);
  bool empty = false;
  for (unsigned i = 0; i < tensor.dimensions; ++i) {
    require(tensor.shape[i] >= 0 && tensor.strides[i] >= 0);
    empty = empty || tensor.shape[i] == 0;
  }
  if (empty) return;  // no element to be out of range, whatever the other dimensions are
  Wide last = 0;
  for (unsigned i = 0; i < tensor.dimensions; ++i) {
    last += Wide(static_cast<std::uint64_t>(tensor.shape[i] - 1)) *
            static_cast<std::uint64_t>(tensor.strides[i]);
    require(last >> 70 == 0);  // no sum of eight overflows then
  }
  require((bits_of(tensor.type, last + 1) + 7) / 8 <= bytes);
}

void check_record(const MessageRecord& record) {
  const auto received = read_record(record);
  if (!received) return;
  require(received->lies() == PayloadLocation::block || received->lies() == PayloadLocation::table);
  require(received->header.slot < kMaxSlots);
  const Place& place = received->place;
  if (received->is_streamed())
    require(place.chunk_bytes >= kLeastChunk && place.window_bytes != 0 &&
            place.window_bytes % place.chunk_bytes == 0 && received->is_landing());
  // Streamed, a table has one segment and `bytes` are the message's: of any number.
  if (received->lies() == PayloadLocation::table && received->is_streamed())
    require(received->header.count == 1);
  else if (received->lies() == PayloadLocation::table)
    require(place.bytes <= kMaxSegments * sizeof(SegmentEntry) && place.bytes != 0);
  require(received->info().sequence == record.header.number);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  check_record(input.take<MessageRecord>());
  const auto table = input.take_bytes(kMaxSegments * sizeof(SegmentEntry));
  const auto entries = read_table(std::as_bytes(table));
  if (!entries) return 0;
  require(entries->size() == table.size() / sizeof(SegmentEntry));
  for (const SegmentEntry& entry : *entries)
    if (const auto tensor = tensor_of(entry); tensor && *tensor)
      check_tensor(**tensor, entry.bytes);
  return 0;
}
