#include "base/bell.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <array>

#include "base/event.hpp"
#include "base/socket.hpp"
#include "base/test_bells.hpp"

// A bell between processes that wish each other ill; here both are this one.
namespace gantry {
namespace {

bool rings(const Bell& bell) {
  return would_pass(bell.descriptor(), POLLIN);
}

TEST(Bell, IsRungAndDrained) {
  const auto [bell, pull] = *Bell::make();
  EXPECT_FALSE(rings(bell));
  EXPECT_TRUE(bell.drain()) << "nothing to take is not the end";
  for (int i = 0; i < 3; ++i) pull.ring();
  EXPECT_TRUE(rings(bell));
  EXPECT_TRUE(bell.drain());
  EXPECT_FALSE(rings(bell));
}

// Who sleeps keeps a copy of the pull, has it block, and fills it to the brim: a ring that could
// wait would now wait for ever.
TEST(Bell, ThatIsFullAndBlocksKeepsNobody) {
  const auto [bell, pull] = *Bell::make();
  test::fill_and_block(pull.descriptor());
  for (int i = 0; i < 1000; ++i) pull.ring();
  EXPECT_TRUE(rings(bell));
}

TEST(Bell, ThatBlocksIsDrainedWithoutWaiting) {
  const auto [bell, pull] = *Bell::make();
  test::make_blocking(bell.descriptor());
  EXPECT_TRUE(bell.drain());
}

// Who rings has nothing in hand with which it could take a ring away again.
TEST(Bell, IsEmptiedByWhoSleepsAlone) {
  const auto [bell, pull] = *Bell::make();
  pull.ring();
  std::array<char, 8> taken{};
  EXPECT_LT(::recv(pull.descriptor(), taken.data(), taken.size(), MSG_DONTWAIT), 0);
  EXPECT_TRUE(rings(bell));
}

TEST(Bell, TellsWhenItCanBeRungNoMore) {
  auto [bell, pull] = *Bell::make();
  pull.ring();
  pull.reset();
  EXPECT_TRUE(bell.drain()) << "what was rung before counts";
  EXPECT_FALSE(bell.drain());
  auto [other, deaf] = *Bell::make();
  other.reset();
  deaf.ring();  // no signal ends this process
}

TEST(Bell, LeavesItsEpollThoughACopyOfItLives) {
  const Fd epoll(::epoll_create1(EPOLL_CLOEXEC));
  auto [bell, pull] = *Bell::make();
  ASSERT_TRUE(bell.hang_in(epoll.get(), EPOLLIN));
  const Fd copy(::fcntl(bell.descriptor(), F_DUPFD_CLOEXEC, 0));  // as a fork's
  pull.ring();
  ASSERT_TRUE(would_pass(epoll.get(), POLLIN));
  bell.reset();
  EXPECT_FALSE(would_pass(epoll.get(), POLLIN));
}

TEST(Bell, IsAdoptedAndNothingElseIs) {
  auto made = *Bell::make();
  const auto pull = BellPull::adopt(Fd(::fcntl(made.pull.descriptor(), F_DUPFD_CLOEXEC, 0)));
  ASSERT_TRUE(pull);
  pull->ring();
  EXPECT_TRUE(rings(made.bell));
  const test::NoBells none("/tmp");
  for (const int descriptor : none.descriptors()) {
    const auto adopted = BellPull::adopt(Fd(::fcntl(descriptor, F_DUPFD_CLOEXEC, 0)));
    ASSERT_FALSE(adopted) << descriptor;
    EXPECT_EQ(adopted.error().code, Code::peer_misbehaved);
  }
  EXPECT_FALSE(BellPull::adopt(Fd()));
}

// Refused by the kernel, or dropped: none appears here.
TEST(Bell, TakesNoDescriptorsIn) {
  const auto [bell, pull] = *Bell::make();
  const Fd event = *make_event();
  const std::byte ring{};
  const int descriptor = event.get();
  static_cast<void>(send_packet(pull.descriptor(), {&ring, 1}, std::span(&descriptor, 1)));
  const auto next_free = [&] { return Fd(::fcntl(event.get(), F_DUPFD_CLOEXEC, 0)).get(); };
  const int before = next_free();
  EXPECT_TRUE(bell.drain());
  EXPECT_EQ(next_free(), before);
}

}  // namespace
}  // namespace gantry
