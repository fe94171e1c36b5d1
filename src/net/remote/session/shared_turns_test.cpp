// Who takes a side's turns: its own thread, or one that waits for a message or has sent one.
#include "net/remote/session/session.hpp"

#include <sys/socket.h>

#include <thread>

#include "core/base/event.hpp"
#include "core/base/os/socket.hpp"
#include "core/channel/test_support.hpp"
#include "net/remote/session/receiving_side.hpp"
#include "net/remote/session/sending_side.hpp"

namespace gantry {
namespace {

using test::soon;

/// Counts what comes, and remembers who took it in. What is given to it goes out.
class CountingSide final : public RemoteSide {
 public:
  Result<void> begin(Link&, std::uint64_t) override { return {}; }
  Result<Turn> turn(Link& link) override {
    const bool is_new =
        turns_by_.exchange(std::this_thread::get_id()) != std::this_thread::get_id();
    if (is_new) ring(turned_.get());
    if (given_.exchange(0) != 0) {
      EXPECT_TRUE(link.send_control(std::as_bytes(std::span("sent")), Deadline::now()));
      return Turn::moved;
    }
    std::array<std::byte, 64> buffer{};
    const auto size = link.receive_control(buffer, Deadline::now());
    if (size) {
      received_by_ = std::this_thread::get_id();
      ++received_;
      ring(received_event_.get());
      return Turn::moved;
    }
    if (size.error().code != Code::timed_out) return tl::unexpected(size.error());
    return link.poll() ? Turn::moved : Turn::idle;
  }
  bool may_rest() const noexcept override { return may_rest_; }
  RemoteEnd end(Link&, const Result<void>& done) override {
    if (!done) return {RemoteEnd::Kind::broken, done.error()};
    return {RemoteEnd::Kind::stopped, {}};
  }
  std::uint64_t received() const noexcept override { return received_; }

  const Fd turned_ = make_event().value();  // another thread than before took a turn
  const Fd received_event_ = make_event().value();
  std::atomic<std::thread::id> turns_by_;
  std::atomic<std::thread::id> received_by_;
  std::atomic<std::uint64_t> received_ = 0;
  std::atomic<int> given_ = 0;
  std::atomic<bool> may_rest_ = true;
};

class SharedTurnsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::array<int, 2> ends{};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
    auto link = make_stream_link(ends[0], {"there", std::chrono::milliseconds(0)}).value();
    peer_ = make_stream_link(ends[1], {"here", std::chrono::milliseconds(0)}).value();
    thread_ = std::thread([this, link = std::shared_ptr<Link>(std::move(link))] {
      end_ = turns_.run(side_, link, 0);
      ring(over_.get());
    });
    await(side_.turned_.get());  // by its own thread
  }
  void TearDown() override {
    ring(stop_.get());
    thread_.join();
  }

  static void await(int event) {
    ASSERT_TRUE(wait_readable(event, soon()).value());
    drain(event);
  }
  /// Begins to receive in a thread of its own, and returns once that takes the turns.
  std::jthread begin_to_receive() {
    user_ = side_.turns_by_ = std::thread::id();  // an id may be used again
    std::jthread user([this] {
      user_ = std::this_thread::get_id();
      // Its own thread may be in the middle of a turn; whoever is told so may ask again here.
      while (!(has_received_ = turns_.receive(soon(), interrupt_.get(), [] { return false; })) &&
             side_.turns_by_ != user_.load() && !is_readable(over_.get())) {
      }
    });
    while (side_.turns_by_ == std::thread::id() || side_.turns_by_ != user_.load())
      await(side_.turned_.get());
    return user;
  }
  void say() { ASSERT_TRUE(peer_->send_control(std::as_bytes(std::span("news")), soon())); }

  const Fd stop_ = make_event().value();
  const Fd over_ = make_event().value();
  const Fd interrupt_ = make_event().value();
  CountingSide side_;
  SharedTurns turns_{stop_.get(), make_event().value()};
  std::unique_ptr<Link> peer_;
  RemoteEnd end_;
  std::atomic<std::thread::id> user_;
  std::atomic<bool> has_received_ = false;
  std::thread thread_;
};

TEST_F(SharedTurnsTest, WhoWaitsReceivesItself) {
  for (int i = 0; i < 50; ++i) {
    std::jthread user = begin_to_receive();
    say();
    user.join();
    EXPECT_TRUE(has_received_);
    EXPECT_EQ(side_.received_by_.load(), user_.load());
  }
  EXPECT_EQ(side_.received_, 50u);
}

TEST_F(SharedTurnsTest, WhatComesWhenNobodyWaitsIsReceived) {
  std::jthread user = begin_to_receive();
  say();
  user.join();
  drain(side_.received_event_.get());
  say();
  await(side_.received_event_.get());
  EXPECT_EQ(side_.received_by_.load(), thread_.get_id());
}

// It came between the user's last look and its turn.
TEST_F(SharedTurnsTest, WhatHasComeAlreadyIsNotWaitedFor) {
  say();
  await(side_.received_event_.get());
  const Deadline deadline = soon();
  bool has_received = false;
  while (!has_received && !deadline.passed())  // its own thread may be in the middle of a turn
    has_received = turns_.receive(deadline, interrupt_.get(), [] { return true; });
  EXPECT_TRUE(has_received);
  EXPECT_FALSE(deadline.passed());
}

TEST_F(SharedTurnsTest, AnInterruptGivesTheTurnsBack) {
  std::jthread user = begin_to_receive();
  ring(interrupt_.get());
  user.join();
  EXPECT_FALSE(has_received_);
  say();
  await(side_.received_event_.get());
  EXPECT_EQ(side_.received_by_.load(), thread_.get_id());
}

TEST_F(SharedTurnsTest, AnEndThatAUserFindsEndsTheWork) {
  std::jthread user = begin_to_receive();
  peer_.reset();
  await(over_.get());
  user.join();
  EXPECT_FALSE(has_received_);
  EXPECT_EQ(end_.kind, RemoteEnd::Kind::broken);
  EXPECT_FALSE(turns_.receive(soon(), -1, [] { return false; }));  // there is no side any more
}

TEST_F(SharedTurnsTest, NobodyDrivesASideThatMustNotRest) {
  side_.may_rest_ = false;
  EXPECT_FALSE(turns_.receive(soon(), -1, [] { return false; }));
  say();
  await(side_.received_event_.get());
  EXPECT_EQ(side_.received_by_.load(), thread_.get_id());
}

TEST_F(SharedTurnsTest, WhatIsGivenGoesOut) {
  for (int i = 0; i < 500; ++i) {
    const bool is_small = i % 3 != 0;
    side_.given_ = 1;
    turns_.has_sent(is_small);
    if (side_.given_ != 0) say();  // in place of a doorbell, which this side has not
    std::array<std::byte, 64> buffer{};
    ASSERT_TRUE(peer_->receive_control(buffer, soon())) << i;
  }
}

/// Both sides of a session, and a message of `bytes` that is put into an offered place.
class SidesTest : public ::testing::TestWithParam<Bytes> {
 protected:
  void send() {
    ASSERT_TRUE(out_.send(payload_));
    for (const Deadline late = soon(); sending_.turn(*there_) != Turn::idle && !late.passed();) {
    }
  }
  /// Turns of both until the sending side has nothing to do for the last message.
  void pass_on() {
    Result<Message> got = in_.receive(Deadline::now());
    for (const Deadline late = soon(); !late.passed();) {
      const bool is_quiet = receiving_.turn(*here_) == Turn::idle;
      if (sending_.turn(*there_) == Turn::idle && is_quiet && got) break;
      if (!got) got = in_.receive(Deadline::now());
    }
    ASSERT_TRUE(got);
    EXPECT_TRUE(test::same(got->bytes(), payload_));
  }

  using Turn = RemoteSide::Turn;
  const test::ScratchDirectory there_directory_, here_directory_;
  const ProducerOptions options_ = test::options_in(there_directory_);
  const ProducerOptions options_here_ = test::options_in(here_directory_);
  Producer out_ = test::make_producer("frames", options_).value();
  SendingSide sending_{Consumer::open("frames", test::consumer_options(options_), soon()).value()};
  std::unique_ptr<Link> here_, there_;
  int there_socket_ = -1;
  const std::vector<std::byte> payload_ = test::pattern(GetParam(), 1);

  void SetUp() override {
    std::array<int, 2> ends{};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
    here_ = make_stream_link(ends[0], {"there", std::chrono::milliseconds(0)}).value();
    there_socket_ = ends[1];
    there_ = make_stream_link(ends[1], {"here", std::chrono::milliseconds(0)}).value();
    ASSERT_TRUE(sending_.begin(*there_, 0));
    ASSERT_TRUE(receiving_.begin(*here_, 0));
  }

  ReceivingSide receiving_{test::make_producer("frames", options_here_).value()};
  Consumer in_ = Consumer::open("frames", test::consumer_options(options_here_), soon()).value();
};

// A user's thread moves a message of that size alone, and one more byte is for the relay's.
TEST_P(SidesTest, RestBehindAMessageThatAUsersThreadMoves) {
  send();
  pass_on();  // fetched; now places are offered
  const bool is_quick = GetParam() <= kMostDriven;
  EXPECT_FALSE(receiving_.may_rest());
  send();
  EXPECT_EQ(sending_.may_rest(), is_quick);  // it is out, and not acknowledged
  pass_on();
  EXPECT_EQ(receiving_.may_rest(), is_quick);
}

// What a socket does not take at once goes out in further turns.
TEST_P(SidesTest, DoNotRestWhilePayloadWaitsForTheSocket) {
  send();
  pass_on();
  const int least = 1;  // bytes; the kernel has a least size of its own
  ASSERT_EQ(::setsockopt(there_socket_, SOL_SOCKET, SO_SNDBUF, &least, sizeof least), 0);
  send();
  EXPECT_FALSE(sending_.may_rest());
  pass_on();
}

INSTANTIATE_TEST_SUITE_P(OfASize, SidesTest, ::testing::Values(kMostDriven, kMostDriven + 1));

}  // namespace
}  // namespace gantry
