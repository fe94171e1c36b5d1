#pragma once  // channel/wire/received_record.hpp: a record out of the ring, copied and checked.

#include <vector>

#include "core/channel/wire/format.hpp"

namespace gantry {

/// A record as it was when it was copied: the producer cannot change it any more.
struct ReceivedRecord {
  MessageHeader header;
  Place place;
  RecordExtra extra;

  [[nodiscard]] PayloadLocation lies() const noexcept {
    return static_cast<PayloadLocation>(header.kind & kLocationMask);
  }
  [[nodiscard]] bool is_landing() const noexcept { return (header.kind & kLanding) != 0; }
  [[nodiscard]] bool is_streamed() const noexcept { return (header.kind & kStreamed) != 0; }
  [[nodiscard]] MessageInfo info() const noexcept;
};

/// Copies what counts of a record whose payload lies elsewhere. Errors: `peer_misbehaved` for
/// kinds, slots, counts and windows that no honest producer writes. Does not look up places.
[[nodiscard]] Result<ReceivedRecord> read_record(const MessageRecord& record);

/// Copies and checks a table's entries, except their places. `table`: kMaxSegments at most.
[[nodiscard]] Result<std::vector<SegmentEntry>> read_table(ConstByteSpan table);
/// The entry's tensor, if any. Errors: `peer_misbehaved` when it does not fit its bytes.
[[nodiscard]] Result<std::optional<Tensor>> tensor_of(const SegmentEntry& entry);

}  // namespace gantry
