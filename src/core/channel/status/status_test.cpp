#include <gmock/gmock.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "core/base/os/socket.hpp"
#include "core/channel/producer/mode_choice.hpp"
#include "core/channel/test_fan_out.hpp"

// What a channel says of itself: to whoever lists it, and to its own ends.
namespace gantry {
namespace {

using test::make_producer;
using test::pattern;
using test::soon;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class Status : public test::FanOutFixture {
 protected:
  Status() { options_.slots = 4; }
  void send(Bytes size, int count = 1) {
    for (int i = 0; i < count; ++i) ASSERT_TRUE(out().send(pattern(size, 1), soon()));
  }
  ChannelStatus look() {
    auto listed = list_channels(directory_.path());
    EXPECT_TRUE(listed);
    EXPECT_EQ(listed->size(), 1u);
    return listed->at(0);
  }
};

TEST_F(Status, NamesEveryConsumerAndWhatItHolds) {
  Consumer quick = join();
  Consumer choosy = join(SlowConsumer::drop_newest, 1);
  ASSERT_TRUE(out().wait_for_consumer(soon(), 2));
  send(kMiB, 3);
  auto first = quick.receive(soon());
  auto second = quick.receive(soon());
  first->release();
  const ChannelStatus status = look();
  EXPECT_TRUE(status.answered);
  EXPECT_EQ(status.producer_pid, ::getpid());
  EXPECT_EQ(status.producer_uid, ::geteuid());
  EXPECT_EQ(status.producer_state, ProcessState::running);
  EXPECT_EQ(status.slots, 4u);
  EXPECT_EQ(status.slots_held, 3u);
  EXPECT_EQ(status.slots_charged, 2u)
      << "what only the one that is passed over holds is its affair";
  EXPECT_EQ(status.bytes_charged, 2 * kMiB);
  EXPECT_EQ(status.depth(), 1u);
  EXPECT_GE(status.slab_bytes, status.live_bytes);
  EXPECT_GE(status.live_bytes, 3 * kMiB);
  EXPECT_GE(status.peak_bytes, status.live_bytes);
  ASSERT_EQ(status.consumers.size(), 2u);
  const ConsumerStatus& one = status.consumers[0];
  EXPECT_EQ(one.pid, ::getpid());
  EXPECT_EQ(one.state, ProcessState::running);
  EXPECT_EQ(one.policy, SlowConsumer::block);
  EXPECT_EQ(one.unread, 1u);
  ASSERT_EQ(one.held.size(), 2u);
  EXPECT_EQ(one.held[0].message, 2u);
  EXPECT_TRUE(one.held[0].taken);
  EXPECT_EQ(one.held[1].message, 3u);
  EXPECT_FALSE(one.held[1].taken);
  EXPECT_EQ(one.held[0].bytes, kMiB);
  EXPECT_GE(one.held[0].age, one.held[1].age);
  EXPECT_EQ(one.metrics.messages, 2u);
  EXPECT_LE(one.idle, one.joined);
  const ConsumerStatus& other = status.consumers[1];
  EXPECT_EQ(other.policy, SlowConsumer::drop_newest);
  EXPECT_EQ(other.depth, 1u);
  EXPECT_EQ(other.dropped, 2u);
  ASSERT_EQ(other.held.size(), 1u);
  EXPECT_EQ(other.held[0].message, 1u);
  EXPECT_EQ(other.metrics.messages, 0u);
  EXPECT_EQ(other.idle, other.joined) << "it has taken nothing";
  EXPECT_THAT(status.notes(), IsEmpty());
}

TEST_F(Status, SaysHowTheNewestCopyWent) {
  Consumer in = join();
  EXPECT_EQ(look().path.bytes, 0u);
  send(40);
  EXPECT_EQ(look().path.bytes, 0u) << "no engine copied that";
  send(kMiB);
  const ChannelStatus status = look();
  EXPECT_EQ(status.engine, "plain");
  EXPECT_EQ(status.path.bytes, kMiB);
  EXPECT_EQ(status.path.moved, chunk_of(kMiB));
  EXPECT_EQ(status.path.mode, SendMode::pipelined);
  EXPECT_EQ(status.path.cache, CacheUse::reader_soon);
  EXPECT_THAT(status.path.why, HasSubstr("engine"));
  EXPECT_EQ(status.producer.copies[0], 2u);
}

TEST_F(Status, WhatWaitsForAFirstConsumerAndWhatIsKept) {
  options_.history = 2;
  send(1000, 3);
  {
    const ChannelStatus status = look();
    EXPECT_EQ(status.backlog, 3u);
    EXPECT_EQ(status.history, 2u);
    EXPECT_EQ(status.depth(), 3u);
    EXPECT_THAT(status.consumers, IsEmpty());
  }
  const auto loan = out().loan(100, soon());
  EXPECT_EQ(look().slots_sending, 1u);
  ASSERT_TRUE(loan);
}

TEST_F(Status, EachEndSaysWhoseItIs) {
  out();
  ConsumerOptions options = test::consumer_options(options_);
  options.acts_for = EndName{"gpu2", "python3 score.py", "score", 1, 4};
  const Consumer far = *Consumer::open("frames", options, soon());
  const ChannelStatus status = look();
  EXPECT_EQ(status.producer_who, own_end_name());
  std::array<char, 65> host{};
  ASSERT_EQ(::gethostname(host.data(), host.size() - 1), 0);
  EXPECT_EQ(status.producer_who.host, host.data());
  EXPECT_THAT(status.producer_who.command, HasSubstr("_test"));
  ASSERT_EQ(status.consumers.size(), 1u);
  EXPECT_EQ(status.consumers[0].who, *options.acts_for);
  EXPECT_EQ(status.consumers[0].who.text(), "score.1");
}

TEST_F(Status, OfARunTheNameIsThatOfThePipeline) {
  const std::string folder = directory_.path() + "/run-1-abcdef";
  std::filesystem::create_directory(folder);
  std::filesystem::permissions(folder, std::filesystem::perms::owner_all);
  std::ofstream(folder + "/.runner") << "vision\x1b";
  ProducerOptions options = options_;
  options.directory = folder;
  const Producer inner = *make_producer("frames.0.0", options);
  out();
  auto listed = *list_channels(directory_.path());
  ASSERT_EQ(listed.size(), 2u);
  EXPECT_EQ(listed[0].name, "frames");
  EXPECT_EQ(listed[1].name, "run-1-abcdef/frames.0.0");
  EXPECT_EQ(listed[1].pipeline, "vision?");
  EXPECT_EQ(listed[1].shown_name(), "vision?/frames.0.0");
  EXPECT_EQ(listed[0].shown_name(), listed[0].name);
}

// ---- who holds whom up ---------------------------------------------------------------------

TEST_F(Status, TheOneThatUsesUpTheCreditsHoldsUp) {
  Consumer quick = join();
  Consumer slow = join();
  ASSERT_TRUE(out().wait_for_consumer(soon(), 2));
  send(1000, 4);
  EXPECT_TRUE(look().consumers[0].holds_up) << "neither alone, so both";
  EXPECT_TRUE(look().consumers[1].holds_up);
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(quick.receive(soon()));
  const ChannelStatus status = look();
  EXPECT_FALSE(status.consumers[0].holds_up);
  EXPECT_TRUE(status.consumers[1].holds_up);
  ASSERT_TRUE(slow.receive(soon()));
  EXPECT_FALSE(look().consumers[1].holds_up);
}

TEST_F(Status, SmallMessagesUseUpCreditsToo) {
  Consumer slow = join();
  send(8, 3);
  EXPECT_EQ(look().slots_charged, 3u);
  send(8);
  EXPECT_EQ(look().slots_charged, 4u) << "as many as the note says are used";
  EXPECT_TRUE(look().consumers[0].holds_up);
  EXPECT_TRUE(look().consumers[0].held.empty());
}

TEST_F(Status, SmallMessagesThatWaitForAConsumerUseCredits) {
  send(8, 3);
  EXPECT_EQ(look().slots_charged, 3u);
}

// ---- waits that go on ----------------------------------------------------------------------

TEST_F(Status, ASendThatWaitsIsCountedWhileItWaits) {
  Consumer slow = join();
  send(8, 4);
  std::thread sender([&] { send(8); });
  const Deadline end = soon();
  const auto waited = [&] { return look().producer.wait_ns; };
  while (waited() == 0 && !end.passed()) continue;
  std::uint64_t last = waited();
  EXPECT_GT(last, 0u) << "it stands still";
  const std::uint64_t enough = last + 1'000'000;
  while (last < enough && !end.passed()) {
    const std::uint64_t now = waited();
    ASSERT_GE(now, last);
    last = now;
  }
  EXPECT_GE(last, enough);
  ASSERT_TRUE(slow.receive(soon()));
  sender.join();
  EXPECT_GE(waited(), last) << "a wait that is over counts no less";
}

TEST_F(Status, AReaderThatWaitsIsCountedOnceWhileItWaits) {
  Consumer in = join();
  ASSERT_TRUE(out().wait_for_consumer(soon(), 1));
  const auto waited = [&] { return look().consumers.at(0).metrics.wait_ns; };
  const auto begin = std::chrono::steady_clock::now();
  std::thread reader([&] { ASSERT_TRUE(in.receive(soon())); });
  const Deadline end = soon();
  while (waited() < 2'000'000 && !end.passed()) continue;
  const std::uint64_t last = waited();
  EXPECT_GE(last, 2'000'000u) << "it stands still";
  send(8);  // the first of those of which one in some is timed
  reader.join();
  const auto lived = std::chrono::steady_clock::now() - begin;
  EXPECT_GE(waited(), last);
  EXPECT_LE(waited(), static_cast<std::uint64_t>(lived.count())) << "longer than it lived";
}

TEST(Stuck, IsWhoHoldsUpAndTakesNothingOrIsStopped) {
  ConsumerStatus consumer;
  consumer.pid = 42;
  consumer.state = ProcessState::running;
  consumer.idle = std::chrono::seconds(5);
  consumer.unread = 3;
  EXPECT_FALSE(consumer.is_stuck()) << "nobody waits for it";
  consumer.holds_up = true;
  EXPECT_TRUE(consumer.is_stuck());
  ChannelStatus channel;
  channel.answered = true;
  channel.slots = 4;
  channel.consumers = {consumer};
  EXPECT_THAT(
      channel.notes(),
      ElementsAre("consumer 42 is stuck: it joined 5.0 s ago and has taken nothing, 3 unread; "
                  "it holds the producer up: all 4 credits are used"));
  consumer.idle = ConsumerStatus::kStuckAfter;
  EXPECT_FALSE(consumer.is_stuck());
  consumer.holds_up = false;
  consumer.state = ProcessState::stopped;
  consumer.metrics.messages = 7;
  consumer.held = {{9, 2 * kMiB, std::chrono::seconds(3), true}};
  EXPECT_TRUE(consumer.is_stuck());
  channel.consumers = {consumer};
  EXPECT_THAT(
      channel.notes(),
      ElementsAre("consumer 42 is stopped (SIGSTOP; kill -CONT 42 lets it go on): it took its "
                  "last message 1.0 s ago, holds 1 slot (2 MiB), the oldest for 3.0 s"));
}

TEST_F(Status, WhoLeftWithMessagesInHandIsNamed) {
  std::optional<Message> kept;
  {
    Consumer in = join();
    send(kMiB);
    kept = *in.receive(soon());
  }
  const Deadline end = soon();
  while (look().departed.empty() && !end.passed()) continue;  // the acceptor sees it leave
  const ChannelStatus status = look();
  ASSERT_EQ(status.departed.size(), 1u);
  EXPECT_EQ(status.departed[0].pid, ::getpid());
  EXPECT_EQ(status.departed[0].messages, 1u);
  EXPECT_EQ(status.departed[0].bytes, kMiB);
  EXPECT_THAT(status.notes(), Contains(HasSubstr("left and still has 1 message in hand (1 MiB)")));
  kept.reset();
  EXPECT_THAT(look().departed, IsEmpty());
}

// ---- ages ----------------------------------------------------------------------------------

TEST_F(Status, IdleIsSinceTheLastMessageWasTaken) {
  Consumer in = join();
  for (const Bytes size : {Bytes{8}, Bytes{8}, Bytes{1000}}) {  // the second small one is not timed
    send(size);
    // Long enough to tell this message from the one before.
    while (look().consumers[0].idle < std::chrono::milliseconds(5)) continue;
    const auto before = std::chrono::steady_clock::now();
    ASSERT_TRUE(in.receive(soon()));
    const auto idle = look().consumers[0].idle;
    EXPECT_LE(idle, std::chrono::steady_clock::now() - before + std::chrono::milliseconds(1));
    EXPECT_GT(look().consumers[0].idle, idle) << "it goes on growing";
  }
}

TEST_F(Status, TwoHundredChannelsAnswer) {
  std::vector<Producer> many;
  options_.pool.slab_bytes = 64 << 10;
  for (int i = 0; i < 200; ++i)
    many.push_back(*make_producer("channel-" + std::to_string(i), options_));
  const auto listed = list_channels(directory_.path());
  ASSERT_TRUE(listed);
  EXPECT_EQ(listed->size(), 200u);
  for (const ChannelStatus& status : *listed)
    EXPECT_TRUE(status.answered) << status.name << ": " << status.silence;
}

TEST_F(Status, OneLookSweepsEveryDeadSocket) {
  out();
  for (const char* const name : {"dead1.sock", "dead2.sock", "dead3.sock"}) {
    const auto dead = listen_at(directory_.path(), name);  // nobody listens any more
    ASSERT_TRUE(dead);
  }
  EXPECT_EQ(look().name, "frames");
  std::vector<std::string> left;
  for (const auto& entry : std::filesystem::directory_iterator(directory_.path()))
    left.push_back(entry.path().filename());
  EXPECT_THAT(left, ElementsAre("frames.sock"));
}

TEST_F(Status, OneLookSweepsGroupsWhoseFirstRankWasKilled) {
  const std::string groups = directory_.path() + "/groups";
  std::filesystem::create_directory(groups);
  const auto forming = listen_at(groups, "forming.sock");
  ASSERT_TRUE(listen_at(groups, "dead.sock"));  // nobody listens any more
  ASSERT_TRUE(forming && list_channels(directory_.path()));
  EXPECT_TRUE(std::filesystem::exists(groups + "/forming.sock"));
  EXPECT_FALSE(std::filesystem::exists(groups + "/dead.sock"));
}

// ---- explain() -----------------------------------------------------------------------------

TEST_F(Status, AProducerExplainsModeAndPath) {
  const ChannelExplanation small = out().explain(20);
  EXPECT_EQ(small.mode, SendMode::whole);
  EXPECT_THAT(small.because, ElementsAre(HasSubstr("in the ring itself")));
  const ChannelExplanation medium = out().explain(kPipelinedFrom - 1);
  EXPECT_EQ(medium.mode, SendMode::whole);
  const ChannelExplanation large = out().explain(kPipelinedFrom);
  EXPECT_EQ(large.mode, SendMode::pipelined);
  EXPECT_THAT(large.because,
              ElementsAre(HasSubstr("pipelined from 128 KiB on"),
                          HasSubstr("with two from 4 MiB on"), HasSubstr("places in turn")));
  EXPECT_THAT(large.text(), HasSubstr("channel 'frames', producer"));
  EXPECT_THAT(large.text(), HasSubstr("no consumer has joined"));
  EXPECT_THAT(large.text(), HasSubstr("a send would wait for nothing"));
}

TEST_F(Status, TheModeThatIsExplainedIsTheModeThatIsUsed) {
  for (const SendMode mode :
       {SendMode::automatic, SendMode::whole, SendMode::pipelined, SendMode::streamed}) {
    options_.mode = mode;
    out_.reset();
    Consumer in = join();
    for (const Bytes size : {Bytes{65}, kChunkedFrom - 1, kChunkedFrom, kPipelinedFrom, kMiB}) {
      const ChannelExplanation told = out().explain(size);
      const auto payload = pattern(size, 1);
      const auto sent = out().send_async(payload, {.deadline = soon()});
      ASSERT_TRUE(sent);
      ASSERT_TRUE(in.receive(soon()));
      ASSERT_TRUE(out().wait(*sent, soon()));
      EXPECT_EQ(out().explain(size).status.path.mode, told.mode) << to_string(mode) << size;
      EXPECT_THAT(told.because, Not(IsEmpty()));
    }
  }
}

TEST_F(Status, AProducerSaysWhatASendWouldWaitFor) {
  Consumer in = join();
  EXPECT_THAT(out().explain().waits, IsEmpty());
  send(1000, 4);
  const ChannelExplanation told = out().explain();
  EXPECT_THAT(told.waits, ElementsAre(HasSubstr("which has 4 messages unread"),
                                      HasSubstr("for a slot: 4 of 4 are in use")));
  EXPECT_THAT(told.text(), HasSubstr("a send would wait for a slot"));
  EXPECT_EQ(out().send(pattern(1000, 1), Deadline::now()).error().code, Code::timed_out);
  ASSERT_TRUE(in.receive(soon()));
  EXPECT_THAT(out().explain().waits, IsEmpty());
  EXPECT_TRUE(out().send(pattern(1000, 1), Deadline::now()));
}

TEST_F(Status, AConsumerExplainsItself) {
  Consumer in = join();
  EXPECT_THAT(in.explain().text(), HasSubstr("nothing received"));
  send(1000, 3);
  const auto held = in.receive(soon());
  const ConsumerExplanation told = in.explain();
  EXPECT_EQ(told.name, "frames");
  EXPECT_EQ(told.producer_pid, ::getpid());
  EXPECT_EQ(told.producer_state, ProcessState::running);
  EXPECT_EQ(told.unread, 2u);
  EXPECT_EQ(told.depth, out().explain().status.consumers.at(0).depth);
  ASSERT_EQ(told.held.size(), 1u);
  EXPECT_EQ(std::pair(told.held[0].message, told.held[0].bytes), std::pair(1ul, 1000ul));
  EXPECT_GE(told.mapped_bytes, 1000u);
  EXPECT_FALSE(told.ended);
  EXPECT_EQ(told.metrics.messages, 1u);
  EXPECT_THAT(told.text(), HasSubstr("2 messages unread"));
  out_.reset();
  while (in.receive(soon())) continue;
  EXPECT_TRUE(in.explain().producer_gone && in.explain().unread == 0);
}

}  // namespace
}  // namespace gantry
