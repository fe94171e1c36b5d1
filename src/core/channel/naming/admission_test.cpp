// Who is let in, who is not, and what both cost the others.
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <gantry/call.hpp>
#include <thread>

#include "core/base/event.hpp"
#include "core/base/test_lingering.hpp"
#include "core/channel/naming/rendezvous.hpp"
#include "core/channel/test_child.hpp"
#include "core/channel/test_raw_consumer.hpp"
#include "core/channel/test_raw_producer.hpp"
#include "core/channel/wire/protocol.hpp"

namespace gantry {
namespace {

using test::consumer_options;
using test::make_producer;
using test::options_in;
using test::pattern;
using test::same;
using test::soon;

std::size_t open_threads() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/task"))
    ++count;
  return count;
}

// One that was joined is listed for a moment more.
bool has_threads(std::size_t expected) {
  const Deadline deadline = soon();
  while (open_threads() != expected && !deadline.passed()) std::this_thread::yield();
  return open_threads() == expected;
}

class Admission : public testing::Test {
 protected:
  // ThreadSanitizer starts a thread of its own beside the first.
  void SetUp() override {
    pid_t first = 0;
    std::thread([&] { first = ::gettid(); }).join();
    while (std::filesystem::exists("/proc/self/task/" + std::to_string(first)))
      std::this_thread::yield();
  }
  Fd call(const char* name = "frames.sock") { return *connect_to(directory_.path(), name); }
  static bool has_hung_up(const Fd& socket) { return would_pass(socket.get(), POLLHUP); }
  void expect_served(Producer& out, SlowConsumer policy = SlowConsumer::block) {
    ConsumerOptions options = consumer_options(options_);
    options.when_slow = policy;
    auto in = Consumer::open("frames", options, soon());
    ASSERT_TRUE(in) << to_string(in.error());
    ASSERT_TRUE(out.send(pattern(1000, 1), soon()));
    EXPECT_TRUE(same(in->receive(soon())->bytes(), pattern(1000, 1)));
  }
  void welcome(const Fd& socket) {
    ASSERT_TRUE(send_hello(socket.get(), Purpose::join));
    ASSERT_TRUE(expect(*receive_wire(socket.get(), soon()), PacketKind::welcome, 3));
  }

  test::ScratchDirectory directory_;
  ProducerOptions options_ = options_in(directory_);
};

// ---- those that come and go ----------------------------------------------------------------

/// How many descriptors this process may have, for a while.
class DescriptorLimit {
 public:
  explicit DescriptorLimit(std::size_t most) {
    EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &before_), 0);
    const rlimit now{most, before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &now), 0);
  }
  ~DescriptorLimit() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  DescriptorLimit(const DescriptorLimit&) = delete;
  DescriptorLimit& operator=(const DescriptorLimit&) = delete;

 private:
  rlimit before_{};
};

// From one process that lives on. GANTRY_JOINS: how often.
TEST_F(Admission, JoiningAndLeavingLeavesNothing) {
  const char* const wish = std::getenv("GANTRY_JOINS");
  const int times = wish != nullptr ? std::atoi(wish) : 300;
  auto out = *make_producer("frames", options_);
  expect_served(out);
  const std::size_t threads = open_threads();
  const DescriptorLimit limit(test::open_descriptors() + 40);
  for (int i = 0; i < times; ++i) {
    auto in = Consumer::open("frames", consumer_options(options_), soon());
    ASSERT_TRUE(in) << i << ": " << to_string(in.error());
    ASSERT_TRUE(out.wait_for_consumer(soon()));
    in = tl::unexpected(Error{});
    while (out.explain().status.consumers.size() != 0) std::this_thread::yield();
  }
  EXPECT_TRUE(has_threads(threads));
  expect_served(out);
}

// To leave in the middle of coming would cost its producer the stream.
TEST_F(Admission, AProducerThatIsThereIsJoinedWithoutTimeToLookForIt) {
  for (std::uint64_t i = 0; i < 50; ++i) {
    auto out = *make_producer("frames", options_);
    auto in = Consumer::open("frames", consumer_options(options_), Deadline::now());
    ASSERT_TRUE(in) << to_string(in.error());
    ASSERT_TRUE(out.send(pattern(1000, i), soon()));
    EXPECT_TRUE(same(in->receive(soon())->bytes(), pattern(1000, i)));
  }
}

// With messages in hand, which it releases later.
TEST_F(Admission, LeavingWithMessagesInHandLeavesNothing) {
  auto out = *make_producer("frames", options_);
  expect_served(out);
  const DescriptorLimit limit(test::open_descriptors() + 40);
  for (int i = 0; i < 300; ++i) {
    auto in = Consumer::open("frames", consumer_options(options_), soon());
    ASSERT_TRUE(in) << i << ": " << to_string(in.error());
    ASSERT_TRUE(out.send(pattern(1000, 2), soon()));
    auto message = in->receive(soon());
    ASSERT_TRUE(message);
    in = tl::unexpected(Error{});
    EXPECT_TRUE(same(message->bytes(), pattern(1000, 2)));
  }
  expect_served(out);
}

// All ends that are given one acceptor share its thread, and what they cost goes when they close.
TEST_F(Admission, ManyChannelsHaveOneThread) {
  constexpr int kChannels = 100;
  const std::size_t threads = open_threads(), descriptors = test::open_descriptors();
  options_.acceptor = *make_acceptor();
  {
    std::vector<Producer> outs;
    std::vector<Consumer> ins;
    for (int i = 0; i < kChannels; ++i) {
      const std::string name = "frames" + std::to_string(i);
      outs.push_back(*make_producer(name, options_));
      ins.push_back(*Consumer::open(name, consumer_options(options_), soon()));
      const auto number = static_cast<std::uint64_t>(i);
      for (const Bytes size : {60, 5000}) {  // in the ring, and in a slab
        ASSERT_TRUE(outs.back().send(pattern(size, number), soon()));
        EXPECT_TRUE(same(ins.back().receive(soon())->bytes(), pattern(size, number)));
      }
    }
    EXPECT_TRUE(has_threads(threads + 1));
    constexpr std::size_t kMostAChannel = 12, kShared = 4;  // both ends; see many_channels_test.cpp
    EXPECT_LE(test::open_descriptors() - descriptors, kChannels * kMostAChannel + kShared);
  }
  options_.acceptor.reset();
  EXPECT_TRUE(has_threads(threads));
  EXPECT_EQ(test::open_descriptors(), descriptors);
}

// It is a state with a way back, and no reason to spin.
TEST_F(Admission, WithoutDescriptorsThereIsAWayBack) {
  auto out = *make_producer("frames", options_);
  expect_served(out);
  std::vector<Fd> taken;
  {
    const DescriptorLimit limit(test::descriptors_at_rest() + 2);
    for (Fd fd(::dup(0)); fd; fd.reset(::dup(0))) taken.emplace_back(fd.release());
    taken.pop_back();
    const Fd caller = call();  // which takes the last one: there is none to accept it
    const auto answer = receive_wire(caller.get(), soon());
    ASSERT_TRUE(answer) << to_string(answer.error());
    EXPECT_EQ(answer->packet.kind, PacketKind::refused);
    EXPECT_EQ(static_cast<Code>(answer->packet.reason), Code::system);
    taken.clear();
  }
  expect_served(out);
}

// ---- strangers -----------------------------------------------------------------------------

// The newest of them is still there when an honest one has come: no time had to pass for that.
TEST_F(Admission, SilentCallersDoNotStarveOthers) {
  auto out = *make_producer("frames", options_);
  std::vector<Fd> silent;
  while (silent.size() < 200)
    if (auto socket = connect_to(directory_.path(), "frames.sock"))
      silent.push_back(std::move(*socket));
  expect_served(out);
  EXPECT_FALSE(has_hung_up(silent.back()));
  EXPECT_TRUE(has_hung_up(silent.front())) << "the oldest went first";
}

// Whoever is not admitted is sent away before it says anything.
TEST_F(Admission, OfAnotherUserEndsBeforeItSpeaks) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can play another user";
  ASSERT_EQ(::chmod(directory_.path().c_str(), 0711), 0);
  options_.access.socket_mode = 0666;
  options_.access.users = {1};
  auto out = *make_producer("frames", options_);
  test::Child stranger([&](const test::Child& self) {
    if (::setuid(54321) != 0) ::_exit(2);
    std::vector<Fd> silent;
    for (int i = 0; i < 64; ++i) silent.push_back(call());
    for (const Fd& one : silent) {
      const auto answer = receive_wire(one.get(), soon());
      if (!answer || answer->packet.kind != PacketKind::refused) ::_exit(1);
    }
    options_.access.users = {0};
    const auto in = Consumer::open("frames", consumer_options(options_), soon());
    self.report();
    ::_exit(!in && in.error().code == Code::permission_denied ? 0 : 3);
  });
  stranger.await_report();
  EXPECT_EQ(stranger.wait(), 0);
  expect_served(out);
}

/// Sends `fds`, the last copy of `lingering` among them. A kernel that refuses that has done its
/// part.
void send_lingering(const Fd& socket, const WirePacket& packet, std::span<const int> fds,
                    test::Lingering& lingering) {
  if (send_packet(socket.get(), std::as_bytes(std::span(&packet, 1)), fds))
    lingering.drop_own_copy();
}

// From the version of the answer it learns why it was refused.
TEST_F(Admission, WhoSpeaksAnotherFormatHearsWhichIsSpokenHere) {
  auto out = *make_producer("frames", options_);
  WirePacket packet;
  packet.version = kFormatVersion - 1;
  packet.kind = PacketKind::hello;
  packet.purpose = Purpose::join;
  const Fd socket = call();
  ASSERT_TRUE(send_packet(socket.get(), std::as_bytes(std::span(&packet, 1)), {}));
  const auto answer = receive_wire(socket.get(), soon());
  ASSERT_TRUE(answer) << to_string(answer.error());
  ASSERT_FALSE(answer->closed);
  EXPECT_EQ(answer->packet.kind, PacketKind::refused);
  EXPECT_EQ(answer->packet.version, kFormatVersion);
  expect_served(out);
}

// To close what it sent takes longer than any of the waits here.
TEST_F(Admission, WhatTakesTimeToCloseHoldsUpNobody) {
  test::Lingering in_hello, in_join, too_many;
  auto out = *make_producer("frames", options_);
  WirePacket packet;
  packet.version = kFormatVersion;
  packet.kind = PacketKind::hello;
  packet.purpose = Purpose::join;
  const Fd first = call();
  const std::array<int, 1> one{in_hello.socket()};
  send_lingering(first, packet, one, in_hello);
  expect_served(out);
  packet.kind = PacketKind::join;
  const Fd second = call(), third = call();
  welcome(second);
  const std::array<int, 3> three{in_join.socket(), in_join.socket(), in_join.socket()};
  send_lingering(second, packet, three, in_join);
  expect_served(out);
  welcome(third);
  const std::vector<int> many(kMaxPacketFds + 1, too_many.socket());
  send_lingering(third, packet, many, too_many);
  expect_served(out);
}

// What lies in the queue of a wake-up socket that it gives goes the same way.
TEST_F(Admission, AWakeSenderWithSomethingInItsQueueHoldsUpNobody) {
  test::Lingering lingering;
  auto out = *make_producer("frames", options_);
  std::array<int, 2> ends{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
  Fd mine(ends[0]), given(ends[1]);
  const std::byte byte{};
  const int descriptor = lingering.socket();
  ASSERT_TRUE(send_packet(mine.get(), {&byte, 1}, std::span(&descriptor, 1)));
  lingering.drop_own_copy();
  const Fd socket = call();
  welcome(socket);
  const Region page = *Region::create(shared_size(sizeof(ConsumerPage)), "x");
  test::make_consumer_page(page);
  const auto metrics = *MetricsMaker::make_own();
  WirePacket packet;
  packet.version = kFormatVersion;
  packet.kind = PacketKind::join;
  const std::array<int, 3> fds{page.descriptor(), given.get(), metrics.descriptor()};
  ASSERT_TRUE(send_wire(socket.get(), packet, fds));
  std::thread([last = std::move(given)]() mutable {
    last.reset();
  }).detach();  // perhaps the last copy
  mine.reset();
  expect_served(out);
}

// After joining, too: a producer that came to an inbox sends it where slabs are due.
TEST_F(Admission, WhatAJoinedProducerSendsHoldsUpNoInbox) {
  test::Lingering lingering;
  auto in = *Inbox::open("in", {.channel = consumer_options(options_)});
  test::RawProducer hostile;
  const Fd socket = call("in.sock");
  hostile.join(socket);
  WirePacket packet;
  packet.version = kFormatVersion;
  packet.kind = PacketKind::slab;
  packet.bytes = 4096;
  const std::array<int, 1> one{lingering.socket()};
  send_lingering(socket, packet, one, lingering);
  hostile.publish(1, test::RawProducer::block(0, 0, 1000));  // has it look for slabs
  hostile.wake();
  auto honest = Producer::connect("in", options_, std::make_shared<test::PlainEngine>(), soon());
  ASSERT_TRUE(honest) << to_string(honest.error());
  ASSERT_TRUE(honest->send(pattern(1000, 3), soon()));
  const auto delivery = in.receive(soon());
  ASSERT_TRUE(delivery) << to_string(delivery.error());
  EXPECT_TRUE(same(delivery->message.bytes(), pattern(1000, 3)));
}

// ---- what a producer forbids ---------------------------------------------------------------

TEST_F(Admission, OfConsumersThatBlockCanBeForbidden) {
  options_.consumers_may_block = false;
  auto out = *make_producer("frames", options_);
  const auto refused = Consumer::open("frames", consumer_options(options_), soon());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::permission_denied);
  EXPECT_NE(refused.error().message.find("block"), std::string::npos) << refused.error().message;
  EXPECT_NE(refused.error().hint.find("when_slow"), std::string::npos) << refused.error().hint;
  expect_served(out, SlowConsumer::drop_oldest);
}

// ---- names ---------------------------------------------------------------------------------

// Meanwhile somebody else takes the name, and gets the number of its inode as soon as that is free.
TEST(Claim, DoesNotTakeAReusedInodeNumberForItsOwn) {
  const test::ScratchDirectory scratch;
  const std::string path = scratch.path() + "/x.sock";
  const Fd lock(::open(scratch.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  auto claim = Claim::take(scratch.path(), "x");
  ASSERT_TRUE(claim);
  ASSERT_EQ(::flock(lock.get(), LOCK_EX), 0);
  struct stat ours{}, theirs{};
  ASSERT_EQ(::stat(path.c_str(), &ours), 0);
  std::filesystem::remove(path);
  std::thread leaving([&] { claim->give_up(); });
  Fd other;
  // It has closed its listener when the number comes again; a claim that has not keeps it.
  for (int tries = 0; tries < 200 && theirs.st_ino != ours.st_ino; ++tries) {
    other = *listen_at(scratch.path(), "x.sock");
    ASSERT_EQ(::stat(path.c_str(), &theirs), 0);
  }
  ASSERT_EQ(::flock(lock.get(), LOCK_UN), 0);
  leaving.join();
  EXPECT_TRUE(std::filesystem::exists(path)) << "the other's";
}

// A process that is stopped inside the lock keeps whoever drops an end neither waiting nor from
// removing its name.
TEST(Claim, IsGivenUpWhileAnotherKeepsTheDirectoryLocked) {
  const test::ScratchDirectory scratch;
  const Fd lock(::open(scratch.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  auto claim = Claim::take(scratch.path(), "x");
  ASSERT_TRUE(claim);
  ASSERT_EQ(::flock(lock.get(), LOCK_EX), 0);
  claim->give_up();
  EXPECT_TRUE(scratch.is_empty());
}

}  // namespace
}  // namespace gantry
