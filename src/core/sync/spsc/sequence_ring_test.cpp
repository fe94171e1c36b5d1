#include "core/sync/spsc/sequence_ring.hpp"

#include <gtest/gtest.h>

#include <array>
#include <thread>

// Property: whatever the writer puts in comes out once, whole and in order, however the two threads
// interleave. Method: records whose eight words all say the same number, so that a torn or early
// read shows; ThreadSanitizer sees a data race when an order is weakened. Seen to fail with [P] or
// [T] relaxed (tsan preset: data race), and with I3's check left out (the reader starves).
namespace gantry {
namespace {

struct Wide {
  std::array<std::uint64_t, 8> words;
};
using Cells = std::array<RingCell<Wide>, 8>;

struct Shared {
  Cells cells{};
  alignas(64) std::atomic<std::uint64_t> taken{0};
};

TEST(SequenceRing, StartsEmptyAndFillsUp) {
  Shared shared;
  RingWriter<Wide> writer(shared.cells);
  const RingReader<Wide> reader(shared.cells);
  EXPECT_FALSE(reader.ready());
  for (std::uint64_t i = 1; i <= shared.cells.size(); ++i)
    EXPECT_EQ(writer.publish([i](Wide& wide) { wide.words.fill(i); }), i);
  EXPECT_EQ(writer.unread(), shared.cells.size());
  EXPECT_TRUE(reader.ready());
}

TEST(SequenceRing, CountsWhatIsReady) {
  Shared shared;
  RingWriter<Wide> writer(shared.cells);
  RingReader<Wide> reader(shared.cells);
  EXPECT_EQ(reader.count_ready(), 0u);
  for (int i = 0; i < 3; ++i) writer.publish([](Wide&) {});
  EXPECT_EQ(reader.count_ready(), 3u);
  reader.take();
  EXPECT_EQ(reader.count_ready(), 2u);
  for (int i = 0; i < 5; ++i) writer.publish([](Wide&) {});
  EXPECT_EQ(reader.count_ready(), 7u) << "round the end";
  for (int i = 0; i < 7; ++i) reader.take();
  EXPECT_EQ(reader.count_ready(), 0u);
}

TEST(SequenceRing, RefusesAReaderThatLies) {
  Shared shared;
  RingWriter<Wide> writer(shared.cells);
  writer.publish([](Wide&) {});
  shared.taken = 2;  // ahead of the writer
  EXPECT_FALSE(writer.refresh(shared.taken));
  EXPECT_EQ(writer.unread(), 1u);
  shared.taken = 1;
  EXPECT_TRUE(writer.refresh(shared.taken));
  shared.taken = 0;  // backwards
  EXPECT_FALSE(writer.refresh(shared.taken));
  EXPECT_EQ(writer.unread(), 0u);
}

TEST(SequenceRing, DeliversEachRecordOnceWholeInOrder) {
  constexpr std::uint64_t kRecords = 200'000;
  Shared shared;
  std::thread writing([&shared] {
    RingWriter<Wide> writer(shared.cells);
    for (std::uint64_t i = 1; i <= kRecords; ++i) {
      while (writer.unread() == shared.cells.size()) {
        ASSERT_TRUE(writer.refresh(shared.taken));
        std::this_thread::yield();
      }
      writer.publish([i](Wide& wide) { wide.words.fill(i); });
    }
  });
  RingReader<Wide> reader(shared.cells);
  std::uint64_t wrong = 0;
  for (std::uint64_t i = 1; i <= kRecords; ++i) {
    while (!reader.ready()) std::this_thread::yield();
    for (const std::uint64_t word : reader.next().words) wrong += word != i;
    reader.take();
    wrong += reader.taken() != i;
    if (reader.unreported() > i % 8) reader.report(shared.taken);
  }
  writing.join();
  EXPECT_EQ(wrong, 0u);
  EXPECT_FALSE(reader.ready());
  reader.report(shared.taken);
  EXPECT_EQ(shared.taken, kRecords);
  EXPECT_EQ(reader.unreported(), 0u);
}

}  // namespace
}  // namespace gantry
