#include "base/socket.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <array>
#include <cstdlib>
#include <filesystem>

namespace gantry {
namespace {

struct Folder {
  Folder() { EXPECT_NE(::mkdtemp(path.data()), nullptr); }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string path = "/tmp/gantry-socket-XXXXXX";
};

std::pair<Fd, Fd> pair() {
  std::array<int, 2> ends{};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
  return {Fd(ends[0]), Fd(ends[1])};
}

ConstByteSpan bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

TEST(Socket, CarriesBytesAndDescriptors) {
  auto [left, right] = pair();
  const Fd file(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const int descriptor = file.get();
  ASSERT_TRUE(send_packet(left.get(), bytes_of("hello"), std::span(&descriptor, 1)));
  std::array<std::byte, 16> buffer{};
  auto packet = receive_packet(right.get(), buffer, Deadline::never());
  ASSERT_TRUE(packet);
  EXPECT_EQ(packet->size, 5u);
  ASSERT_EQ(packet->fds.size(), 1u);
  struct stat sent{}, got{};
  ASSERT_EQ(::fstat(descriptor, &sent), 0);
  ASSERT_EQ(::fstat(packet->fds[0].get(), &got), 0);
  EXPECT_EQ(sent.st_rdev, got.st_rdev);
  EXPECT_NE(::fcntl(packet->fds[0].get(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST(Socket, RefusesWhatDoesNotFitAndLeaksNoDescriptor) {
  auto [left, right] = pair();
  const Fd file(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const int descriptor = file.get();
  ASSERT_TRUE(send_packet(left.get(), bytes_of("far too long"), std::span(&descriptor, 1)));
  std::array<std::byte, 4> buffer{};
  const int next_free = ::dup(0);
  ::close(next_free);
  auto packet = receive_packet(right.get(), buffer, Deadline::never());
  ASSERT_FALSE(packet);
  EXPECT_EQ(packet.error().code, Code::peer_misbehaved);
  const int still_free = ::dup(0);
  ::close(still_free);
  EXPECT_EQ(next_free, still_free);
}

TEST(Socket, TellsHangUpFromSilence) {
  auto [left, right] = pair();
  std::array<std::byte, 4> buffer{};
  const auto silent = receive_packet(right.get(), buffer, Deadline::now());
  ASSERT_FALSE(silent);
  EXPECT_EQ(silent.error().code, Code::timed_out);
  left.reset();
  const auto closed = receive_packet(right.get(), buffer, Deadline::never());
  ASSERT_TRUE(closed);
  EXPECT_EQ(closed->size, 0u);
  EXPECT_EQ(send_packet(right.get(), bytes_of("x")).error().code, Code::peer_gone);
}

TEST(Socket, ListensInFoldersOfAnyLengthForItsUserOnly) {
  const Folder folder;
  const std::string deep = folder.path + "/" + std::string(120, 'd');
  ASSERT_EQ(::mkdir(deep.c_str(), 0700), 0);
  for (const std::string& place : {folder.path, deep}) {
    bool stale = true;
    EXPECT_EQ(connect_to(place, "s", &stale).error().code, Code::not_found);
    EXPECT_FALSE(stale);
    auto listener = listen_at(place, "s");
    ASSERT_TRUE(listener) << listener.error().message;
    struct stat facts{};
    ASSERT_EQ(::stat((place + "/s").c_str(), &facts), 0);
    EXPECT_EQ(facts.st_mode & 0777u, 0600u);
    EXPECT_TRUE(connect_to(place, "s"));
    listener->reset();
    EXPECT_EQ(connect_to(place, "s", &stale).error().code, Code::not_found);
    EXPECT_TRUE(stale);
  }
}

TEST(Socket, KnowsItsPeer) {
  auto [left, right] = pair();
  const auto peer = peer_of(left.get());
  ASSERT_TRUE(peer);
  EXPECT_EQ(peer->pid, ::getpid());
  EXPECT_EQ(peer->uid, ::geteuid());
  EXPECT_TRUE(peer_pidfd(left.get(), peer->pid));
}

TEST(Socket, PollTimeoutNeverEndsEarly) {
  EXPECT_EQ(poll_timeout_ms(Deadline::never()), -1);
  EXPECT_EQ(poll_timeout_ms(Deadline::now()), 0);
  EXPECT_GE(poll_timeout_ms(Deadline::after(std::chrono::microseconds(1'500'200))), 1500);
}

}  // namespace
}  // namespace gantry
