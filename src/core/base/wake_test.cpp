#include "core/base/wake.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <array>

#include "core/base/event.hpp"
#include "core/base/os/socket.hpp"
#include "core/base/test_wakes.hpp"

// A wake-up socket between processes that wish each other ill; here both are this one.
namespace gantry {
namespace {

bool rings(const WakeReceiver& wake_receiver) {
  return would_pass(wake_receiver.descriptor(), POLLIN);
}

TEST(WakeReceiver, IsRungAndDrained) {
  const auto [wake_receiver, wake_sender] = *WakeReceiver::make();
  EXPECT_FALSE(rings(wake_receiver));
  EXPECT_TRUE(wake_receiver.drain()) << "nothing to take is not the end";
  for (int i = 0; i < 3; ++i) wake_sender.ring();
  EXPECT_TRUE(rings(wake_receiver));
  EXPECT_TRUE(wake_receiver.drain());
  EXPECT_FALSE(rings(wake_receiver));
}

// Who sleeps keeps a copy of the wake-up sender, has it block, and fills it to the brim: a ring
// that could wait would now wait for ever.
TEST(WakeReceiver, ThatIsFullAndBlocksKeepsNobody) {
  const auto [wake_receiver, wake_sender] = *WakeReceiver::make();
  test::fill_and_block(wake_sender.descriptor());
  for (int i = 0; i < 1000; ++i) wake_sender.ring();
  EXPECT_TRUE(rings(wake_receiver));
}

TEST(WakeReceiver, ThatBlocksIsDrainedWithoutWaiting) {
  const auto [wake_receiver, wake_sender] = *WakeReceiver::make();
  test::make_blocking(wake_receiver.descriptor());
  EXPECT_TRUE(wake_receiver.drain());
}

// Who rings has nothing in hand with which it could take a ring away again.
TEST(WakeReceiver, IsEmptiedByWhoSleepsAlone) {
  const auto [wake_receiver, wake_sender] = *WakeReceiver::make();
  wake_sender.ring();
  std::array<char, 8> taken{};
  EXPECT_LT(::recv(wake_sender.descriptor(), taken.data(), taken.size(), MSG_DONTWAIT), 0);
  EXPECT_TRUE(rings(wake_receiver));
}

TEST(WakeReceiver, TellsWhenItCanBeRungNoMore) {
  auto [wake_receiver, wake_sender] = *WakeReceiver::make();
  wake_sender.ring();
  wake_sender.reset();
  EXPECT_TRUE(wake_receiver.drain()) << "what was rung before counts";
  EXPECT_FALSE(wake_receiver.drain());
  auto [other, deaf] = *WakeReceiver::make();
  other.reset();
  deaf.ring();  // no signal ends this process
}

TEST(WakeReceiver, LeavesItsEpollThoughACopyOfItLives) {
  const Fd epoll(::epoll_create1(EPOLL_CLOEXEC));
  auto [wake_receiver, wake_sender] = *WakeReceiver::make();
  ASSERT_TRUE(wake_receiver.hang_in(epoll.get(), EPOLLIN));
  const Fd copy(::fcntl(wake_receiver.descriptor(), F_DUPFD_CLOEXEC, 0));  // as a fork's
  wake_sender.ring();
  ASSERT_TRUE(would_pass(epoll.get(), POLLIN));
  wake_receiver.reset();
  EXPECT_FALSE(would_pass(epoll.get(), POLLIN));
}

TEST(WakeReceiver, IsAdoptedAndNothingElseIs) {
  auto made = *WakeReceiver::make();
  const auto wake_sender =
      WakeSender::adopt(Fd(::fcntl(made.wake_sender.descriptor(), F_DUPFD_CLOEXEC, 0)));
  ASSERT_TRUE(wake_sender);
  wake_sender->ring();
  EXPECT_TRUE(rings(made.wake_receiver));
  const test::NoWakes none("/tmp");
  for (const int descriptor : none.descriptors()) {
    const auto adopted = WakeSender::adopt(Fd(::fcntl(descriptor, F_DUPFD_CLOEXEC, 0)));
    ASSERT_FALSE(adopted) << descriptor;
    EXPECT_EQ(adopted.error().code, Code::peer_misbehaved);
  }
  EXPECT_FALSE(WakeSender::adopt(Fd()));
}

// Refused by the kernel, or dropped: none appears here.
TEST(WakeReceiver, TakesNoDescriptorsIn) {
  const auto [wake_receiver, wake_sender] = *WakeReceiver::make();
  const Fd event = *make_event();
  const std::byte ring{};
  const int descriptor = event.get();
  static_cast<void>(send_packet(wake_sender.descriptor(), {&ring, 1}, std::span(&descriptor, 1)));
  const auto next_free = [&] { return Fd(::fcntl(event.get(), F_DUPFD_CLOEXEC, 0)).get(); };
  const int before = next_free();
  EXPECT_TRUE(wake_receiver.drain());
  EXPECT_EQ(next_free(), before);
}

}  // namespace
}  // namespace gantry
