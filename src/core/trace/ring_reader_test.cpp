#include "core/trace/ring_files.hpp"

#include <optional>
#include <random>

#include "core/base/test_effort.hpp"
#include "core/trace/test_traced.hpp"

namespace gantry::trace {
namespace {

using ::testing::SizeIs;

/// Copies of the cells of these events, one behind the other.
std::vector<std::byte> cells_of(ConstByteSpan bytes, std::uint64_t first, std::uint64_t head,
                                std::uint64_t cells) {
  std::vector<std::byte> copied;
  for (std::uint64_t number = first; number != head; ++number) {
    const auto cell = bytes.subspan(kHeaderBytes + (number & (cells - 1)) * sizeof(Ring::Cell),
                                    sizeof(Ring::Cell));
    copied.insert(copied.end(), cell.begin(), cell.end());
  }
  return copied;
}

/// What is read of a ring at one time, of its bytes and its head as read behind them.
Result<DecodedRing> decode_ring(ConstByteSpan bytes, std::uint64_t head_after,
                                const TimeScale& time) {
  auto reader = RingReader::of(bytes.first(std::min(bytes.size(), kHeaderBytes)), bytes.size());
  if (!reader) return tl::unexpected(reader.error());
  RingProgress now;
  std::memcpy(&now, bytes.data() + offsetof(RingHeader, head), sizeof now);
  const auto first = reader->begin(now);
  if (!first) return tl::unexpected(first.error());
  const auto cells = cells_of(bytes, *first, now.head, reader->cells());
  std::uint64_t room = RecordingOptions::kMostEvents;
  reader->take({*first, cells, head_after}, true, room);
  return reader->finish(time);
}

class Decoded : public Traced {
 protected:
  Decoded() {
    const Recording recording = record();
    EndTrace end;
    end.join(directory_, EndKind::producer, "c");
    for (std::uint64_t i = 1; i <= 100; ++i) send(end, i);
    bytes_ = ring_bytes();
  }
  /// Whatever it says, it is little, and made of what is there.
  static void expect_sane(const Result<DecodedRing>& ring) {
    if (!ring) {
      EXPECT_EQ(ring.error().code, Code::invalid_argument);
      return;
    }
    EXPECT_LE(ring->track.events.size(), 64u);
    EXPECT_EQ(ring->track.lost, ring->track.written - ring->track.events.size());
    for (const Event& event : ring->track.events)
      EXPECT_LE(event.what.size(), Span::kMostName + kMostText);
  }
  std::vector<std::byte> bytes_;
};

TEST_F(Decoded, TheNewestEventsAreThere) {
  const auto ring = decode_ring(bytes_, head_of(bytes_), scale());
  ASSERT_TRUE(ring) << ring.error().message;
  EXPECT_THAT(ring->track.events, SizeIs(64));
  EXPECT_EQ(ring->track.lost, 36u);
}

// I3 of the ring: what may have been overwritten between the copy and the look at the head goes.
TEST_F(Decoded, WhatWasOverwrittenWhileItWasCopiedIsLost) {
  const auto ring = decode_ring(bytes_, head_of(bytes_) + 10, scale());
  ASSERT_TRUE(ring);
  EXPECT_THAT(ring->track.events, SizeIs(54));
  EXPECT_EQ(ring->track.events.front().message.sequence, 47u);
}

// All rings of a recording together have room for so many; the others are counted.
TEST_F(Decoded, WhatThereIsNoRoomForIsLost) {
  auto reader = RingReader::of(std::span(bytes_).first(kHeaderBytes), bytes_.size());
  ASSERT_TRUE(reader && reader->begin({.head = 100}) == 36u);
  const auto cells = cells_of(bytes_, 36, 100, 64);
  std::uint64_t room = 10;
  reader->take({36, cells, 100}, true, room);
  EXPECT_EQ(room, 0u);
  const DecodedRing ring = reader->finish(scale());
  ASSERT_THAT(ring.track.events, SizeIs(10));
  EXPECT_EQ(ring.track.events.front().message.sequence, 37u);
  EXPECT_EQ(ring.track.lost, 90u);
}

// A writer that is in the middle of an event is waited for; one that was killed there is not.
TEST_F(Decoded, AnEventThatIsNotWholeYetIsTakenLater) {
  for (const bool is_killed : {false, true}) {
    auto reader = RingReader::of(std::span(bytes_).first(kHeaderBytes), bytes_.size());
    ASSERT_TRUE(reader && reader->begin({.head = 80}) == 16u);
    const auto whole = cells_of(bytes_, 36, 100, 64);
    auto begun = whole;
    constexpr std::size_t kAt = 40;  // number 76
    std::memset(&begun[kAt * sizeof(Ring::Cell)], 0, sizeof(std::uint64_t));
    std::uint64_t room = 100;
    reader->take({36, ConstByteSpan(begun).first((kAt + 4) * sizeof(Ring::Cell)), 80}, false, room);
    ASSERT_TRUE(reader->begin({.head = 100}) == 76u);
    const auto& later = is_killed ? begun : whole;
    reader->take({76, ConstByteSpan(later).subspan(kAt * sizeof(Ring::Cell)), 100}, true, room);
    const DecodedRing ring = reader->finish(scale());
    EXPECT_THAT(ring.track.events, SizeIs(is_killed ? 63 : 64));
    EXPECT_EQ(ring.track.events[kAt].message.sequence, is_killed ? 78u : 77u);
  }
}

TEST_F(Decoded, OfEveryLengthItSaysSomethingSane) {
  for (std::size_t size = 0; size < bytes_.size(); size += size < 600 ? 1 : 61)
    expect_sane(decode_ring(std::span(bytes_).first(size), head_of(bytes_), scale()));
}

TEST_F(Decoded, OfBrokenBytesItSaysSomethingSane) {
  std::mt19937_64 random(test_seed(20));
  for (int turn = 0; turn < 20'000 / kTestStride; ++turn) {
    auto broken = bytes_;
    for (unsigned hits = 1 + random() % 8; hits > 0; --hits) {
      const std::size_t most = random() % 2 == 0 ? sizeof(RingHeader) : broken.size();
      broken[random() % most] = static_cast<std::byte>(random());
    }
    expect_sane(decode_ring(broken, random() % 2 == 0 ? head_of(broken) : random(), scale()));
  }
}

TEST_F(Decoded, OfRandomBytesItSaysSomethingSane) {
  std::mt19937_64 random(test_seed(21));
  std::vector<std::byte> noise(bytes_.size());
  for (int turn = 0; turn < 200 / kTestStride; ++turn) {
    for (std::byte& byte : noise) byte = static_cast<std::byte>(random());
    std::memcpy(noise.data(), bytes_.data(), 16);  // magic, version, cells
    expect_sane(decode_ring(noise, random(), scale()));
  }
}

}  // namespace
}  // namespace gantry::trace
