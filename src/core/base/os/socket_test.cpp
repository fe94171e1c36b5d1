#include "core/base/os/socket.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/inotify.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "core/base/event.hpp"
#include "core/base/os/memfd.hpp"
#include "core/base/test_refusals.hpp"

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
  const Fd file = *make_memfd("x", 4096);  // what else is left over is closed later
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
  const auto life = peer_pidfd(left.get(), peer->pid);
  ASSERT_TRUE(life);
  EXPECT_TRUE(*life);
}

// A process id may be another's by now: only where the kernel has nothing better is it asked for.
TEST(Socket, TellsThatNoPidfdIsToBeHad) {
  auto [left, right] = pair();
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{0, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const auto life = peer_pidfd(left.get(), ::getpid());
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_FALSE(life);
  EXPECT_EQ(life.error().code, Code::system);
}

// SO_PEERPIDFD alone fails; the number would lead to ourselves.
TEST(Socket, AsksForAProcessByItsNumberOnlyOfAKernelWithoutPeersPidfds) {
  constexpr std::uint32_t kPeerPidfd = 77;  // SO_PEERPIDFD
  const auto code_after = [](int error) {
    return test::in_child([error] {
      if (!test::refuse_calls({{SYS_getsockopt, error, true, 2, kPeerPidfd}}))
        return test::kNoFilters;
      auto [left, right] = pair();
      const auto life = peer_pidfd(left.get(), ::getpid());
      return life ? 0 : static_cast<int>(life.error().code);
    });
  };
  const int without = code_after(ENOPROTOOPT);
  if (without == test::kNoFilters) GTEST_SKIP() << "no filters of system calls here";
  EXPECT_EQ(without, 0);
  EXPECT_EQ(code_after(EPERM), 0) << "a container";
  EXPECT_EQ(code_after(ESRCH), static_cast<int>(Code::peer_gone));
  EXPECT_EQ(code_after(EMFILE), static_cast<int>(Code::system));
}

TEST(Socket, OfADeadPeerGivesNoPidfdOfAnother) {
  auto [left, right] = pair();
  const Folder folder;
  Fd listener = *listen_at(folder.path, "s");
  const pid_t child = ::fork();
  if (child == 0) {
    auto socket = connect_to(folder.path, "s");
    ::_exit(socket ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  const Fd caller(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  // As if the number had been used again, by us.
  const auto life = peer_pidfd(caller.get(), ::getpid());
  if (life && *life) {
    EXPECT_TRUE(would_pass(life->get(), POLLIN)) << "the life of another process";
  }
}

TEST(PeerIdentity, WithoutAPidIsTheSameOnlyIfTheKernelSaysSo) {
  const PeerIdentity here{7, 1, 0};
  EXPECT_TRUE(here.is_same({7, 1, 0}));
  EXPECT_FALSE(here.is_same({8, 1, 0}));
  EXPECT_FALSE(here.is_same({7, 2, 0}));
  const PeerIdentity foreign{0, 1, 0};
  EXPECT_FALSE(foreign.is_same({0, 1, 0}));
  EXPECT_FALSE((PeerIdentity{0, 1, 5}).is_same({0, 1, 6}));
  EXPECT_TRUE((PeerIdentity{0, 1, 5}).is_same({0, 1, 5}));
}

// Nobody who cannot be asked yet can have us close what takes time: the kernel refuses it to him.
TEST(Socket, ThatListensTakesNoDescriptorsIn) {
  const Folder folder;
  Fd listener = *listen_at(folder.path, "s");
  const Fd caller = *connect_to(folder.path, "s");
  const Fd probe(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  int value = 0;
  socklen_t size = sizeof value;
  if (::getsockopt(probe.get(), SOL_SOCKET, 83, &value, &size) != 0)
    GTEST_SKIP() << "SO_PASSRIGHTS needs Linux 6.16";
  const int descriptor = probe.get();
  EXPECT_FALSE(send_packet(caller.get(), bytes_of("x"), std::span(&descriptor, 1)));
  const Fd accepted(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  EXPECT_FALSE(send_packet(caller.get(), bytes_of("x"), std::span(&descriptor, 1)));
  accept_rights(accepted.get(), true);
  EXPECT_TRUE(send_packet(caller.get(), bytes_of("x"), std::span(&descriptor, 1)));
}

// In the folder of another user, who swaps what is there for links to something of ours.
TEST(SocketFile, ChangesNothingElseWhereEntriesAreSwapped) {
  const Folder folder;
  const std::string victim = folder.path + "/victim";
  Fd(::open(victim.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  std::atomic<bool> done = false;
  std::thread attacker([&] {
    const std::string link = folder.path + "/link", entry = folder.path + "/.s.new";
    while (!done.load(std::memory_order_relaxed)) {  // relaxed: only ends the loop
      ::rename(entry.c_str(), (folder.path + "/aside").c_str());
      if (::symlink(victim.c_str(), link.c_str()) == 0) ::rename(link.c_str(), entry.c_str());
    }
  });
  struct stat facts{};
  for (int i = 0; i < 3000; ++i) {
    static_cast<void>(listen_at(folder.path, "s", {.mode = 0666}));
    if (::stat(victim.c_str(), &facts) != 0 || (facts.st_mode & 0777u) != 0600u) break;
  }
  done = true;
  attacker.join();
  EXPECT_EQ(facts.st_mode & 0777u, 0600u);
}

// Or swaps his own folder in, where he could reach the socket before it has its mode.
TEST(SocketFile, IsMadeInNoFolderThatWasSwappedIn) {
  const Folder folder;
  const std::string theirs = folder.path + "/theirs", entry = folder.path + "/.s.new";
  ASSERT_EQ(::mkdir(theirs.c_str(), 0700), 0);
  ASSERT_EQ(::chmod(theirs.c_str(), 0777), 0);  // whoever it belongs to
  Fd(::open((theirs + "/keep").c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  const Fd watch(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  if (!watch || ::inotify_add_watch(watch.get(), theirs.c_str(), IN_CREATE | IN_MOVED_TO) < 0)
    GTEST_SKIP() << "no inotify left for this user";
  std::atomic<bool> done = false;
  std::thread attacker([&] {
    while (!done.load(std::memory_order_relaxed))  // relaxed: only ends the loop
      ::renameat2(AT_FDCWD, theirs.c_str(), AT_FDCWD, entry.c_str(), RENAME_EXCHANGE);
  });
  std::array<char, 4096> events;  // NOLINT: filled by read
  ssize_t made = 0;
  for (int i = 0; i < 3000 && made <= 0; ++i) {
    static_cast<void>(listen_at(folder.path, "s", {.mode = 0666}));
    made = ::read(watch.get(), events.data(), events.size());
  }
  done = true;
  attacker.join();
  EXPECT_LE(made, 0) << "something was made in the other folder";
}

TEST(SocketFile, RemovesNothingFromAFolderThatIsNotPrivate) {
  const Folder folder;
  const std::string theirs = folder.path + "/.s.new", file = theirs + "/socket";
  ASSERT_EQ(::mkdir(theirs.c_str(), 0700), 0);
  ASSERT_EQ(::chmod(theirs.c_str(), 0777), 0);
  Fd(::open(file.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  EXPECT_EQ(listen_at(folder.path, "s").error().code, Code::already_exists);
  EXPECT_TRUE(std::filesystem::exists(file));
}

// Nor by a link to a folder of ours.
TEST(SocketFile, RemovesNothingThroughALink) {
  const Folder folder;
  const std::string ours = folder.path + "/ours", file = ours + "/socket";
  ASSERT_EQ(::mkdir(ours.c_str(), 0700), 0);
  Fd(::open(file.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  ASSERT_EQ(::symlink(ours.c_str(), (folder.path + "/.s.new").c_str()), 0);
  EXPECT_TRUE(listen_at(folder.path, "s"));
  EXPECT_TRUE(std::filesystem::exists(file));
}

TEST(Socket, PollTimeoutNeverEndsEarly) {
  EXPECT_EQ(poll_timeout_ms(Deadline::never()), -1);
  EXPECT_EQ(poll_timeout_ms(Deadline::now()), 0);
  EXPECT_GE(poll_timeout_ms(Deadline::after(std::chrono::microseconds(1'500'200))), 1500);
}

}  // namespace
}  // namespace gantry
