#pragma once  // channel/wire/record_to_send.hpp: a message as its producer puts it into the rings.

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <type_traits>

#include "core/channel/wire/format.hpp"
#include "core/sync/wait_flag.hpp"

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

/// Copies 1 to 48 bytes as two or three pieces of a known size, which may overlap: a few
/// instructions, where a copy of any size takes a call or `rep movsb`.
inline void copy_few(std::byte* to, const std::byte* from, Bytes count) noexcept {
  const auto both_ends = [&](auto size) {
    std::memcpy(to, from, size);
    std::memcpy(to + count - size, from + count - size, size);
  };
  if (count >= 16) {
    if (count > 32) std::memcpy(to + 16, from + 16, 16);
    both_ends(std::integral_constant<Bytes, 16>());
  } else if (count >= 8) {
    both_ends(std::integral_constant<Bytes, 8>());
  } else if (count >= 4) {
    both_ends(std::integral_constant<Bytes, 4>());
  } else {
    std::memcpy(to + count / 2, from + count / 2, 1);
    both_ends(std::integral_constant<Bytes, 1>());
  }
}

inline void write_small(MessageRecord& record, ConstByteSpan payload,
                        const MessageHeader& header) noexcept {
  static_assert(Message::kInlineBytes - kNearBytes <= 48 && kNearBytes <= 48);  // copy_few()
  if (payload.size() > kNearBytes) {
    copy_few(record.body.data() + kNearBytes, payload.data() + kNearBytes,
             payload.size() - kNearBytes);
    std::atomic_signal_fence(std::memory_order_seq_cst);  // keeps the compiler's order only
    std::memcpy(record.body.data(), payload.data(), kNearBytes);
  } else if (!payload.empty()) {
    copy_few(record.body.data(), payload.data(), payload.size());
  }
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
  Urgency urgency = Urgency::urgent;

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
