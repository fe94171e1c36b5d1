#pragma once  // channel/wire/format.hpp: the shared pages of a channel. docs/formats/channel.md

#include <array>
#include <bit>
#include <chrono>
#include <cstddef>
#include <gantry/channel.hpp>
#include <optional>

#include "core/channel/wire/end_name.hpp"
#include "core/sync/spsc/release_board.hpp"
#include "core/sync/spsc/revocable_ring.hpp"
#include "core/sync/wait_flag.hpp"

namespace gantry {

inline constexpr std::uint32_t kFormatVersion = 12;
inline constexpr std::uint64_t kProducerMagic = 0x38444f5250544e47;  // "GNTPROD8"
inline constexpr std::uint64_t kRingMagic = 0x38474e4952544e47;      // "GNTRING8"
inline constexpr std::uint64_t kConsumerMagic = 0x38534e4f43544e47;  // "GNTCONS8"
inline constexpr unsigned kMaxSlots = ProducerOptions::kMaxSlots;
inline constexpr unsigned kMaxConsumers = ProducerOptions::kMaxConsumers;
/// Cells of a consumer with `slots` credits, a power of two. It is at least twice as many, since so
/// many small messages without a slot may be unread when all loans come; and no more, so that the
/// cells stay in the nearest cache.
[[nodiscard]] constexpr std::size_t cells_for(std::size_t slots) noexcept {
  return std::bit_ceil(2 * slots);
}
inline constexpr std::size_t kCells = cells_for(kMaxSlots);

// ---- a message in the ring -----------------------------------------------------------------

/// `slot` of a record that has its payload in itself.
inline constexpr std::uint16_t kNoSlot = 0xffff;

/// Where the payload is; the low bits of MessageHeader::kind.
enum class PayloadLocation : std::uint8_t {
  here,    ///< In the record; `count` bytes.
  block,   ///< One segment, at `place`.
  table,   ///< `count` segments; `place` has as many SegmentEntry, one behind the other.
  beside,  ///< In the producer page, at a BesidePlace; it holds no slot. `count`: 0, or of its
           ///< tensor, a BesideTensor, 1 and the dimensions.
};
inline constexpr std::uint8_t kLocationMask = 0x0f;
inline constexpr std::uint8_t kLanding = 0x10;  ///< It still lands, see LandingWord; else it is
                                                ///< whole.
inline constexpr std::uint8_t kStreamed =
    0x20;  ///< It lands through a window. With PayloadLocation::block, or a table of one
           ///< segment, whose Place has the whole message's bytes and its window.
inline constexpr std::uint8_t kExtra = 0x40;  ///< MessageRecord::extra is set.
inline constexpr std::uint8_t kKnownKinds = kLocationMask | kLanding | kStreamed | kExtra;

struct MessageHeader {
  std::uint64_t number;  // of the message in its channel, from 1
  std::uint64_t ticks;   // time of publication, Meter::ticks(); 0: not timed
  std::uint64_t user;
  std::uint32_t type;
  std::uint16_t slot;  // the slot it holds, or kNoSlot
  std::uint8_t kind;
  std::uint8_t count;
};

/// True if the record has the whole message and nothing else.
[[nodiscard]] constexpr bool is_small(const MessageHeader& header) noexcept {
  return (header.kind & ~kExtra) == 0 && header.count <= Message::kInlineBytes;
}
/// True if the payload lies beside the record, whole.
[[nodiscard]] constexpr bool is_beside(const MessageHeader& header) noexcept {
  return (header.kind & ~kExtra) == static_cast<std::uint8_t>(PayloadLocation::beside);
}

/// Least chunk of a streamed message; smaller ones would cost the receiver more time than bytes.
inline constexpr Bytes kLeastChunk = 4096;

/// Where a payload in a slab lies.
struct Place {
  std::uint64_t offset;
  // size of the payload; streamed: of the whole message, the window being smaller
  std::uint64_t bytes;
  std::uint32_t slab;
  std::uint32_t chunk_bytes;   // streamed: kLeastChunk or more
  std::uint64_t window_bytes;  // streamed: a multiple of chunk_bytes; chunk k begins at
                               // k * chunk_bytes % window_bytes
};
inline constexpr Bytes kNearPlaceBytes = offsetof(Place, window_bytes);

/// Payloads that lie beside the records, each in one of the places in turn, for at most
/// kBesideReaders.
inline constexpr Bytes kBesideBytes = PayloadOptions::kMaxCellBytes;
inline constexpr std::uint32_t kBesidePlaces = 72;
inline constexpr std::size_t kBesideReaders = 4;
// No reader keeps more than its credits and the message that it looks at; one more is written.
static_assert(kBesidePlaces >= kMaxSlots + 2);
struct BesidePlace {
  std::uint32_t place;
  std::uint32_t bytes;
};
/// Behind the place: a tensor without gaps, row by row. Others go by a table.
inline constexpr unsigned kBesideDimensions = 3;
struct BesideTensor {
  DataType type;
  std::array<std::uint32_t, kBesideDimensions> shape;
};

struct RecordExtra {
  std::uint64_t correlation;
  std::uint64_t deadline_ns;
  std::uint64_t reserved;
};

/// A record of the ring. The header and the first bytes of a small payload, or the place of a large
/// one, share the cache line that the consumer polls.
struct MessageRecord {
  MessageHeader header;
  std::array<std::byte, Message::kInlineBytes>
      body;  // PayloadLocation::here: the payload; else a Place
  RecordExtra extra;
};
using MessageCell = RingCell<MessageRecord>;

/// Bytes of a body that lie in the polled line.
inline constexpr Bytes kNearBytes = 64 - 8 - sizeof(MessageHeader);
inline constexpr Bytes kNearRecordBytes = sizeof(MessageHeader) + kNearBytes;
static_assert(kNearPlaceBytes == kNearBytes);
static_assert(sizeof(BesidePlace) + sizeof(BesideTensor) == kNearBytes);

/// One segment of a table. `dimensions` above Tensor::kMaxDimensions: it has no tensor.
struct SegmentEntry {
  std::uint64_t offset;
  std::uint64_t bytes;
  std::uint32_t slab;
  DataType type;
  std::uint64_t dimensions;
  std::array<std::int64_t, Tensor::kMaxDimensions> shape;
  std::array<std::int64_t, Tensor::kMaxDimensions> strides;
};
inline constexpr std::uint64_t kNoTensor = ~std::uint64_t{0};

/// Every eighth small message is timed: reading the time twice would be a quarter of its whole
/// cost.
inline constexpr std::uint64_t kTimedEvery = 8;
[[nodiscard]] constexpr bool is_timed(std::uint16_t slot, std::uint64_t number) noexcept {
  return slot != kNoSlot || number % kTimedEvery == 1;
}

// ---- progress of a landing message ---------------------------------------------------------

/// How many bytes of message `number` have landed, from the front; with kAborted no more will. The
/// producer writes it while the slot is lent; begin() comes before the record is published.
/// Pair [L]: the bytes before the word. The word is also half of a sleep handshake
/// (sync/wait_flag.hpp), hence seq_cst; but not where a message of at most kQuietLanding lands in
/// part. Its reader may sleep through that, and so looks again by itself after kQuietLook. [Q]
/// A slot of a consumer that was cut off is lent again while the consumer may still look here: it
/// believes the word only if the number, read after it, is its message's. [N]
inline constexpr Bytes kQuietLanding = Bytes{64} << 10;
inline constexpr std::chrono::milliseconds kQuietLook{1};
struct alignas(64) LandingWord {
  static constexpr std::uint64_t kAborted = std::uint64_t{1} << 63;
  std::atomic<std::uint64_t> word{0};
  std::atomic<std::uint64_t> number{0};

  void begin(std::uint64_t message) noexcept {
    number.store(message, std::memory_order_relaxed);  // [N] the word's release carries it
    word.store(0, std::memory_order_release);          // [N]
  }
  /// Nothing: the slot belongs to another message by now.
  [[nodiscard]] std::optional<std::uint64_t> read(std::uint64_t message) const noexcept {
    const std::uint64_t seen = word.load(std::memory_order_seq_cst);  // [L] [N]
    if (number.load(std::memory_order_relaxed) != message) return std::nullopt;
    return seen;
  }
};

/// How many chunks of a streamed message its consumer is done with. It lies in the consumer's
/// memory. The low half of the word is the count; the high half is that of the message's number, so
/// that the count of the slot's last message is not taken for this one's. Pair [C]: the chunk's
/// reads before the word.
[[nodiscard]] constexpr std::uint64_t passed_word(std::uint64_t number,
                                                  std::uint64_t chunks) noexcept {
  return (number << 32) | (chunks & 0xffffffff);
}
/// Chunks passed of message `number`; 0 while the word is about another message.
[[nodiscard]] constexpr std::uint64_t chunks_passed(std::uint64_t word,
                                                    std::uint64_t number) noexcept {
  return (word >> 32) == (number & 0xffffffff) ? word & 0xffffffff : 0;
}

// ---- pages ---------------------------------------------------------------------------------

/// The producer writes it; every consumer maps it read-only.
struct ProducerPage {
  // Constant from before the page is shared.
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t slots;
  // it waits for a credit, or until all of the stream is taken
  alignas(64) WaitFlag producer_sleeps;
  std::array<LandingWord, kMaxSlots> landing;
  WireName who;  // for display
  // Left as the kernel made it, all zeros: a page takes memory when it is first used.
  alignas(4096) std::array<std::array<std::byte, kBesideBytes>, kBesidePlaces> beside;
};

/// The producer writes it for one consumer, which maps it read-only.
struct RingPage {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t cells;  // used, a power of two
  // 0 while the stream goes on; then 1 + the sequence of the last message. Written once. [E]
  alignas(64) std::atomic<std::uint64_t> end;
  std::atomic<std::uint64_t> revoked;    // newest ring sequence that was taken back. [V]
  std::array<MessageCell, kCells> ring;  // aligned by its type
};

/// A consumer writes it; the producer maps it read-only.
/// Pair [Q]: a reader that looks at a place stores `looking` before `taken`, and 0 after its last
/// read. A producer that reads `taken` and then `looking` sees each look that has not ended.
struct ConsumerPage {
  std::uint64_t magic;
  std::uint32_t version;
  alignas(64) std::atomic<std::uint64_t> taken;  // ring sequence of the newest message taken. [T]
  std::atomic<std::uint64_t> missed;  // messages that were in its ring and that it never got
  // Number of the message at whose place it looks although it counts as taken; 0: none. [Q]
  std::atomic<std::uint64_t> looking;
  alignas(64) WaitFlag consumer_sleeps;  // it waits for a message, or for it to land
  // By slot: number of the newest message released from it. [R]
  alignas(64) ReleaseBoard<kMaxSlots> released;
  alignas(64) std::array<std::atomic<std::uint64_t>, kMaxSlots> passed;  // passed_word(). [C]
  // Packets about slabs that it has taken in; it no longer maps a slab that is gone. Half of a
  // sleep handshake, hence seq_cst. [K]
  alignas(64) std::atomic<std::uint64_t> heard;
  alignas(64) WireName who;  // for display
};

// Other processes, perhaps of another build, read these: if one changes, kFormatVersion changes.
static_assert(sizeof(MessageHeader) == 32 && sizeof(Place) == 32 && sizeof(RecordExtra) == 24);
static_assert(offsetof(MessageRecord, body) == 32 && offsetof(MessageRecord, extra) == 96);
static_assert(sizeof(MessageCell) == 128 && alignof(MessageCell) == 128);
static_assert(offsetof(MessageCell, record) == 8);
static_assert(sizeof(SegmentEntry) == 160 && offsetof(SegmentEntry, shape) == 32);
static_assert(offsetof(ProducerPage, producer_sleeps) == 64);
static_assert(offsetof(ProducerPage, landing) == 128);
static_assert(offsetof(ProducerPage, who) == 128 + 64 * 64);
static_assert(offsetof(ProducerPage, beside) == 8192);
static_assert(sizeof(ProducerPage) == 8192 + 72 * 4096);
static_assert(offsetof(RingPage, end) == 64 && offsetof(RingPage, revoked) == 72);
static_assert(offsetof(RingPage, ring) == 128);
static_assert(sizeof(RingPage) == 128 + 128 * 128);
static_assert(sizeof(BesidePlace) == 8 && kBesideBytes == 4096);
static_assert(offsetof(ConsumerPage, taken) == 64 && offsetof(ConsumerPage, missed) == 72);
static_assert(offsetof(ConsumerPage, looking) == 80);
static_assert(offsetof(ConsumerPage, consumer_sleeps) == 128);
static_assert(offsetof(ConsumerPage, released) == 192);
static_assert(offsetof(ConsumerPage, passed) == 704);
static_assert(offsetof(ConsumerPage, heard) == 1216);
static_assert(offsetof(ConsumerPage, who) == 1280);
static_assert(sizeof(ConsumerPage) == 1280 + 256);

/// The least size to which shared memory is rounded up. Its maker may round up to larger pages of
/// its own machine (Region::import).
inline constexpr Bytes kPageGrain = 4096;
[[nodiscard]] constexpr Bytes shared_size(Bytes size) noexcept {
  return (size + kPageGrain - 1) / kPageGrain * kPageGrain;
}

}  // namespace gantry
