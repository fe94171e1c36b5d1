#include <gantry/snapshot.hpp>

#include <gmock/gmock.h>
#include <sys/mman.h>

#include <atomic>
#include <thread>

#include "core/base/test_effort.hpp"
#include "image/load/test_gated_file_io.hpp"
#include "image/snapshot/test_snapshot.hpp"

// What restore() promises of pages that are there, and of those that are not yet.
namespace gantry {
namespace {

using namespace test;
using namespace std::chrono_literals;
using ::testing::ElementsAre;

/// Reads all pages in an order of its own, and compares.
void read_all(ConstByteSpan memory, const Data& wanted, unsigned seed) {
  for (const std::uint64_t page : some_pages((wanted.size() + kPageBytes - 1) / kPageBytes,
                                             (wanted.size() + kPageBytes - 1) / kPageBytes, seed)) {
    const Bytes at = page * kPageBytes;
    const Bytes bytes = std::min(kPageBytes, wanted.size() - at);
    EXPECT_EQ(std::memcmp(memory.data() + at, wanted.data() + at, bytes), 0) << "page " << page;
  }
}

/// How many of these pages, which count through all regions, are stored.
std::uint64_t not_zero(const std::vector<Data>& regions, const std::vector<std::uint64_t>& pages) {
  std::vector<bool> is_stored;
  for (const Data& region : regions)
    for (Bytes at = 0; at < region.size(); at += kPageBytes) {
      const auto page = std::span(region).subspan(at, std::min(kPageBytes, region.size() - at));
      is_stored.push_back(std::ranges::any_of(page, [](std::byte b) { return b != std::byte{0}; }));
    }
  return static_cast<std::uint64_t>(
      std::ranges::count_if(pages, [&](std::uint64_t page) { return is_stored[page]; }));
}

class Contents : public Snapshots, public ::testing::WithParamInterface<ImageOptions> {};

TEST_P(Contents, EveryByteOfManyPatternsAndWorkingSetsWhoeverTouchesThemFirst) {
  for (unsigned seed = 0; seed < 4; ++seed) {
    const std::vector<SnapshotRegion> regions{
        {"heap", (700 + seed * 613) * kPageBytes}, {"one", 1}, {"odd", 77 * kPageBytes + 13}};
    Snapshot made = must(Snapshot::create(regions));
    std::vector<Data> wanted;
    std::uint64_t pages = 0;
    for (const SnapshotRegion& region : regions) {
      fill(must(made.region(region.name)), seed * 10 + static_cast<unsigned>(wanted.size()));
      wanted.push_back(copy_of(must(made.region(region.name))));
      pages += (region.bytes + kPageBytes - 1) / kPageBytes;
    }
    const auto touched = some_pages(pages, seed * pages / 4, seed);  // none, some, most
    const auto saved = made.save(path_, {.packing = GetParam(), .touched = touched});
    if (!saved && saved.error().code == Code::unsupported) GTEST_SKIP() << saved.error().message;
    ASSERT_TRUE(saved) << to_string(saved.error());
    ASSERT_TRUE(must(Image::open(path_)).verify());
    for (const Lazy lazy : {Lazy::require, Lazy::no}) {
      const auto restored =
          Snapshot::restore(path_, {.lazy = lazy, .own_accesses_only = true, .workers = 1 + seed});
      ASSERT_TRUE(restored) << to_string(restored.error());
      {
        std::vector<std::jthread> readers;
        for (std::size_t i = 0; i < regions.size(); ++i)
          for (unsigned k = 0; k < 2; ++k)
            readers.emplace_back([&, i, k] {
              read_all(must(restored->region(regions[i].name)), wanted[i], seed + k);
            });
      }
      ASSERT_TRUE(restored->wait());
      EXPECT_FALSE(restored->error());
      const RestoreReport report = restored->report();
      EXPECT_EQ(report.bytes, pages * kPageBytes);
      EXPECT_EQ(report.first_bytes, not_zero(wanted, touched) * kPageBytes);
      EXPECT_EQ(report.loaded_bytes + report.zero_bytes, report.bytes);
      EXPECT_EQ(report.is_lazy, lazy == Lazy::require) << report.text();
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Packed, Contents,
                         ::testing::Values(ImageOptions{}, ImageOptions{Codec::lz4, 0, true},
                                           ImageOptions{Codec::zstd, 1, false},
                                           ImageOptions{std::nullopt, 0, false}));

TEST_F(Snapshots, WhatTheProgramWritesStaysWhileTheRestComes) {
  save_numbered(3 * kChunkPages);
  const auto restored = Snapshot::restore(path_, lazily());
  ASSERT_TRUE(restored) << to_string(restored.error());
  const ByteSpan memory = must(restored->region("heap"));
  for (const std::uint64_t page : some_pages(3 * kChunkPages, 200, 1))
    std::memset(memory.data() + page * kPageBytes + 8, 7, 100);  // what is before was saved
  ASSERT_TRUE(restored->wait());
  EXPECT_TRUE(are_numbered(*restored));
  for (const std::uint64_t page : some_pages(3 * kChunkPages, 200, 1))
    EXPECT_EQ(memory[page * kPageBytes + 8 + 99], std::byte{7});
}

TEST_F(Snapshots, TheWorkingSetComesFirstInItsOrder) {
  const std::uint64_t pages = 4 * kChunkPages;
  const auto touched = some_pages(pages, kChunkPages + 10, 5);
  save_numbered(pages, touched);
  const auto io = std::make_shared<GatedFileIo>(0);
  const auto restored = Snapshot::restore(path_, lazily(io, 1));
  ASSERT_TRUE(restored) << to_string(restored.error());
  EXPECT_EQ(restored->wait_for_working_set(Deadline::after(1ms)).error().code, Code::timed_out);
  io->wait_for_asked(2);
  io->allow(2);
  ASSERT_TRUE(restored->wait_for_working_set());
  const ConstByteSpan memory = must(restored->region("heap"));
  for (const std::uint64_t page : touched) EXPECT_EQ(number_at(memory, page), page + 1);
  EXPECT_EQ(restored->report().faults, 0u);  // they were mapped
  io->allow(100);
  ASSERT_TRUE(restored->wait());
  auto asked = io->asked();
  std::erase_if(asked, [&](std::uint64_t offset) { return !begins_chunk(offset); });
  EXPECT_THAT(asked, ElementsAre(offset_of(1, 0), offset_of(1, kChunkPages), offset_of(2, 0),
                                 offset_of(2, kChunkPages), offset_of(2, 2 * kChunkPages)));
  EXPECT_TRUE(are_numbered(*restored));
}

TEST_F(Snapshots, WhatIsNotOfTheWorkingSetIsReadInSmallPieces) {
  save_numbered(2 * kChunkPages);
  const auto io = std::make_shared<GatedFileIo>(0);
  const auto restored = Snapshot::restore(path_, lazily(io, 1));
  ASSERT_TRUE(restored) << to_string(restored.error());
  for (std::size_t i = 0; i < 64; ++i) {
    io->wait_for_asked(i + 1);
    EXPECT_EQ(io->asked().size(), i + 1);  // one at a time
    EXPECT_EQ(io->asked()[i], offset_of(2, 0) + i * (Bytes{128} << 10));
    io->allow(1);
  }
  ASSERT_TRUE(restored->wait());
  EXPECT_TRUE(are_numbered(*restored));
}

TEST_F(Snapshots, TheProgramIsLeftAloneWithItsWorkingSetUnlessItWaitsForAll) {
  save_numbered(4 * kChunkPages, {7, 9});
  const auto spend = [](auto time) {
    for (const auto until = std::chrono::steady_clock::now() + time;
         std::chrono::steady_clock::now() < until;);
  };
  bool has_hurried = false;
  for (int round = 0; round < 10 && !has_hurried; ++round) {
    const auto io = std::make_shared<GatedFileIo>(0);
    const auto restored = Snapshot::restore(path_, lazily(io, 1));
    ASSERT_TRUE(restored) << to_string(restored.error());
    io->wait_for_asked(1);
    spend(20ms * (1 << round));  // until all that comes then is quicker than thrice that
    io->allow(10'000);
    ASSERT_TRUE(restored->wait_for_working_set());
    const auto took = restored->report().until_working_set;
    const ConstByteSpan memory = must(restored->region("heap"));
    EXPECT_EQ(number_at(memory, 3 * kChunkPages), 3 * kChunkPages + 1);  // comes all the same
    const Bytes most = 3 * 16 * kPageBytes;
    if (round == 0) {
      while (restored->report().loaded_bytes <= most) std::this_thread::yield();
      EXPECT_GE(restored->report().elapsed, 4 * took);
    }
    ASSERT_TRUE(restored->wait());
    has_hurried = round != 0 && restored->report().elapsed < 4 * took;
    EXPECT_TRUE(are_numbered(*restored));
  }
  EXPECT_TRUE(has_hurried);
}

class OutOfTurn : public Snapshots, public ::testing::WithParamInterface<ImageOptions> {};

// Of a chunk that waits for its turn, and of the one that is on its way.
TEST_P(OutOfTurn, APageIsReadAloneForAllWhoTouchIt) {
  save_numbered(6 * kChunkPages, {}, GetParam());
  const auto io = std::make_shared<GatedFileIo>(10'000);
  io->hold_larger(GetParam().codec == Codec::none ? 16 * kPageBytes : kPageBytes);  // the worker's
  const auto restored = Snapshot::restore(path_, lazily(io, 1));
  ASSERT_TRUE(restored) << to_string(restored.error());
  const ConstByteSpan memory = must(restored->region("heap"));
  std::uint64_t fetched = 0;
  for (const std::uint64_t page : {4 * kChunkPages + 17, kChunkPages - 1}) {
    std::vector<std::jthread> readers;
    std::atomic<unsigned> right{0};
    for (unsigned i = 0; i < 2; ++i)
      readers.emplace_back([&] {
        if (number_at(memory, page) == page + 1) ++right;
      });
    readers.clear();
    EXPECT_EQ(right, 2u);
    EXPECT_EQ(restored->report().out_of_turn, ++fetched);
    EXPECT_LE(restored->report().loaded_bytes, fetched * 16 * kPageBytes);
    if (GetParam().codec == Codec::none) {
      EXPECT_THAT(io->asked(), ::testing::Contains(offset_of(2, page) +
                                                   page % kChunkPages / 16 * (Bytes{64} << 10)));
    }
  }
  io->hold_larger(~Bytes{0});
  ASSERT_TRUE(restored->wait());
  EXPECT_EQ(restored->report().loaded_bytes, restored->report().bytes);
  EXPECT_TRUE(are_numbered(*restored));
}
INSTANTIATE_TEST_SUITE_P(, OutOfTurn,
                         ::testing::Values(ImageOptions{}, ImageOptions{Codec::deflate, 0, false}));

// Its chunk is on its way then, and was read before the page was written.
TEST_F(Snapshots, WhatIsWrittenToAPageOutOfTurnStays) {
  save_numbered(2 * kChunkPages);
  for (const bool records : {false, true}) {
    const auto io = std::make_shared<GatedFileIo>(0);
    RestoreOptions options = lazily(io, 1);
    options.record = records;
    auto restored = Snapshot::restore(path_, options);
    ASSERT_TRUE(restored) << to_string(restored.error());
    const ByteSpan memory = must(restored->region("heap"));
    io->wait_for_asked(1);
    std::jthread later([&] {
      io->wait_for_asked(2);
      io->allow(2);
    });
    const std::uint64_t number = 77;
    std::memcpy(memory.data() + 20 * kPageBytes, &number, sizeof number);
    later.join();
    if (records) {
      ASSERT_TRUE(restored->settled());  // while it loads
    }
    io->allow(1000);
    ASSERT_TRUE(restored->wait());
    EXPECT_EQ(number_at(memory, 20), 77u);
    std::memcpy(memory.data() + 20 * kPageBytes, page_numbered(20).data(), sizeof number);
    EXPECT_TRUE(are_numbered(*restored));
  }
}

TEST_F(Snapshots, PagesOfZerosWaitForNothing) {
  Snapshot made = must(Snapshot::create(std::vector<SnapshotRegion>{{"heap", 100 * kPageBytes}}));
  must(made.region("heap"))[50 * kPageBytes] = std::byte{1};
  must(made.save(path_));
  const auto io = std::make_shared<GatedFileIo>(0);
  const auto restored = Snapshot::restore(path_, lazily(io));
  ASSERT_TRUE(restored) << to_string(restored.error());
  const ByteSpan memory = must(restored->region("heap"));
  EXPECT_EQ(memory[51 * kPageBytes], std::byte{0});
  memory[0] = std::byte{9};
  io->allow(100);
  ASSERT_TRUE(restored->wait());
  EXPECT_EQ(memory[0], std::byte{9});
  EXPECT_EQ(memory[50 * kPageBytes], std::byte{1});
  EXPECT_EQ(restored->report().loaded_bytes, kPageBytes);
}

// Once it was made and is unmapped again, the kernel asks for it in another way.
TEST_F(Snapshots, PagesOfZerosComeAgainWhenTheProgramDropsThem) {
  Snapshot made = must(Snapshot::create(std::vector<SnapshotRegion>{{"heap", 2000 * kPageBytes}}));
  std::memset(must(made.region("heap")).data(), 1, kPageBytes);
  must(made.save(path_));
  const auto io = std::make_shared<GatedFileIo>(0);
  const auto back = Snapshot::restore(path_, lazily(io));
  ASSERT_TRUE(back) << to_string(back.error());
  std::byte* const page = must(back->region("heap")).data() + 1000 * kPageBytes;
  for (int round = 0; round < 3; ++round) {
    const std::byte seen = *static_cast<volatile std::byte*>(page);
    EXPECT_EQ(seen, std::byte{0});
    ASSERT_EQ(::madvise(page, kPageBytes, MADV_DONTNEED), 0);
  }
  io->allow(1000);
  ASSERT_TRUE(back->wait());
}

// As of a heap, of which allocators drop pages that they take for zeros then.
TEST_F(Snapshots, APageThatIsDroppedIsZeroUnlessItIsRecorded) {
  save_numbered(2 * kChunkPages, {7});
  for (const bool records : {false, true}) {
    const auto io = std::make_shared<GatedFileIo>(0);
    RestoreOptions options = lazily(io, 1);
    options.record = records;
    const auto restored = Snapshot::restore(path_, options);
    ASSERT_TRUE(restored) << to_string(restored.error());
    const ByteSpan memory = must(restored->region("heap"));
    io->wait_for_asked(1);
    io->allow(1);
    ASSERT_TRUE(restored->wait_for_working_set());
    EXPECT_EQ(number_at(memory, 7), 8u);
    ASSERT_EQ(::madvise(memory.data(), 100 * kPageBytes, MADV_DONTNEED), 0);
    const std::uint64_t left = records ? 8 : 0;
    EXPECT_EQ(number_at(memory, 7), left);
    io->allow(1000);
    ASSERT_TRUE(restored->wait());
    for (std::uint64_t page = 0; page < 2 * kChunkPages; ++page)
      ASSERT_EQ(number_at(memory, page), records || page >= 100 ? page + 1 : 0);
  }
}

// The kernel lets go of memory in two steps; who touches a page between them must not sleep on.
TEST_F(Snapshots, NobodySleepsOnWhenTheLastPageHasCome) {
  constexpr std::uint64_t kPages = 3000;
  Snapshot made =
      must(Snapshot::create(std::vector<SnapshotRegion>{{"heap", kPages * kPageBytes}}));
  must(made.region("heap"))[7 * kPageBytes] = std::byte{7};
  must(made.save(path_));
  for (unsigned round = 0; round < 200; round += kTestStride) {
    const auto restored = Snapshot::restore(path_, lazily({}, 1));
    ASSERT_TRUE(restored) << to_string(restored.error());
    const ConstByteSpan memory = must(restored->region("heap"));
    std::vector<std::jthread> readers;
    for (std::uint64_t first = 0; first < 6; ++first)
      readers.emplace_back([&, first] {
        for (std::uint64_t page = first; page < kPages; page += 6)
          EXPECT_EQ(memory[page * kPageBytes],
                    std::byte{page == 7 ? std::uint8_t{7} : std::uint8_t{0}});
      });
  }
}

TEST_F(Snapshots, NothingHoldsUpWhoeverLetsGoOfIt) {
  save_numbered(4 * kChunkPages);
  const auto io = std::make_shared<GatedFileIo>(0);
  auto restored = Snapshot::restore(path_, lazily(io, 2));
  ASSERT_TRUE(restored) << to_string(restored.error());
  io->wait_for_asked(2);
  *restored = must(Snapshot::create(std::vector<SnapshotRegion>{{"other", 1}}));
  EXPECT_TRUE(restored->region("other"));
  EXPECT_FALSE(restored->region("heap"));
}

}  // namespace
}  // namespace gantry
