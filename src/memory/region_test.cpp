#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstring>
#include <gantry/memory.hpp>

namespace gantry {
namespace {

constexpr Bytes kPage = 4096;

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
}

TEST(Region, ImportsNothingThatCouldChangeUnderIt) {
  const int unsealed = ::memfd_create("x", MFD_ALLOW_SEALING | MFD_CLOEXEC);
  ASSERT_EQ(::ftruncate(unsealed, kPage), 0);
  EXPECT_EQ(Region::import(unsealed, kPage).error().code, Code::peer_misbehaved);
  EXPECT_EQ(Region::import(::open("/dev/zero", O_RDONLY | O_CLOEXEC), kPage).error().code,
            Code::peer_misbehaved);
  auto region = Region::create(kPage, "test");
  EXPECT_EQ(Region::import(::dup(region->descriptor()), 2 * kPage).error().code,
            Code::peer_misbehaved);
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

}  // namespace
}  // namespace gantry
