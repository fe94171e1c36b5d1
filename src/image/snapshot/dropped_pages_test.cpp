#include "image/snapshot/fault_source.hpp"

#include <sys/mman.h>

#include <atomic>
#include <thread>

#include "core/base/test_effort.hpp"
#include "image/load/test_gated_file_io.hpp"
#include "image/snapshot/test_snapshot.hpp"

// What a program gives back (MADV_DONTNEED) is zero from then on, whether it was there or not.
namespace gantry {
namespace {

using namespace test;

class Dropping : public Snapshots {
 protected:
  static constexpr std::uint64_t kPages = 2 * kChunkPages;
  static bool drop(std::byte* memory, std::uint64_t page, std::uint64_t pages = 1) {
    return ::madvise(memory + page * kPageBytes, pages * kPageBytes, MADV_DONTNEED) == 0;
  }
  /// Those in [from, end) are zero, the others say their number.
  static void expect_dropped(ConstByteSpan memory, std::uint64_t from, std::uint64_t end) {
    for (std::uint64_t page = 0; page < memory.size() / kPageBytes; ++page) {
      const bool is_dropped = page >= from && page < end;
      ASSERT_EQ(number_at(memory, page), is_dropped ? 0 : page + 1);
    }
  }
};

TEST_F(Dropping, WhatIsNotThereIsZeroAtOnceAndStaysSo) {
  save_numbered(kPages, some_pages(kPages, 100, 4));
  const auto io = std::make_shared<GatedFileIo>(0);
  const auto restored = Snapshot::restore(path_, lazily(io, 1));
  ASSERT_TRUE(restored) << to_string(restored.error());
  const ByteSpan memory = must(restored->region("heap"));
  ASSERT_TRUE(drop(memory.data(), 21, 500));
  for (const std::uint64_t page : {21, 300, 520}) EXPECT_EQ(number_at(memory, page), 0u);
  memory[21 * kPageBytes] = std::byte{22};  // what is written then stays, too
  io->allow(1000);
  const auto done = restored->wait();
  ASSERT_TRUE(done) << to_string(done.error());
  EXPECT_EQ(number_at(memory, 21), 22u);
  memory[21 * kPageBytes] = std::byte{0};
  expect_dropped(memory, 21, 521);
}

TEST_F(Dropping, WhoSleepsOnAPageThatIsDroppedSeesZeros) {
  save_numbered(kPages);
  const auto io = std::make_shared<GatedFileIo>(0);
  const auto restored = Snapshot::restore(path_, lazily(io, 1));
  ASSERT_TRUE(restored) << to_string(restored.error());
  const ByteSpan memory = must(restored->region("heap"));
  std::atomic<std::uint64_t> seen = 77;
  std::jthread sleeper([&] { seen = number_at(memory, kChunkPages + 9); });
  io->wait_for_asked(2);  // it was touched
  ASSERT_TRUE(drop(memory.data(), kChunkPages + 9));
  io->allow(1000);
  ASSERT_TRUE(restored->wait());
  sleeper.join();
  EXPECT_EQ(seen, 0u);
  expect_dropped(memory, kChunkPages + 9, kChunkPages + 10);
}

// Each thread gives back pages of its own while others are made, and looks at once.
TEST_F(Dropping, NoPageComesBackWhileThreadsDropThem) {
  save_numbered(kPages, some_pages(kPages, 300, 7));
  for (unsigned round = 0; round < 15; ++round) {
    const auto restored = Snapshot::restore(path_, lazily());
    ASSERT_TRUE(restored) << to_string(restored.error());
    const ByteSpan memory = must(restored->region("heap"));
    const auto dropped = some_pages(kPages, 400, round);
    std::atomic<unsigned> old = 0, failed = 0;
    {
      std::vector<std::jthread> threads;
      for (std::size_t t = 0; t < 3; ++t)
        threads.emplace_back([&, t] {
          for (std::size_t i = t; i < dropped.size(); i += 3) {
            if (!drop(memory.data(), dropped[i])) ++failed;
            if (i % 2 == 0 && number_at(memory, dropped[i]) != 0) ++old;
          }
        });
    }
    const auto done = restored->wait();
    ASSERT_TRUE(done) << to_string(done.error());
    EXPECT_EQ(failed, 0u);
    EXPECT_EQ(old, 0u);
    std::vector<bool> is_dropped(kPages);
    for (const std::uint64_t page : dropped) is_dropped[page] = true;
    for (std::uint64_t page = 0; page < kPages; ++page)
      ASSERT_EQ(number_at(memory, page), is_dropped[page] ? 0 : page + 1) << round;
  }
}

// The kernel lets whoever drops pages wait until somebody reads that.
TEST_F(Dropping, NobodyWaitsForAWatchThatEnds) {
  save_numbered(64);
  for (unsigned round = 0; round < 200; round += kTestStride) {
    auto restored = Snapshot::restore(path_, lazily({}, 1));
    ASSERT_TRUE(restored) << to_string(restored.error());
    std::byte* const memory = must(restored->region("heap")).data();
    std::atomic<bool> goes_on = true;
    std::jthread dropping([&] {
      do {
        static_cast<void>(drop(memory, 63));
        std::this_thread::yield();  // otherwise it can keep the loader from its pages for minutes
      } while (goes_on);
    });
    ASSERT_TRUE(restored->wait());
    goes_on = false;
    dropping.join();
    expect_dropped({memory, 64 * kPageBytes}, 63, 64);
  }
}

TEST_F(Dropping, WhatWasDroppedIsNotPoisonedWhenLoadingFails) {
  save_numbered(kPages);
  const auto io = std::make_shared<GatedFileIo>(0);
  RestoreOptions options = lazily(io, 1);
  options.deadline = Deadline::after(std::chrono::milliseconds(200));
  const auto restored = Snapshot::restore(path_, options);
  ASSERT_TRUE(restored) << to_string(restored.error());
  const ByteSpan memory = must(restored->region("heap"));
  ASSERT_TRUE(drop(memory.data(), 5, 3));
  EXPECT_EQ(restored->wait().error().code, Code::timed_out);
  for (const std::uint64_t page : {5, 6, 7}) EXPECT_EQ(number_at(memory, page), 0u);
}

TEST(DroppedPages, CountsUpToTheFirst) {
  const auto pages = must(snapshot::DroppedPages::make(300));
  EXPECT_EQ(pages->kept_from(7, 293), 293u);
  const std::lock_guard lock(*pages);
  pages->add(60, 70);
  pages->add(299, 1000);  // only one of them exists
  for (std::uint64_t page = 0; page < 300; ++page)
    EXPECT_EQ(pages->has(page), (page >= 60 && page < 130) || page == 299) << page;
  EXPECT_FALSE(pages->has(300));
  EXPECT_EQ(pages->kept_from(0, 300), 60u);
  EXPECT_EQ(pages->kept_from(130, 10), 10u);
  EXPECT_EQ(pages->kept_from(130, 170), 169u);
  EXPECT_EQ(pages->kept_from(64, 1), 0u);
  pages->add(400, 3);
  EXPECT_EQ(pages->kept_from(0, 60), 60u);
}

}  // namespace
}  // namespace gantry
