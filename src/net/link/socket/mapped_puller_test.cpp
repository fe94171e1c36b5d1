#include "net/link/socket/mapped_puller.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>

#include "core/engine/inline/inline_engine.hpp"

namespace gantry {
namespace {

ReceivedFd copy_of(const Region& region) {
  return ReceivedFd(Fd(::fcntl(region.descriptor(), F_DUPFD_CLOEXEC, 0)));
}

// Sparse memory costs its owner nothing, but whoever maps it address space.
TEST(MappedPuller, MapsNoMoreThanItsLimitAtATime) {
  auto puller = MappedPuller::make(make_inline_engine().value()).value();
  const Region half = Region::create(MappedPuller::kMostMappedBytes / 2, "half").value();
  const Region page = Region::create(4096, "page").value();
  LinkRecord record{LinkRecord::Kind::share};
  record.row_bytes = half.size();
  for (record.key = 1; record.key < 3; ++record.key) {
    const auto within = puller->import(record, copy_of(half));
    ASSERT_TRUE(within) << within.error().message;
  }
  record.row_bytes = page.size();
  const auto beyond = puller->import(record, copy_of(page));
  ASSERT_FALSE(beyond);
  EXPECT_EQ(beyond.error().code, Code::peer_misbehaved);
  EXPECT_FALSE(puller->has(3));
  puller->forget(1);
  puller->forget(1);  // counts once
  EXPECT_TRUE(puller->import(record, copy_of(page)));
  record.key = 4;
  record.row_bytes = MappedPuller::kMostMappedBytes / 2;
  EXPECT_FALSE(puller->import(record, copy_of(half)));
}

}  // namespace
}  // namespace gantry
