#include <gantry/snapshot.hpp>

#include <gmock/gmock.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "image/snapshot/test_snapshot.hpp"

// What a run touches, recorded, and what is saved.
namespace gantry {
namespace {

using namespace test;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using RecordAndSave = Snapshots;

TEST_F(RecordAndSave, RecordsWhatIsTouchedInItsOrderAndSavesThatFirst) {
  const std::uint64_t pages = 3 * kChunkPages;
  save_numbered(pages);
  auto first =
      Snapshot::restore(path_, {.lazy = Lazy::require, .own_accesses_only = true, .record = true});
  ASSERT_TRUE(first) << to_string(first.error());
  const ConstByteSpan memory = must(first->region("heap"));
  const auto order = some_pages(pages, 300, 9);
  for (const std::uint64_t page : order) EXPECT_EQ(number_at(memory, page), page + 1);
  for (const std::uint64_t page : order) EXPECT_EQ(number_at(memory, page), page + 1);  // again
  EXPECT_EQ(first->touched(), order);
  ASSERT_TRUE(first->settled());
  EXPECT_TRUE(are_numbered(*first));
  EXPECT_EQ(first->touched(), order);  // what came later is not among them
  const std::string again = folder_.file("again.gimg");
  must(first->save(again));
  Image image = must(Image::open(again));
  std::vector<std::uint64_t> touched(order.size());
  ASSERT_NE(image.find("touched"), nullptr);
  ASSERT_TRUE(image.read(*image.find("touched"), std::as_writable_bytes(std::span(touched))));
  EXPECT_EQ(touched, order);
  const auto second = Snapshot::restore(again, lazily());
  ASSERT_TRUE(second) << to_string(second.error());
  EXPECT_EQ(second->report().first_bytes, order.size() * kPageBytes);
  EXPECT_TRUE(are_numbered(*second));
}

TEST_F(RecordAndSave, PagesOfZerosAreNotStoredThoughTheyWereTouched) {
  constexpr std::uint64_t kPages = 3000;
  Snapshot made =
      must(Snapshot::create(std::vector<SnapshotRegion>{{"heap", kPages * kPageBytes}}));
  for (const std::uint64_t page : {5, 1000})
    must(made.region("heap"))[page * kPageBytes] = std::byte{9};
  must(made.save(path_));
  auto recorded =
      Snapshot::restore(path_, {.lazy = Lazy::require, .own_accesses_only = true, .record = true});
  ASSERT_TRUE(recorded) << to_string(recorded.error());
  const ConstByteSpan memory = must(recorded->region("heap"));
  const auto all_right = [&](ConstByteSpan heap) {
    for (std::uint64_t page = 0; page < kPages; ++page)
      if (heap[page * kPageBytes] != std::byte(page == 5 || page == 1000 ? 9 : 0)) return false;
    return true;
  };
  EXPECT_TRUE(all_right(memory));
  ASSERT_TRUE(recorded->settled());
  EXPECT_EQ(recorded->touched().size(), kPages);
  must(recorded->save(path_));
  EXPECT_LT(std::filesystem::file_size(path_), 100'000u);
  const Snapshot restored = must(Snapshot::restore(path_, lazily()));
  EXPECT_EQ(restored.report().first_bytes, 2 * kPageBytes);
  EXPECT_EQ(restored.report().zero_bytes, (kPages - 2) * kPageBytes);
  EXPECT_TRUE(all_right(must(restored.region("heap"))));
}

TEST_F(RecordAndSave, AWorkingSetOutlivesWhoRestoresAndSaves) {
  const auto order = some_pages(kChunkPages, 100, 3);
  save_numbered(kChunkPages, order);
  for (int round = 0; round < 2; ++round) {
    const Snapshot restored = must(Snapshot::restore(path_, lazily()));
    EXPECT_EQ(restored.touched(), order);
    EXPECT_EQ(restored.report().first_bytes, 100 * kPageBytes);
    EXPECT_TRUE(are_numbered(restored));
    must(restored.save(path_));
  }
}

TEST_F(RecordAndSave, WhatIsRestoredIsSavedAgainWithWhatWasWrittenSince) {
  constexpr std::uint64_t kPages = 20'000;  // more than the kernel says the state of at a time
  Snapshot made =
      must(Snapshot::create(std::vector<SnapshotRegion>{{"a", 77}, {"heap", kPages * kPageBytes}}));
  fill(must(made.region("heap")).subspan(9000 * kPageBytes, 3000 * kPageBytes), 5);
  must(made.save(path_));
  for (const Lazy lazy : {Lazy::require, Lazy::no}) {
    const auto restored = Snapshot::restore(path_, {.lazy = lazy, .own_accesses_only = true});
    ASSERT_TRUE(restored) << to_string(restored.error());
    const ByteSpan heap = must(restored->region("heap"));
    for (const std::uint64_t page : {std::uint64_t{0}, std::uint64_t{4095}, std::uint64_t{4096},
                                     std::uint64_t{9100}, kPages - 1})
      std::memset(heap.data() + page * kPageBytes + 7, static_cast<int>(1 + page % 100), 100);
    const std::string again = folder_.file("again.gimg");
    const auto saved = restored->save(again, {.touched = {{1, 9101}}});
    ASSERT_TRUE(saved) << to_string(saved.error());
    const Snapshot back = must(Snapshot::restore(again));
    EXPECT_EQ(back.report().first_bytes, 2 * kPageBytes);
    EXPECT_TRUE(same(must(back.region("heap")), heap));
    EXPECT_LE(back.report().loaded_bytes, 3010 * kPageBytes);  // what never was is not stored
    std::filesystem::remove(again);
  }
}

TEST_F(RecordAndSave, RecordingIsForSharedMemory) {
  save_numbered(10);
  auto restored = must(Snapshot::restore(path_, lazily()));
  ASSERT_TRUE(restored.wait());
  const auto refused = restored.record(true);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::invalid_argument);
  EXPECT_THAT(refused.error().hint, HasSubstr("RestoreOptions::record"));
  EXPECT_TRUE(are_numbered(restored));
}

TEST_F(RecordAndSave, RecordsAnewWhatIsThereAndWhatNeverWas) {
  Snapshot made = must(Snapshot::create(std::vector<SnapshotRegion>{{"heap", 64 * kPageBytes}}));
  const ByteSpan memory = must(made.region("heap"));
  memory[5 * kPageBytes] = std::byte{5};
  memory[6 * kPageBytes] = std::byte{6};
  if (const auto begun = made.record(true); !begun) GTEST_SKIP() << to_string(begun.error());
  EXPECT_EQ(memory[6 * kPageBytes], std::byte{6});
  EXPECT_EQ(memory[40 * kPageBytes], std::byte{0});
  memory[7 * kPageBytes] = std::byte{7};
  EXPECT_THAT(made.touched(), ElementsAre(6, 40, 7));
  must(made.save(path_));  // while it records
  EXPECT_THAT(made.touched(), ElementsAre(6, 40, 7));
  must(made.record(true));
  EXPECT_THAT(made.touched(), ElementsAre());
  EXPECT_EQ(memory[5 * kPageBytes], std::byte{5});
  EXPECT_THAT(made.touched(), ElementsAre(5));
  must(made.settled());
  EXPECT_EQ(memory[7 * kPageBytes], std::byte{7});
  EXPECT_THAT(made.touched(), ElementsAre(5));
}

// A writer keeps two pages in step. What is saved is how they were at one moment, or nothing.
TEST_F(RecordAndSave, WhatIsWrittenWhileItIsSavedIsRefused) {
  Snapshot made = must(Snapshot::create(std::vector<SnapshotRegion>{{"heap", 2000 * kPageBytes}}));
  const ByteSpan memory = must(made.region("heap"));
  fill(memory, 3);
  const auto at = [&](std::uint64_t page) {
    return std::atomic_ref(*reinterpret_cast<std::uint64_t*>(memory.data() + page * kPageBytes));
  };
  const auto put = [&](std::uint64_t value) {
    at(3).store(value);
    at(1500).store(value);
  };
  put(1);
  std::atomic<bool> ends{false};
  std::jthread writer([&] {
    for (std::uint64_t i = 2; !ends; ++i) put(i);
  });
  Result<ImageFacts> saved;
  for (unsigned i = 0; i < 200; ++i) {
    saved = made.save(path_);
    if (!saved) break;
    const auto restored = Snapshot::restore(path_);
    const ConstByteSpan back = must(restored->region("heap"));
    const std::uint64_t before = number_at(back, 3);
    EXPECT_THAT(number_at(back, 1500), ::testing::AnyOf(before, before - 1));
    std::filesystem::remove(path_);
  }
  ends = true;
  ASSERT_FALSE(saved);
  EXPECT_EQ(saved.error().code, Code::invalid_argument);
  EXPECT_THAT(saved.error().message, HasSubstr("of 'heap' was written while the snapshot"));
  EXPECT_EQ(folder_.entries(), 0u);
  writer.join();
  EXPECT_TRUE(made.save(path_));
}

TEST_F(RecordAndSave, RegionsAndWorkingSetsThatCannotBe) {
  const auto said = [](std::vector<SnapshotRegion> regions) {
    const auto made = Snapshot::create(regions);
    return made ? "" : made.error().message;
  };
  EXPECT_THAT(said({}), HasSubstr("0 regions"));
  EXPECT_THAT(said({{"a", 0}}), HasSubstr("region 0: it has 0 bytes"));
  EXPECT_THAT(said({{"a", 1}, {"a", 1}}), HasSubstr("region 1: another region has its name"));
  EXPECT_THAT(said({{"a/b", 1}}), HasSubstr("region 0: 'a/b' is no name"));
  EXPECT_THAT(said({{"..", 1}}), HasSubstr("region 0: '..' is no name"));
  EXPECT_THAT(said({{"", 1}}), HasSubstr("region 0: its name '' has 0 bytes"));
  EXPECT_THAT(said({{"a", 1}, {"b", ~Bytes{0}}}), HasSubstr("region 1: a snapshot has at most"));
  const Snapshot made = must(Snapshot::create(std::vector<SnapshotRegion>{{"a", kPageBytes + 1}}));
  EXPECT_THAT(made.save(path_, {.touched = {{1, 0, 1}}}).error().message,
              HasSubstr("page 1 is there twice"));
  EXPECT_THAT(made.save(path_, {.touched = {{2}}}).error().message, HasSubstr("there are 2"));
  EXPECT_EQ(folder_.entries(), 0u);
}

}  // namespace
}  // namespace gantry
