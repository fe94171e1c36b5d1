#pragma once  // channel/outgoing.hpp: a message as its producer puts it into the rings.

#include <algorithm>
#include <atomic>

#include "channel/format.hpp"

namespace gantry {

struct Outgoing {
  MessageHeader header{};
  Place place{};         // unless the payload lies here
  ConstByteSpan small;   // if it does
  RecordExtra extra{};   // with kExtra

  [[nodiscard]] bool is_here() const noexcept {
    return (header.kind & kLiesMask) == static_cast<std::uint8_t>(Lies::here);
  }

  /// Fills a cell in place. The far line first: the polled one is ours only for as long as it takes
  /// to fill it. Field by field, out of registers: a header put together in memory and read back as
  /// a whole would wait for its parts to leave the store buffer.
  void write(MessageRecord& record) const noexcept {
    if ((header.kind & kExtra) != 0) record.extra = extra;
    if (is_here())
      write_small(record);
    else
      write_place(record);
    record.header.number = header.number;
    record.header.ticks = header.ticks;
    record.header.user = header.user;
    record.header.type = header.type;
    record.header.slot = header.slot;
    record.header.kind = header.kind;
    record.header.count = header.count;
  }

 private:
  void write_small(MessageRecord& record) const noexcept {
    if (small.size() > kNearBytes)
      std::memcpy(record.body.data() + kNearBytes, small.data() + kNearBytes,
                  small.size() - kNearBytes);
    std::atomic_signal_fence(std::memory_order_seq_cst);  // for the compiler's eyes only
    if (!small.empty())
      std::memcpy(record.body.data(), small.data(), std::min(small.size(), kNearBytes));
  }
  void write_place(MessageRecord& record) const noexcept {
    if ((header.kind & kStreamed) != 0)
      std::memcpy(record.body.data() + kNearPlaceBytes, &place.window_bytes,
                  sizeof place.window_bytes);
    std::atomic_signal_fence(std::memory_order_seq_cst);  // as above
    std::memcpy(record.body.data(), &place, kNearPlaceBytes);
  }
};

}  // namespace gantry
