#include "core/channel/wire/received_record.hpp"

#include <cstring>

#include "core/base/result.hpp"

namespace gantry {
namespace {

tl::unexpected<Error> misbehaved(std::string what) {
  return fail(Code::peer_misbehaved, std::move(what));
}

// One segment: a window has no room for more.
bool may_be_streamed(const MessageHeader& header) {
  const auto lies = static_cast<PayloadLocation>(header.kind & kLocationMask);
  return lies == PayloadLocation::block || (lies == PayloadLocation::table && header.count == 1);
}

Result<void> check_kind(const MessageHeader& header) {
  const auto lies = header.kind & kLocationMask;
  const bool streamed = (header.kind & kStreamed) != 0;
  const bool landing = (header.kind & kLanding) != 0;
  if ((header.kind & ~kKnownKinds) != 0 || lies > static_cast<int>(PayloadLocation::table) ||
      (streamed && !landing) || (streamed && !may_be_streamed(header)))
    return misbehaved(fmt::format("a message of the unknown kind {:#x} with {} segments",
                                  header.kind, header.count));
  if (lies == static_cast<int>(PayloadLocation::here))
    return misbehaved(fmt::format("a small message of {} bytes; at most {} are allowed",
                                  header.count, Message::kInlineBytes));
  if (header.slot >= kMaxSlots)
    return misbehaved(fmt::format("slot {}; 0 to {} are allowed", header.slot, kMaxSlots - 1));
  return {};
}

Result<void> check_window(const Place& place) {
  if (place.chunk_bytes < kLeastChunk || place.window_bytes == 0 ||
      place.window_bytes % place.chunk_bytes != 0)
    return misbehaved(
        fmt::format("a window of {} bytes in chunks of {}; whole chunks of at least {} are allowed",
                    place.window_bytes, place.chunk_bytes, kLeastChunk));
  return {};
}

}  // namespace

MessageInfo ReceivedRecord::info() const noexcept {
  MessageInfo info;
  info.sequence = header.number;
  info.user = header.user;
  info.type = header.type;
  info.sent_ticks = header.ticks;
  if ((header.kind & kExtra) != 0) {
    info.correlation = extra.correlation;
    info.deadline_ns = extra.deadline_ns;
  }
  return info;
}

Result<ReceivedRecord> read_record(const MessageRecord& record) {
  ReceivedRecord received{};
  std::memcpy(&received.header, &record.header, sizeof received.header);
  GANTRY_TRY(check_kind(received.header));
  std::memcpy(&received.place, record.body.data(), kNearPlaceBytes);
  if ((received.header.kind & kExtra) != 0)
    std::memcpy(&received.extra, &record.extra, sizeof received.extra);
  if (received.is_streamed()) {
    std::memcpy(&received.place, record.body.data(), sizeof received.place);
    GANTRY_TRY(check_window(received.place));
  }
  if (received.lies() == PayloadLocation::table && !received.is_streamed() &&
      (received.header.count == 0 || received.header.count > kMaxSegments ||
       received.place.bytes != received.header.count * sizeof(SegmentEntry)))
    return misbehaved(fmt::format(
        "a table of {} segments in {} bytes; 1 to {} of {} bytes each are allowed",
        received.header.count, received.place.bytes, kMaxSegments, sizeof(SegmentEntry)));
  return received;
}

Result<std::vector<SegmentEntry>> read_table(ConstByteSpan table) {
  std::vector<SegmentEntry> entries(table.size() / sizeof(SegmentEntry));
  if (entries.empty()) return entries;
  std::memcpy(entries.data(), table.data(), entries.size() * sizeof(SegmentEntry));
  Bytes total = 0;
  for (const SegmentEntry& entry : entries)
    if (__builtin_add_overflow(total, entry.bytes, &total))
      return misbehaved("a table of segments with more than 2^64 bytes together");
  return entries;
}

Result<std::optional<Tensor>> tensor_of(const SegmentEntry& entry) {
  if (entry.dimensions == kNoTensor) return std::nullopt;
  Tensor tensor;
  tensor.type = entry.type;
  tensor.shape = entry.shape;
  tensor.strides = entry.strides;
  if (entry.dimensions > Tensor::kMaxDimensions)
    return misbehaved(fmt::format("a tensor of {} dimensions; at most {} are allowed",
                                  entry.dimensions, Tensor::kMaxDimensions));
  tensor.dimensions = static_cast<unsigned>(entry.dimensions);
  if (!tensor.fits(entry.bytes))
    return misbehaved(fmt::format("a tensor that does not fit its {} bytes", entry.bytes));
  return tensor;
}

}  // namespace gantry
