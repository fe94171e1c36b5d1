// The parts of `--cases restore`: what is saved, that every way brings it, that every byte is
// looked at.

#include <fcntl.h>
#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <fstream>

#include "../../support/program/test_program.hpp"
#include "../files.hpp"
#include "../weights.hpp"
#include "contest.hpp"
#include "restorers.hpp"

namespace gantry::bench {
namespace {

using ::testing::HasSubstr;

constexpr Bytes kSize = Bytes{5} << 20;  // over a border of chunks

SavedMemory saved_in(const ScratchDirectory& folder, std::string_view case_name,
                     const ContentOrder& order = {kSize, {}, -1}) {
  const auto contents = std::ranges::find(kContents, case_name, &Contents::case_name);
  return must(SavedMemory::make(folder.path(), *contents, order));
}

class Saved : public ::testing::TestWithParam<const char*> {
 protected:
  std::string page(std::uint64_t number) const { return raw_.substr(number * kPage, kPage); }
  void change(MemoryFile file, Bytes at) const {
    std::fstream stream(saved_.path(file));
    stream.seekg(static_cast<std::streamoff>(at));
    const char byte = static_cast<char>(stream.get() ^ 1);
    stream.seekp(static_cast<std::streamoff>(at));
    stream.put(byte);
  }

  ScratchDirectory folder_ = must(ScratchDirectory::create());
  SavedMemory saved_ = saved_in(folder_, GetParam());
  std::string raw_ = text_of(saved_.path(MemoryFile::raw));
};

// A heap has addresses that differ from process to process: what is said of one is enough.
INSTANTIATE_TEST_SUITE_P(Each, Saved, ::testing::Values("restore/hash-index", "restore/fp32-batch"),
                         [](const auto& one) { return std::string(one.param).substr(8, 4); });

TEST_P(Saved, IsTheSameEachTimeAndInEachFile) {
  ASSERT_EQ(raw_.size(), saved_.bytes());
  const ScratchDirectory other = must(ScratchDirectory::create());
  EXPECT_EQ(text_of(saved_in(other, GetParam()).path(MemoryFile::raw)), raw_);
  for (const MemoryFile image : {MemoryFile::image, MemoryFile::small_image}) {
    const Snapshot restored = must(Snapshot::restore(saved_.path(image), {.lazy = Lazy::no}));
    const ByteSpan memory = must(restored.region(kMemory));
    ASSERT_EQ(memory.size(), raw_.size());
    EXPECT_EQ(std::memcmp(memory.data(), raw_.data(), raw_.size()), 0);
    EXPECT_EQ(saved_.stored_bytes(image), std::filesystem::file_size(saved_.path(image)));
  }
  EXPECT_LT(saved_.stored_bytes(MemoryFile::small_image), saved_.stored_bytes(MemoryFile::image));
}

TEST_P(Saved, HasATenthInClustersAsWorkingSet) {
  const std::string set = text_of(saved_.path(MemoryFile::working_set));
  const auto pages = saved_.working_set();
  ASSERT_EQ(set.size(), pages.size() * kPage);
  std::size_t follow = 0, back = 0;
  for (std::size_t i = 0; i < pages.size(); ++i) {
    EXPECT_EQ(set.substr(i * kPage, kPage), page(pages[i])) << i;
    if (i == 0) continue;
    follow += pages[i] == pages[i - 1] + 1 ? 1 : 0;
    back += pages[i] < pages[i - 1] ? 1 : 0;
  }
  EXPECT_GT(follow, pages.size() / 2);
  EXPECT_GT(back, 2U);
  const std::string zero(kPage, '\0');
  std::set<std::uint64_t> all(pages.begin(), pages.end());
  all.insert(saved_.rest().begin(), saved_.rest().end());
  EXPECT_EQ(all.size(), pages.size() + saved_.rest().size());  // each once
  EXPECT_EQ(pages.size(), (all.size() + 9) / 10);
  EXPECT_EQ(saved_.nonzero_bytes(), all.size() * kPage);
  EXPECT_LT(saved_.nonzero_bytes(), saved_.bytes());
  for (std::uint64_t number = 0; number < saved_.bytes() / kPage; ++number)
    EXPECT_EQ(page(number) != zero, all.contains(number)) << number;
}

TEST_P(Saved, EveryWayBringsAllOfIt) {
  const bool is_direct = open_to_read(saved_.path(MemoryFile::working_set), O_DIRECT).has_value();
  for (const RestorerKind& kind : restorer_kinds())
    for (const DirectReads& reads : {DirectReads{Bytes{64} << 10, 3}, DirectReads{}}) {
      if (kind.reads_directly && !is_direct) continue;
      const auto restorer = kind.make(saved_, reads);
      const auto begun = restorer->begin();
      ASSERT_TRUE(begun) << kind.name << ": " << to_string(begun.error());
      EXPECT_TRUE(touch_working_set(*restorer, saved_)) << kind.name;
      if (kind.is_limit) continue;
      EXPECT_TRUE(restorer->finish()) << kind.name;
      EXPECT_TRUE(read_everything(*restorer, saved_)) << kind.name;
    }
}

TEST_P(Saved, AnotherByteIsNoticed) {
  if (!open_to_read(saved_.path(MemoryFile::working_set), O_DIRECT))
    GTEST_SKIP() << "no direct reads below " << folder_.path();
  change(MemoryFile::working_set, saved_.working_set_bytes() - 5);
  change(MemoryFile::raw, saved_.rest().back() * kPage + 7);
  for (const RestorerKind& kind : restorer_kinds()) {
    const auto restorer = kind.make(saved_, {});
    must(restorer->begin());
    const auto touched = touch_working_set(*restorer, saved_);
    EXPECT_EQ(touched.has_value(), kind.file != MemoryFile::working_set) << kind.name;
    if (!touched) {
      EXPECT_THAT(touched.error().message, HasSubstr("the working set has other bytes"));
    }
    if (kind.is_limit) continue;
    const bool is_image = kind.file == MemoryFile::image || kind.file == MemoryFile::small_image;
    EXPECT_EQ(read_everything(*restorer, saved_).has_value(), is_image) << kind.name;
  }
}

TEST_P(Saved, OnlyPagesThatAreNotThereAreTouchedOutOfTurn) {
  if (!open_to_read(saved_.path(MemoryFile::working_set), O_DIRECT))
    GTEST_SKIP() << "no direct reads below " << folder_.path();
  const auto reap = make_reap(saved_, {});
  must(reap->begin());
  const std::vector<double> times = must(touch_rest(*reap, saved_));
  EXPECT_GT(times.size(), 10U);
  EXPECT_LT(times.size(), saved_.rest().size() / 4);  // one brings some that lie around it
  EXPECT_TRUE(must(touch_rest(*reap, saved_)).empty());
  EXPECT_TRUE(read_everything(*reap, saved_));
}

// ---- what it is ----------------------------------------------------------------------------

TEST(SavedContents, AHashIndexIsFilledToSixTenths) {
  const ScratchDirectory folder = must(ScratchDirectory::create());
  const std::string raw = text_of(saved_in(folder, "restore/hash-index").path(MemoryFile::raw));
  const Bytes table = kSize / 4 * 3;
  std::set<std::uint64_t> keys, rows;
  for (Bytes at = 0; at < table; at += 16) {
    std::uint64_t key = 0, row = 0;
    std::memcpy(&key, raw.data() + at, 8);
    std::memcpy(&row, raw.data() + at + 8, 8);
    if (key == 0) continue;
    keys.insert(key);
    rows.insert(row);
  }
  EXPECT_EQ(keys.size(), table / 16 * 6 / 10);
  EXPECT_EQ(rows.size(), keys.size());
  EXPECT_EQ(*rows.rbegin(), rows.size() - 1);
  EXPECT_THAT(raw.substr(table, 100), HasSubstr(".example.org"));
}

TEST(SavedContents, ABatchHas256NumbersAColour) {
  const ScratchDirectory folder = must(ScratchDirectory::create());
  const std::string raw = text_of(saved_in(folder, "restore/fp32-batch").path(MemoryFile::raw));
  constexpr std::size_t kPlane = 224 * 224;
  std::set<float> red;
  for (std::size_t i = 0; i < kPlane; ++i) {
    float value = 0;
    std::memcpy(&value, raw.data() + i * sizeof value, sizeof value);
    const float byte = (value * 0.229F + 0.485F) * 255;
    EXPECT_NEAR(byte, std::round(byte), 0.001);
    red.insert(value);
  }
  EXPECT_GT(red.size(), 50U);
  EXPECT_LE(red.size(), 256U);
}

TEST(SavedContents, AHeapIsWhatPythonHasInMemory) {
  if (std::system("python3 -c pass 2>/dev/null") != 0) GTEST_SKIP() << "no python3";
  const ScratchDirectory folder = must(ScratchDirectory::create());
  const SavedMemory saved = saved_in(folder, "restore/python-heap");
  const std::string raw = text_of(saved.path(MemoryFile::raw));
  EXPECT_THAT(raw, HasSubstr(R"({"number": 996, "title": ")"));  // rendered by it
  EXPECT_LT(saved.nonzero_bytes(), saved.bytes());
}

TEST(SavedContents, AGuestIsItsFile) {
  const ScratchDirectory folder = must(ScratchDirectory::create());
  const std::string path = folder.path() + "/guest";
  std::string text(3 * kPage + 100, 'g');
  text.replace(kPage, kPage, kPage, '\0');
  std::ofstream(path) << text;
  const SavedMemory saved = saved_in(folder, kGuest, {text.size(), path, -1});
  EXPECT_EQ(saved.nonzero_bytes(), 3 * kPage);
  text.resize(4 * kPage);
  EXPECT_EQ(text_of(saved.path(MemoryFile::raw)), text);
}

// ---- the program ---------------------------------------------------------------------------

class BenchRestore : public BenchTest {
 protected:
  BenchRestore() : BenchTest("start") {}
  void SetUp() override {
    BenchTest::SetUp();
    if (is_in_memory(temporary_)) GTEST_SKIP() << "no disk below " << temporary_;
  }
};

TEST_F(BenchRestore, EveryCaseHasEverySubject) {
  const json document = document_of({"--sizes", "2M", "--disk", "as-is", "--cases", "restore"});
  expect_contract(document, name_);
  const Names all = {"gantry/restore", "gantry/restore-zstd", "on-demand", "reap",
                     "reap/overlapped"};
  Names with_limit = all;
  with_limit.insert("limit/o-direct");
  for (const std::string name :
       {"restore/hash-index/2 MiB", "restore/python-heap/2 MiB", "restore/fp32-batch/2 MiB"}) {
    if (const std::string reason = reason_of(document, name); !reason.empty()) {
      EXPECT_THAT(reason, ::testing::AnyOf(HasSubstr("python3"), HasSubstr("userfaultfd")));
      continue;
    }
    if (is_skipped(document, "reap in " + name)) continue;
    for (const char* metric : {"latency_p50", "throughput", "cpu_time", "peak_memory"})
      EXPECT_EQ(subjects_by_case(document, metric)[name], with_limit) << name << ", " << metric;
    for (const char* metric : {"all_time", "all_cpu_time", "touch_p50", "touch_p99"})
      EXPECT_EQ(subjects_by_case(document, metric)[name], all) << name << ", " << metric;
    EXPECT_EQ(subjects_by_case(document, "stored_bytes")[name],
              (Names{"gantry/restore", "gantry/restore-zstd"}));
  }
  EXPECT_FALSE(subjects_by_case(document, "latency_p50").contains("restore/guest/2 MiB"));
}

TEST_F(BenchRestore, AGuestIsACaseWhereThereIsAFile) {
  const std::string guest = scratch_.path() + "/guest";
  std::ofstream(guest) << std::string(Bytes{3} << 20, 'g');
  const json document = document_of({"--sizes", "2M,4M", "--disk", "as-is", "--subjects",
                                     "on-demand", "--cases", "restore/guest", "--guest", guest});
  EXPECT_EQ(subjects_by_case(document, "latency_p50"),
            (std::map<std::string, Names>{{"restore/guest/3 MiB", {"on-demand"}}}));
  EXPECT_EQ(std::ranges::count(document.at("results"), json("latency_p50"),
                               [](const json& row) { return row.at("metric"); }),
            1);  // it has one size
  const Ended refused = run({"--guest", guest + "/none"});
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.errors, HasSubstr("--guest: '" + guest + "/none' is no file"));
}

TEST_F(BenchRestore, WithoutPythonThereIsNoHeapOfIt) {
  const std::string path = ::getenv("PATH");
  ::setenv("PATH", scratch_.path().c_str(), 1);
  const json document =
      document_of({"--sizes", "2M", "--disk", "as-is", "--cases", "restore/python-heap"});
  ::setenv("PATH", path.c_str(), 1);
  EXPECT_TRUE(document.at("results").empty());
  EXPECT_THAT(reason_of(document, "restore/python-heap/2 MiB"),
              HasSubstr("python3: No such file or directory"));
}

}  // namespace
}  // namespace gantry::bench
