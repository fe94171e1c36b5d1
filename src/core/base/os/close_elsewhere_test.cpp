#include "core/base/os/close_elsewhere.hpp"

#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <memory>
#include <thread>

#include "core/base/os/memfd.hpp"
#include "core/base/os/socket.hpp"
#include "core/base/test_lingering.hpp"

namespace gantry {
namespace {

using Pair = std::array<Fd, 2>;

Pair make_pair_of(int type) {
  std::array<int, 2> ends{};
  EXPECT_EQ(::socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends.data()), 0);
  return {Fd(ends[0]), Fd(ends[1])};
}

void send_descriptor(int socket, int descriptor, Bytes bytes = 1) {
  const std::array<std::byte, 8> payload{};
  EXPECT_TRUE(send_packet(socket, std::span(payload).first(bytes), std::span(&descriptor, 1)));
}

TEST(ReceivedFds, ThatNobodyTookAreClosedWithoutWaiting) {
  test::Lingering lingering;
  auto [left, right] = make_pair_of(SOCK_SEQPACKET);
  send_descriptor(left.get(), lingering.socket());
  lingering.drop_own_copy();
  std::array<std::byte, 8> payload{};
  EXPECT_EQ(receive_packet(right.get(), payload, Deadline::now())->fds.size(), 1u);
}

// However many there are. Their threads are as many as there may be, and end when they can.
TEST(ReceivedFds, OfAFloodTakeFewThreads) {
  const auto threads = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/task"),
                         std::filesystem::directory_iterator());
  };
  std::thread([] {}).join();  // ThreadSanitizer starts one of its own beside the first
  const auto before = threads();
  {
    std::vector<std::unique_ptr<test::Lingering>> all;
    for (int i = 0; i < 40; ++i) {
      all.push_back(std::make_unique<test::Lingering>());
      auto [left, right] = make_pair_of(SOCK_STREAM);     // of what lies in a queue nobody can take
      send_descriptor(left.get(), all.back()->socket());  // the lingering away
      all.back()->drop_own_copy();
      const ReceivedFd received(std::move(right));
      EXPECT_LE(threads(), before + 16);
    }
  }
  while (threads() > before) std::this_thread::yield();
}

// Also if nothing that takes time is closed ever again.
TEST(ReceivedFds, ThatFoundNoThreadAreClosedOnceOneCanBeStarted) {
  for (const bool by_socket : {false, true}) {
    test::Lingering lingering;
    const int waiting = test::close_without_threads(lingering);
    if (waiting < 0) GTEST_SKIP() << "no filters of system calls";
    EXPECT_TRUE(test::is_open(waiting));
    auto [left, right] = make_pair_of(SOCK_STREAM);
    Fd memory = *make_memfd("x", 4096);
    by_socket ? close_socket(std::move(right)) : close_elsewhere({&memory, 1});
    while (test::is_open(waiting)) std::this_thread::yield();
  }
}

TEST(ReceivedFds, BeyondWhatAPacketMayHaveAreClosedWithoutWaiting) {
  test::Lingering lingering;
  auto [left, right] = make_pair_of(SOCK_SEQPACKET);
  const std::vector<int> many(kMaxPacketFds + 1, lingering.socket());
  const std::byte byte{};
  EXPECT_TRUE(send_packet(left.get(), {&byte, 1}, many));
  lingering.drop_own_copy();
  std::array<std::byte, 8> payload{};
  const auto packet = receive_packet(right.get(), payload, Deadline::now());
  ASSERT_FALSE(packet);
  EXPECT_EQ(packet.error().code, Code::peer_misbehaved);
}

TEST(ReceivedFds, OfMemoryAreClosedAtOnce) {
  auto [left, right] = make_pair_of(SOCK_SEQPACKET);
  Fd memory = *make_memfd("x", 4096);
  send_descriptor(left.get(), memory.get());
  std::array<std::byte, 8> payload{};
  const int next_free = Fd(::fcntl(0, F_DUPFD_CLOEXEC, 0)).get();
  ASSERT_EQ(receive_packet(right.get(), payload, Deadline::now())->fds.size(), 1u);
  EXPECT_EQ(Fd(::fcntl(0, F_DUPFD_CLOEXEC, 0)).get(), next_free);
}

// In its queue lies what takes time to close; also behind a packet without a byte.
TEST(CloseSocket, DoesNotWaitForWhatLiesInItsQueue) {
  for (const int type : {SOCK_SEQPACKET, SOCK_STREAM}) {
    test::Lingering lingering;
    auto [left, right] = make_pair_of(type);
    if (type == SOCK_SEQPACKET) {
      ASSERT_TRUE(send_packet(left.get(), {}));
    }
    send_descriptor(left.get(), lingering.socket(), 1);
    lingering.drop_own_copy();
    close_socket(std::move(right));
  }
}

TEST(CloseSocket, KnowsAnEmptyPacketFromTheEnd) {
  auto [left, right] = make_pair_of(SOCK_SEQPACKET);
  EXPECT_FALSE(ends_with_packets(right.get()));
  auto [other, full] = make_pair_of(SOCK_SEQPACKET);
  ASSERT_TRUE(send_packet(other.get(), {}));
  EXPECT_TRUE(ends_with_packets(full.get()));
  EXPECT_FALSE(send_packet(other.get(), {})) << "it is deaf";
}

}  // namespace
}  // namespace gantry
