#pragma once  // channel/wire/record_to_send.hpp: a message as its producer puts it into the rings.

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>

#include "core/channel/wire/format.hpp"

namespace gantry {

// The far line of a cell is written first: the polled line is ours only for as long as it takes to
// fill it. Headers are written field by field, out of registers: a header put together in memory
// and read back as a whole would wait for its parts to leave the store buffer.

inline void write_header(MessageRecord& record, const MessageHeader& header) noexcept {
  record.header.number = header.number;
  record.header.ticks = header.ticks;
  record.header.user = header.user;
  record.header.type = header.type;
  record.header.slot = header.slot;
  record.header.kind = header.kind;
  record.header.count = header.count;
}

inline void write_small(MessageRecord& record, ConstByteSpan payload,
                        const MessageHeader& header) noexcept {
  if (payload.size() > kNearBytes)
    std::memcpy(record.body.data() + kNearBytes, payload.data() + kNearBytes,
                payload.size() - kNearBytes);
  std::atomic_signal_fence(std::memory_order_seq_cst);  // keeps the compiler's order only
  if (!payload.empty())
    std::memcpy(record.body.data(), payload.data(), std::min(payload.size(), kNearBytes));
  write_header(record, header);
}

/// The same for a payload in a body of its own: copies of a known size take a few instructions.
inline void write_small(MessageRecord& record,
                        const std::array<std::byte, Message::kInlineBytes>& body,
                        const MessageHeader& header) noexcept {
  if (header.count > kNearBytes)
    std::memcpy(record.body.data() + kNearBytes, body.data() + kNearBytes,
                body.size() - kNearBytes);
  std::atomic_signal_fence(std::memory_order_seq_cst);  // as above
  std::memcpy(record.body.data(), body.data(), kNearBytes);
  write_header(record, header);
}

struct RecordToSend {
  MessageHeader header{};
  Place place{};        // unless the payload is in the record
  ConstByteSpan small;  // if it is
  RecordExtra extra{};  // with kExtra

  [[nodiscard]] bool is_here() const noexcept {
    return (header.kind & kLocationMask) == static_cast<std::uint8_t>(PayloadLocation::here);
  }

  /// Fills a cell in place.
  void write(MessageRecord& record) const noexcept {
    if ((header.kind & kExtra) != 0) record.extra = extra;
    if (is_here()) return write_small(record, small, header);
    if ((header.kind & kStreamed) != 0)
      std::memcpy(record.body.data() + kNearPlaceBytes, &place.window_bytes,
                  sizeof place.window_bytes);
    std::atomic_signal_fence(std::memory_order_seq_cst);  // as above
    std::memcpy(record.body.data(), &place, kNearPlaceBytes);
    write_header(record, header);
  }
};

}  // namespace gantry
