#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <gantry/memory.hpp>
#include <vector>

namespace gantry {
namespace {

constexpr Bytes kPage = 4096;

// Bytes that lie in huge pages now. Entries begin with their addresses; a mapping may have several.
Bytes huge_bytes(const Region& region) {
  if (region.pages() == PageKind::hugetlb) return region.size();
  std::ifstream file("/proc/self/smaps");
  const auto begin = reinterpret_cast<std::uintptr_t>(region.data());
  bool is_inside = false;
  Bytes huge = 0;
  for (std::string line; std::getline(file, line);) {
    char* dash = nullptr;
    const std::uintptr_t from = std::strtoull(line.c_str(), &dash, 16);
    if (dash != line.c_str() && *dash == '-')
      is_inside = from >= begin && from < begin + region.size();
    for (const std::string_view name : {"AnonHugePages:", "ShmemPmdMapped:", "FilePmdMapped:"})
      if (is_inside && line.starts_with(name))
        huge += std::strtoull(line.c_str() + name.size(), nullptr, 10) << 10;
  }
  return huge;
}

TEST(Region, CannotBeResizedOrMappedWritableByWhoeverHasIt) {
  auto region = Region::create(3 * kPage, "test");
  ASSERT_TRUE(region);
  const int descriptor = region->descriptor();
  EXPECT_NE(::ftruncate(descriptor, 0), 0);
  EXPECT_NE(::ftruncate(descriptor, 8 * kPage), 0);
  EXPECT_EQ(::mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0), MAP_FAILED);
  EXPECT_EQ(errno, EPERM);
  char byte = 0;
  EXPECT_EQ(::pwrite(descriptor, &byte, 1, 0), -1);
  EXPECT_NE(::fcntl(descriptor, F_ADD_SEALS, F_SEAL_WRITE), 0);
}

TEST(Region, ShowsTheSameBytesToItsImporter) {
  auto region = Region::create(kPage, "test");
  ASSERT_TRUE(region);
  std::memcpy(region->data(), "seen", 5);
  auto imported = Region::import(::dup(region->descriptor()), region->size());
  ASSERT_TRUE(imported) << imported.error().message;
  EXPECT_STREQ(reinterpret_cast<const char*>(imported->data()), "seen");
  std::memcpy(region->data(), "news", 5);
  EXPECT_STREQ(reinterpret_cast<const char*>(imported->data()), "news");
  region->close_descriptor();
  imported->close_descriptor();
  EXPECT_EQ(imported->descriptor(), -1);
  std::memcpy(region->data(), "last", 5);
  EXPECT_STREQ(reinterpret_cast<const char*>(imported->data()), "last");
}

TEST(Region, ImportsNothingThatCouldChangeUnderIt) {
  const auto expect_refusal = [](int descriptor, Bytes size, std::string_view words) {
    const auto region = Region::import(descriptor, size);
    ASSERT_FALSE(region);
    EXPECT_EQ(region.error().code, Code::peer_misbehaved);
    EXPECT_THAT(region.error().message, testing::HasSubstr(words));
  };
  const int unsealed = ::memfd_create("x", MFD_ALLOW_SEALING | MFD_CLOEXEC);
  ASSERT_EQ(::ftruncate(unsealed, kPage), 0);
  expect_refusal(unsealed, kPage, "seals are missing");
  expect_refusal(::open("/dev/zero", O_RDONLY | O_CLOEXEC), kPage, "seals are missing");
  auto region = Region::create(kPage, "test");
  expect_refusal(::dup(region->descriptor()), 2 * kPage,
                 fmt::format("announced {} bytes of memory and sent {}", 2 * kPage, kPage));
  // Holes: whoever has the descriptor could take the pages away, the maker first of all.
  constexpr int kPunch = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
  EXPECT_NE(::fallocate(region->descriptor(), kPunch, 0, kPage), 0);
  const int punchable = ::memfd_create("x", MFD_ALLOW_SEALING | MFD_CLOEXEC);
  ASSERT_EQ(::ftruncate(punchable, kPage), 0);
  ASSERT_EQ(::fcntl(punchable, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
  ASSERT_EQ(::fallocate(punchable, kPunch, 0, kPage), 0);
  expect_refusal(punchable, kPage, "seals are missing");
}

TEST(Region, RefusesNothingAndTooMuch) {
  EXPECT_EQ(Region::create(0, "test").error().code, Code::invalid_argument);
  EXPECT_EQ(Region::create(~Bytes{0}, "test").error().code, Code::too_large);
  EXPECT_FALSE(Region::create(Bytes{1} << 62, "test"));
}

long minor_faults() {
  rusage usage{};
  ::getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_minflt;
}

TEST(Region, TouchedOnceFaultsNoMore) {
  constexpr Bytes kPages = 512;
  auto region = Region::create(kPages * kPage, "test");
  ASSERT_TRUE(region);
  ASSERT_TRUE(region->touch(0, region->size()));
  const long before = minor_faults();
  for (Bytes i = 0; i < kPages; ++i) region->data()[i * kPage] = std::byte{1};
  // AddressSanitizer's shadow of the region, an eighth of it, faults in on its own; the region's
  // own 512 pages must not.
  EXPECT_LT(minor_faults() - before, static_cast<long>(kPages) / 4);
  EXPECT_EQ(region->touch(kPage, kPages * kPage).error().code, Code::invalid_argument);
}

TEST(Region, IsTouchedByManyAsByOne) {
  constexpr Bytes kSize = Bytes{160} << 20;
  auto region = Region::create(kSize, "test");
  ASSERT_TRUE(region);
  ASSERT_TRUE(region->touch(0, kSize, 0));
  std::vector<unsigned char> present(kSize / kPage);
  ASSERT_EQ(::mincore(region->data(), kSize, present.data()), 0);
  EXPECT_TRUE(std::all_of(present.begin(), present.end(), [](unsigned char p) { return p & 1; }));
}

TEST(Region, IsLargerThanFourGibibytes) {
  constexpr Bytes kSize = (Bytes{4} << 30) + 3 * kPage;
  auto region = Region::create(kSize, "test");  // pages come where they are touched
  ASSERT_TRUE(region) << region.error().message;
  ASSERT_TRUE(region->touch(kSize - kPage, kPage));
  region->data()[kSize - 1] = std::byte{9};
  auto imported = Region::import(::dup(region->descriptor()), kSize);
  ASSERT_TRUE(imported);
  EXPECT_EQ(imported->data()[kSize - 1], std::byte{9});
}

TEST(Region, LiesOverTheUsersOwnMemoryAndLeavesItThere) {
  std::vector<std::byte> mine(3 * kPage);
  {
    auto region = Region::over(mine);
    ASSERT_TRUE(region);
    EXPECT_EQ(region->data(), mine.data());
    EXPECT_EQ(region->descriptor(), -1);
    EXPECT_TRUE(region->touch(100, 2 * kPage));
  }
  mine[kPage] = std::byte{1};
  EXPECT_EQ(Region::over({}).error().code, Code::invalid_argument);
}

TEST(Region, SaysWhyItCannotBeTouched) {
  void* const at = ::mmap(nullptr, 2 * kPage, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(at, MAP_FAILED);
  auto region = Region::over({static_cast<std::byte*>(at), 2 * kPage});
  ASSERT_TRUE(region);
  EXPECT_THAT(region->touch(0, kPage).error().message, testing::HasSubstr("written"));
  ::munmap(at, 2 * kPage);
  EXPECT_THAT(region->touch(0, kPage).error().message, testing::HasSubstr("mapped"));
}

TEST(Region, SaysWhichPagesItGot) {
  auto plain = Region::create(kPage, "test", {.pages = PageKind::plain});
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->pages(), PageKind::plain);
  EXPECT_EQ(huge_bytes(*plain), 0u);
  const auto any = Region::create(kPage, "test", {.pages = PageKind::any});
  ASSERT_TRUE(any) << any.error().message;
  if (any->pages() == PageKind::hugetlb) {
    EXPECT_EQ(huge_bytes(*any), any->size());
  } else {
    EXPECT_EQ(any->pages(), PageKind::transparent);
    const auto hugetlb = Region::create(kPage, "test", {.pages = PageKind::hugetlb});
    ASSERT_FALSE(hugetlb) << "then none are reserved";
    EXPECT_THAT(hugetlb.error().hint, testing::HasSubstr("vm.nr_hugepages"));
  }
}

TEST(Region, IsPrivateWhenNobodyElseNeedsIt) {
  constexpr Bytes kHuge = Bytes{2} << 20;
  for (const Bytes size : {Bytes{1}, 3 * kPage, 2 * kHuge + kPage}) {
    auto region = Region::create(size, "test", {.shareable = false});
    ASSERT_TRUE(region) << region.error().message;
    EXPECT_EQ(region->descriptor(), -1);
    EXPECT_GE(region->size(), size);
    EXPECT_LT(region->size(), size + kPage);
    if (size >= kHuge) {
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(region->data()) % kHuge, 0u);
    }
    ASSERT_TRUE(region->touch(0, region->size()));
    std::memset(region->data(), 1, region->size());
  }
  const auto hugetlb =
      Region::create(kPage, "test", {.pages = PageKind::hugetlb, .shareable = false});
  if (hugetlb) {
    EXPECT_EQ(huge_bytes(*hugetlb), hugetlb->size());
  } else {
    EXPECT_THAT(hugetlb.error().hint, testing::HasSubstr("vm.nr_hugepages"));
  }
}

TEST(Region, LeavesNothingMappedWhenItGoes) {
  constexpr Bytes kSize = (Bytes{4} << 20) + kPage;
  const auto mapped_pages = [] {
    Bytes pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    return pages;
  };
  for (const bool shareable : {true, false}) {
    const Bytes before = mapped_pages();
    for (int i = 0; i < 100; ++i)
      ASSERT_TRUE(Region::create(kSize, "test", {.shareable = shareable}));
    EXPECT_LT(mapped_pages(), before + 20 * kSize / kPage);
  }
}

TEST(Region, LiesOnTheNodeAskedFor) {
  EXPECT_EQ(Region::create(kPage, "test", {.numa_node = 1000}).error().code, Code::unsupported);
  auto region = Region::create(4 * kPage, "test", {.numa_node = 0});
  if (!region) GTEST_SKIP() << region.error().message;
  ASSERT_TRUE(region->touch(0, region->size()));
  int node = -1;
  void* page = region->data();
  ASSERT_EQ(::syscall(SYS_move_pages, 0, 1, &page, nullptr, &node, 0), 0);
  EXPECT_EQ(node, 0);
}

// What many machines give shared memory no other way. Contents stay; whoever maps it gains as well.
TEST(Region, CollapseGathersWhatIsPresentInHugePages) {
  constexpr Bytes kHuge = Bytes{8} << 20;
  for (const bool shareable : {true, false}) {
    auto region =
        *Region::create(kHuge, "test", {.pages = PageKind::plain, .shareable = shareable});
    ASSERT_TRUE(region.touch(0, region.size()));
    for (Bytes at = 0; at < region.size(); at += kPage)
      region.data()[at] = static_cast<std::byte>(at / kPage);
    const auto collapsed = region.collapse();
    for (Bytes at = 0; at < region.size(); at += kPage)
      ASSERT_EQ(region.data()[at], static_cast<std::byte>(at / kPage));
    if (!collapsed) {
      EXPECT_FALSE(collapsed.error().hint.empty());
      EXPECT_THAT(collapsed.error().code, testing::AnyOf(Code::unsupported, Code::out_of_memory));
      continue;
    }
    EXPECT_EQ(huge_bytes(region), kHuge);
    if (!shareable) continue;
    std::vector<Region> beside;  // so that some would begin elsewhere by themselves
    for (int i = 0; i < 3; ++i) {
      auto imported = *Region::import(::dup(region.descriptor()), kHuge);
      ASSERT_TRUE(imported.touch(0, imported.size()));
      EXPECT_EQ(huge_bytes(imported), kHuge);
      beside.push_back(std::move(imported));
      ASSERT_NE(
          ::mmap(nullptr, (Bytes{3} << 20) + kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
          MAP_FAILED);
    }
  }
}

TEST(Region, CollapseSaysWhatItCannotGather) {
  auto small = *Region::create(kPage, "test");
  const auto refused = small.collapse();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::unsupported);
  EXPECT_THAT(refused.error().message, testing::HasSubstr("there is room for none"));
  Region nothing;
  EXPECT_TRUE(nothing.collapse()) << "of nothing there is nothing to do";
}

}  // namespace
}  // namespace gantry
