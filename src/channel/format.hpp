#pragma once  // channel/format.hpp: the two shared pages of a channel. docs/formats/channel.md

#include <array>
#include <bit>
#include <cstddef>
#include <gantry/channel.hpp>

#include "sync/doorbell.hpp"
#include "sync/spsc/release_board.hpp"
#include "sync/spsc/sequence_ring.hpp"

namespace gantry {

inline constexpr std::uint32_t kFormatVersion = 1;
inline constexpr std::uint64_t kProducerMagic = 0x31444f5250544e47;  // "GNTPROD1"
inline constexpr std::uint64_t kConsumerMagic = 0x31534e4f43544e47;  // "GNTCONS1"
inline constexpr unsigned kMaxSlots = ChannelOptions::kMaxSlots;
/// Cells that a channel of `slots` uses, a power of two: at least twice the slots, as so many small
/// messages without a slot may be unread when all loans come; and no more, so that they stay in the
/// nearest cache.
[[nodiscard]] constexpr std::size_t cells_for(std::size_t slots) noexcept {
  return std::bit_ceil(2 * slots);
}
inline constexpr std::size_t kCells = cells_for(kMaxSlots);

/// `slot` of a record whose payload is in the record itself.
inline constexpr std::uint32_t kNoSlot = 0xffffffff;

/// Where a message lies.
struct MessageHeader {
  std::uint64_t ticks;   // when it was published, Meter::ticks(); 0: not timed
  std::uint64_t bytes;   // payload
  std::uint64_t offset;  // in the slab
  std::uint32_t slab;    // pool's slab number
  std::uint32_t slot;    // credit it holds, or kNoSlot
};

/// A whole message in the ring itself; anything else needs a slot and a slab.
[[nodiscard]] constexpr bool is_small(const MessageHeader& header) noexcept {
  return header.slot == kNoSlot && header.bytes <= Message::kInlineBytes;
}

/// Reading the time twice would be a quarter of a small message's whole cost: of these every
/// eighth is timed.
inline constexpr std::uint64_t kTimedEvery = 8;
[[nodiscard]] constexpr bool is_timed(const MessageHeader& header,
                                      std::uint64_t sequence) noexcept {
  return header.slot != kNoSlot || sequence % kTimedEvery == 1;
}

/// What the ring carries. The header and the first bytes of a small payload share the cache line
/// that the reader polls.
struct MessageRecord {
  MessageHeader header;
  std::array<std::byte, Message::kInlineBytes> small;  // the payload, when there is no slot
  std::array<std::byte, 24> reserved;
};
using MessageCell = RingCell<MessageRecord>;

/// So much of a small payload lies in the polled line.
inline constexpr Bytes kNearBytes = 64 - 8 - sizeof(MessageHeader);

/// Written by the producer, mapped read-only by the consumer.
struct ProducerPage {
  // Constant from before it is shared.
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t slots;
  // 0 while the stream goes on; then 1 + the sequence of the last message. Written once. [E]
  alignas(64) std::atomic<std::uint64_t> end;
  alignas(64) SleepIntent producer_sleeps;  // waits for a credit, or for the stream's last taking
  std::array<MessageCell, kCells> cells;    // aligned by themselves
};

/// Written by the consumer, mapped read-only by the producer.
struct ConsumerPage {
  std::uint64_t magic;
  std::uint32_t version;
  alignas(64) std::atomic<std::uint64_t> taken;  // sequence of the newest message taken. [T]
  alignas(64) SleepIntent consumer_sleeps;       // waits for a message
  // By slot: the sequence of the newest message released from it. [R]
  alignas(64) ReleaseBoard<kMaxSlots> released;
};

// Other processes, perhaps of another build, read these: change one and kFormatVersion changes.
static_assert(sizeof(MessageCell) == 128 && alignof(MessageCell) == 128);
static_assert(offsetof(MessageCell, record) == 8);
static_assert(sizeof(MessageHeader) == 32 && offsetof(MessageRecord, small) == 32);
static_assert(offsetof(ProducerPage, end) == 64);
static_assert(offsetof(ProducerPage, producer_sleeps) == 128);
static_assert(offsetof(ProducerPage, cells) == 256);
static_assert(sizeof(ProducerPage) == 256 + 128 * 128);
static_assert(offsetof(ConsumerPage, taken) == 64);
static_assert(offsetof(ConsumerPage, consumer_sleeps) == 128);
static_assert(offsetof(ConsumerPage, released) == 192);
static_assert(sizeof(ConsumerPage) == 192 + 512);

inline constexpr Bytes kPageGrain = 4096;
[[nodiscard]] constexpr Bytes shared_size(Bytes size) noexcept {
  return (size + kPageGrain - 1) / kPageGrain * kPageGrain;
}

}  // namespace gantry
