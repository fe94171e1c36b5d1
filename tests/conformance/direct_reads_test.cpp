#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "core/base/result.hpp"
#include "core/base/test_bytes.hpp"
#include "file_ios.hpp"

// Reads that pass the page cache by, as every way to read files does them.
namespace gantry {
namespace {

using testing::HasSubstr;
using File = std::shared_ptr<const OpenFile>;

constexpr Bytes kPage = 4096;

std::vector<std::byte> noise(Bytes size) {
  return test::random_bytes(size, 1);
}

/// Memory that begins a page.
class Pages {
 public:
  explicit Pages(Bytes bytes)
      : bytes_(bytes),
        at_(::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {}
  ~Pages() { ::munmap(at_, bytes_); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  [[nodiscard]] ByteSpan all() const { return {static_cast<std::byte*>(at_), bytes_}; }

 private:
  Bytes bytes_;
  void* at_;
};

class DirectReads : public testing::TestWithParam<FileIoCase> {
 protected:
  void SetUp() override {
    auto made = GetParam().make();
    if (!made) GTEST_SKIP() << to_string(made.error());
    auto lane = (*made)->open_lane();
    ASSERT_TRUE(lane) << to_string(lane.error());
    lane_ = *std::move(lane);
  }
  void TearDown() override { std::filesystem::remove(path_); }

  /// A file on a disk, none of it in the page cache. Null where there is none with direct reads.
  File file_of(std::span<const std::byte> bytes) {
    for (const std::string& folder : {std::string("/var/tmp"), std::string(".")}) {
      path_ = folder + "/gantry-direct-XXXXXX";
      const int made = ::mkostemp(path_.data(), O_CLOEXEC);
      if (made < 0) continue;
      EXPECT_EQ(::write(made, bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
      EXPECT_EQ(::fdatasync(made), 0);
      EXPECT_EQ(::posix_fadvise(made, 0, 0, POSIX_FADV_DONTNEED), 0);
      ::close(made);
      auto file = OpenFile::open_direct(path_);
      EXPECT_TRUE(file);
      if (file && (*file)->alignment() > 1) return *file;
      std::filesystem::remove(path_);
    }
    return nullptr;
  }
  Result<void> read(const File& file, std::uint64_t offset, ByteSpan to) {
    GANTRY_ASSIGN(const Ticket ticket, lane_->submit({FileTransfer::Kind::read, file, offset, to}));
    return lane_->wait(ticket);
  }
  [[nodiscard]] Bytes pages_in_cache() const {
    const int file = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
    const Bytes bytes = std::filesystem::file_size(path_);
    void* const mapped = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file, 0);
    std::vector<unsigned char> pages((bytes + kPage - 1) / kPage);
    EXPECT_EQ(::mincore(mapped, bytes, pages.data()), 0);
    ::munmap(mapped, bytes);
    ::close(file);
    return static_cast<Bytes>(std::ranges::count_if(pages, [](auto page) { return page & 1; }));
  }

  std::unique_ptr<FileLane> lane_;
  std::string path_;
};

TEST_P(DirectReads, BringEveryByteAndLeaveThePageCacheAlone) {
  const auto bytes = noise(kPage * 2500);  // more than are in flight at once
  const File file = file_of(bytes);
  if (!file) GTEST_SKIP() << "no disk with direct reads";
  EXPECT_EQ(file->why_not_direct(), "");
  EXPECT_EQ(kPage % file->alignment(), 0u);
  ASSERT_EQ(pages_in_cache(), 0u);
  const Pages to(bytes.size());
  for (const auto& [from, size] : {std::pair<Bytes, Bytes>{0, bytes.size()},
                                   {kPage, kPage},
                                   {kPage * 3, kPage * 511},
                                   {bytes.size() - kPage, kPage}}) {
    std::ranges::fill(to.all(), std::byte{});
    const auto done = read(file, from, to.all().subspan(0, size));
    ASSERT_TRUE(done) << to_string(done.error());
    EXPECT_TRUE(
        std::ranges::equal(to.all().subspan(0, size), std::span(bytes).subspan(from, size)));
    EXPECT_TRUE(
        std::ranges::all_of(to.all().subspan(size), [](auto b) { return b == std::byte{}; }));
  }
  EXPECT_EQ(pages_in_cache(), 0u);
}

TEST_P(DirectReads, WhatIsNotAlignedIsRefusedWithTheNumbers) {
  const auto bytes = noise(kPage * 4);
  const File file = file_of(bytes);
  if (!file) GTEST_SKIP() << "no disk with direct reads";
  const Pages to(bytes.size());
  const std::string multiples = fmt::format("not all are multiples of {}", file->alignment());
  for (const auto& [offset, at, size] : {std::tuple<Bytes, Bytes, Bytes>{1, 0, kPage},
                                         {0, 1, kPage},
                                         {0, 0, kPage - 1},
                                         {file->alignment() / 2, 0, kPage}}) {
    const auto refused = read(file, offset, to.all().subspan(at, size));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::invalid_argument);
    EXPECT_THAT(refused.error().message,
                HasSubstr(fmt::format("{} bytes from offset {} on", size, offset)));
    EXPECT_THAT(refused.error().message, HasSubstr(multiples));
  }
  EXPECT_TRUE(read(file, kPage, to.all().subspan(kPage, kPage)));  // the lane goes on
}

TEST_P(DirectReads, TheLastPartOfASectorIsBeyondThem) {
  const auto bytes = noise(kPage * 300 + 100);
  const File file = file_of(bytes);
  if (!file) GTEST_SKIP() << "no disk with direct reads";
  const Pages to(kPage * 302);
  const auto beyond = read(file, 0, to.all());
  ASSERT_FALSE(beyond);
  EXPECT_EQ(beyond.error().code, Code::system);
  EXPECT_THAT(beyond.error().message,
              HasSubstr(fmt::format("{} of {} bytes are there from offset 0 on", bytes.size(),
                                    to.all().size())));
  ASSERT_TRUE(read(file, 0, to.all().subspan(0, kPage * 300)));
  EXPECT_TRUE(std::equal(bytes.begin(), bytes.end() - 100, to.all().begin()));
}

TEST_P(DirectReads, WhereThereAreNoneAFileIsReadAsUsual) {
  path_ = "/proc/self/cgroup";  // which has none
  const auto file = OpenFile::open_direct(path_);
  ASSERT_TRUE(file) << to_string(file.error());
  EXPECT_EQ((*file)->alignment(), 1u);
  EXPECT_THAT((*file)->why_not_direct(), HasSubstr("direct reads"));
  std::ifstream same(path_);
  const std::string text{std::istreambuf_iterator<char>(same), {}};
  ASSERT_FALSE(text.empty());
  std::string got(text.size(), ' ');
  ASSERT_TRUE(read(*file, 0, std::as_writable_bytes(std::span(got))));
  EXPECT_EQ(got, text);
  path_.clear();
}

TEST(OpenDirect, SaysWhatCannotBeOpened) {
  const auto missing = OpenFile::open_direct("/nonexistent/x");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Code::not_found);
  EXPECT_THAT(missing.error().message, HasSubstr("'/nonexistent/x'"));
}

INSTANTIATE_TEST_SUITE_P(All, DirectReads, testing::ValuesIn(kFileIos),
                         [](const auto& way) { return way.param.name; });

}  // namespace
}  // namespace gantry
