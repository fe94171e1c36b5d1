// Channels between hosts, end to end: a bridge in this process, every byte compared.
#include <gmock/gmock.h>

#include <future>

#include "core/base/os/socket.hpp"
#include "net/remote/bridge/test_remote.hpp"
#include "net/remote/tls.hpp"

namespace gantry {
namespace {

using test::kMiB;
using test::pattern;
using test::same;
using test::soon;
using testing::HasSubstr;
using RemoteChannel = test::TwoHosts;

// At the edges: inline in a record, in the head of an announcement, a piece of a link.
const std::vector<Bytes> kSizes{0,    1,     64,       65,   4000,     4020,         4025,    4026,
                                4030, 4031,  4032,     4033, 4034,     4035,         4036,    4095,
                                4096, 65536, kMiB - 1, kMiB, kMiB + 1, 3 * kMiB + 7, 9 * kMiB};

constexpr std::chrono::milliseconds kShort{200};

void expect_next(Consumer& in, Bytes size, std::uint64_t seed) {
  const auto message = in.receive(soon());
  ASSERT_TRUE(message) << to_string(message.error());
  EXPECT_TRUE(same(message->bytes(), pattern(size, seed))) << size;
}

TEST_F(RemoteChannel, EachByteArrivesInOrderAtEverySize) {
  auto out = test::make_producer("frames", there()).value();
  auto in = consume(name("frames")).value();
  std::jthread sender([&] {
    for (std::size_t i = 0; i < kSizes.size(); ++i) {
      SendOptions options{.deadline = soon(), .type = static_cast<std::uint32_t>(i), .user = 7 * i};
      ASSERT_TRUE(out.send(pattern(kSizes[i], i), options));
    }
    EXPECT_TRUE(out.close(soon()));
  });
  for (std::size_t i = 0; i < kSizes.size(); ++i) {
    const auto message = in.receive(soon());
    ASSERT_TRUE(message) << to_string(message.error());
    EXPECT_TRUE(same(message->bytes(), pattern(kSizes[i], i))) << kSizes[i];
    EXPECT_EQ(message->info().type, i);
    EXPECT_EQ(message->info().user, 7 * i);
  }
  EXPECT_EQ(in.receive(soon()).error().code, Code::closed);
  sender.join();
}

TEST_F(RemoteChannel, SegmentsKeepTheirBytesAndTensors) {
  auto out = test::make_producer("frames", there()).value();
  auto in = consume(name("frames")).value();
  const std::array<std::int64_t, 3> shape{4, 5, 6};
  const Tensor floats = Tensor::dense({DataType::floating, 32, 1}, shape);
  for (const Bytes scale : {Bytes{1}, Bytes{1000}}) {
    const auto first = pattern(480 * scale, 1);
    const auto second = pattern(scale, 2);
    ASSERT_TRUE(out.send(Draft().copy(first, floats).copy({}).copy(second), {.deadline = soon()}));
    const auto message = in.receive(soon());
    ASSERT_TRUE(message) << to_string(message.error());
    ASSERT_EQ(message->segments(), 3u);
    EXPECT_TRUE(same(message->segment(0).bytes, first));
    EXPECT_EQ(message->segment(0).tensor, floats);
    EXPECT_TRUE(message->segment(1).bytes.empty());
    EXPECT_TRUE(same(message->segment(2).bytes, second));
    EXPECT_FALSE(message->segment(2).tensor);
  }
}

// Converted before it travels: half the bytes go over the link.
TEST_F(RemoteChannel, WhatIsConvertedArrivesAsWhatItBecame) {
  ProducerOptions options = there();
  options.as = *As::parse("f32 -> bf16");
  auto out = test::make_producer("frames", options).value();
  auto in = consume(name("frames")).value();
  for (const SendMode mode : {SendMode::whole, SendMode::pipelined, SendMode::streamed})
    for (const std::int64_t count : {5, 3000, 2'000'000}) {
      const auto sent = pattern(4 * static_cast<Bytes>(count), static_cast<std::uint64_t>(count));
      const auto plan =
          ReshapePlan::make(types::bf16, Tensor::dense(types::f32, {&count, 1})).value();
      std::vector<std::byte> wanted(plan.destination_bytes());
      ASSERT_TRUE(plan.convert(wanted, sent));
      std::jthread sender([&] { EXPECT_TRUE(out.send(sent, {.deadline = soon(), .mode = mode})); });
      const auto message = in.receive(soon());
      ASSERT_TRUE(message) << to_string(message.error());
      EXPECT_EQ(message->segment(0).tensor, plan.destination());
      EXPECT_TRUE(same(message->segment(0).bytes, wanted)) << count << " " << to_string(mode);
    }
}

TEST_F(RemoteChannel, AReaderThatKeepsItsMessagesHoldsTheSenderUp) {
  ProducerOptions options = there();
  options.slots = 4;
  auto out = test::make_producer("frames", options).value();
  auto in = consume(name("frames")).value();
  // What may be on the way: the slots there, and those of the relay here.
  std::vector<Message> kept;
  std::size_t sent = 0;
  std::jthread reader([&] {
    for (int i = 0; i < 8; ++i) kept.push_back(in.receive(soon()).value());
  });
  while (out.send(pattern(100'000, sent), {.deadline = Deadline::after(std::chrono::seconds(1))}))
    ASSERT_LT(++sent, 100u);
  reader.join();
  EXPECT_GE(sent, 8u);
  EXPECT_LE(sent, 8u + 4u + 1u);
  for (std::size_t i = 0; i < kept.size(); ++i)
    EXPECT_TRUE(same(kept[i].bytes(), pattern(100'000, i))) << i;
  kept.clear();
  for (std::size_t i = 8; i < sent; ++i) expect_next(in, 100'000, i);
  EXPECT_TRUE(out.send(pattern(100'000, 1), {.deadline = soon()}));
}

TEST_F(RemoteChannel, AnEndThatWaitsSleepsOnItsDescriptor) {
  auto out = test::make_producer("frames", there()).value();
  auto in = consume(name("frames")).value();
  EXPECT_EQ(in.receive(Deadline::now()).error().code, Code::timed_out);
  const int event = in.event_descriptor().value();
  ASSERT_TRUE(out.send(pattern(5000, 1), {.deadline = soon()}));
  ASSERT_TRUE(wait_readable(event, soon()).value());
  expect_next(in, 5000, 1);
}

TEST_F(RemoteChannel, SeveralConsumersGetEverything) {
  ProducerOptions options = there();
  options.consumers = 3;
  auto out = test::make_producer("frames", options).value();
  std::vector<Consumer> ins;
  for (int i = 0; i < 2; ++i) ins.push_back(consume(name("frames")).value());
  ins.push_back(Consumer::open("frames", test::consumer_options(there()), soon()).value());
  for (std::uint64_t i = 0; i < 20; ++i) {
    ASSERT_TRUE(out.send(pattern(10'000 * i, i), {.deadline = soon()}));
    for (Consumer& in : ins) expect_next(in, 10'000 * i, i);
  }
}

// ---- how things end ------------------------------------------------------------------------

TEST_F(RemoteChannel, AProducerThatDiesIsToldAsSuch) {
  auto out = std::optional(test::make_producer("frames", there()).value());
  auto in = consume(name("frames")).value();
  ASSERT_TRUE(out->send(pattern(70'000, 1), {.deadline = soon()}));
  out.reset();  // without close()
  expect_next(in, 70'000, 1);
  const auto gone = in.receive(soon());
  ASSERT_FALSE(gone);
  EXPECT_EQ(gone.error().code, Code::peer_gone);
  EXPECT_NE(gone.error().message.find(name("frames").text()), std::string::npos)
      << gone.error().message;
}

TEST_F(RemoteChannel, TheNextProducerOfTheNameIsJoinedAgain) {
  auto out = std::optional(test::make_producer("frames", there()).value());
  auto in = consume(name("frames")).value();
  out.reset();
  EXPECT_EQ(in.receive(soon()).error().code, Code::peer_gone);
  EXPECT_EQ(in.rejoin(Deadline::after(std::chrono::milliseconds(10))).error().code,
            Code::timed_out);
  out.emplace(test::make_producer("frames", there()).value());
  const auto again = in.rejoin(soon());
  ASSERT_TRUE(again) << to_string(again.error());
  ASSERT_TRUE(out->send(pattern(80'000, 2), {.deadline = soon()}));
  expect_next(in, 80'000, 2);
}

TEST_F(RemoteChannel, AConsumerThatLeavesIsToldToTheProducer) {
  auto out = test::make_producer("frames", there()).value();
  auto in = std::optional(consume(name("frames")).value());
  ASSERT_TRUE(out.send(pattern(70'000, 1), {.deadline = soon()}));
  ASSERT_TRUE(in->receive(soon()));
  in.reset();
  Result<void> sent;
  while (sent) sent = out.send(pattern(70'000, 1), {.deadline = soon()});
  EXPECT_EQ(sent.error().code, Code::peer_gone) << to_string(sent.error());
}

// As after kill -9: the bridge keeps the place for as long as its consumer may come back.
TEST_F(RemoteChannel, ASuccessorWaitsForThePlaceOfOneThatIsGone) {
  stop_bridge();
  patience_ = std::chrono::milliseconds(1500);
  start_bridge("127.0.0.1:0");
  test::CutNetwork network(bridge_->address());
  auto out = test::make_producer("frames", there()).value();
  auto gone = consume(name("frames", network.address())).value();
  ASSERT_TRUE(out.send(pattern(5000, 1), {.deadline = soon()}));
  expect_next(gone, 5000, 1);
  network.refuse(true);
  network.cut_after(0);
  auto in = consume(name("frames"));
  ASSERT_TRUE(in) << to_string(in.error());
  ASSERT_TRUE(out.wait_for_consumer(soon(), 1));
  ASSERT_TRUE(out.send(pattern(6000, 2), {.deadline = soon()}));
  expect_next(*in, 6000, 2);
}

// What it has sent goes on its way, also what the reader there has no room for yet.
TEST_F(RemoteChannel, WhoDropsAProducerDoesNotWaitForItsReader) {
  patience_ = std::chrono::minutes(10);
  ProducerOptions options = here();
  options.slots = 2;
  auto out = std::make_optional(
      open_remote_producer(name("frames").text(), options, std::make_shared<test::PlainEngine>())
          .value());
  auto in = Consumer::open("frames", test::consumer_options(there()), soon()).value();
  std::uint64_t sent = 0;
  while (out->send(pattern(100'000, sent), {.deadline = Deadline::after(kShort)})) ++sent;
  EXPECT_GE(sent, 4u) << "two there, two here";
  auto dropping = std::async(std::launch::async, [&out] { out.reset(); });
  EXPECT_EQ(dropping.wait_for(soon().left()), std::future_status::ready) << "nobody reads";
  for (std::uint64_t i = 0; i < sent; ++i) expect_next(in, 100'000, i);
  EXPECT_EQ(in.receive(soon()).error().code, Code::peer_gone);
}

// Of a session that it serves itself; one that it handed over goes on: handed_test.cpp.
TEST_F(RemoteChannel, TheBridgesEndIsToldToBothEnds) {
  if (auto able = check_tls(); !able) GTEST_SKIP() << to_string(able.error());
  patience_ = std::chrono::milliseconds(100);
  stop_bridge();
  start_bridge("tls:127.0.0.1:0");
  auto out = test::make_producer("frames", there()).value();
  auto in = consume(name("frames")).value();
  ASSERT_TRUE(out.send(pattern(70'000, 1), {.deadline = soon()}));
  EXPECT_TRUE(in.receive(soon()));
  stop_bridge();
  const auto gone = in.receive(soon());
  ASSERT_FALSE(gone);
  EXPECT_EQ(gone.error().code, Code::peer_gone) << to_string(gone.error());
  EXPECT_THAT(gone.error().message, HasSubstr("the bridge there was ended by its user"));
  EXPECT_EQ(out.send(pattern(10, 1), {.deadline = soon()}).error().code, Code::peer_gone);
}

TEST_F(RemoteChannel, TheBridgesEndIsToldToWhoWaitsForAChannel) {
  std::thread ends_it([this] {
    while (!has_said("consumes 'nothing'")) std::this_thread::yield();
    ring(interrupt_.get());
    serving_.join();
    bridge_.reset();
  });
  const auto in = consume(name("nothing"));
  ends_it.join();
  ASSERT_FALSE(in);
  EXPECT_EQ(in.error().code, Code::peer_gone) << to_string(in.error());
  EXPECT_THAT(in.error().message, HasSubstr("the bridge there was ended by its user"));
}

// Each end says that it lives often enough for whoever is less patient.
TEST_F(RemoteChannel, AnImpatientEndWaitsForAChannelAtAPatientBridge) {
  stall_limit_ = std::chrono::milliseconds(700);  // of this end; the bridge's is a minute
  std::optional<Producer> out;
  std::thread appears_later([&] {
    std::this_thread::sleep_for(3 * stall_limit_);  // the time is what is tested
    out = test::make_producer("frames", there()).value();
  });
  auto in = consume(name("frames"));
  appears_later.join();
  ASSERT_TRUE(in) << to_string(in.error());
  const auto sent = pattern(10'000, 1);
  ASSERT_TRUE(out->send(sent, {.deadline = soon()}));
  EXPECT_TRUE(same(in->receive(soon())->bytes(), sent));
}

TEST_F(RemoteChannel, AChannelThatDoesNotComeIsATimeOut) {
  auto in =
      test::TwoHosts::consume(name("nothing"), Deadline::after(std::chrono::milliseconds(50)));
  ASSERT_FALSE(in);
  EXPECT_EQ(in.error().code, Code::timed_out);
  EXPECT_THAT(in.error().message, HasSubstr("nobody produces that channel"));
}

TEST_F(RemoteChannel, ATimeOutNamesTheHostToo) {
  auto out = test::make_producer("frames", there()).value();
  auto in = consume(name("frames")).value();
  const auto none = in.receive(Deadline::after(std::chrono::milliseconds(10)));
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Code::timed_out);
  EXPECT_THAT(none.error().message, HasSubstr("channel 'frames@127.0.0.1:"));
}

// ---- the other direction -------------------------------------------------------------------

TEST_F(RemoteChannel, AnInboxGetsWhatARemoteProducerSends) {
  InboxOptions inbox_options;
  inbox_options.channel = test::consumer_options(there());
  auto inbox = Inbox::open("work", inbox_options).value();
  auto out = connect_remote_inbox(name("work").text(), here(),
                                  std::make_shared<test::PlainEngine>(), soon())
                 .value();
  std::jthread sender([&] {
    for (std::size_t i = 0; i < kSizes.size(); ++i)
      ASSERT_TRUE(out.send(pattern(kSizes[i], i), {.deadline = soon()}));
  });
  for (std::size_t i = 0; i < kSizes.size(); ++i) {
    const auto got = inbox.receive(soon());
    ASSERT_TRUE(got) << to_string(got.error());
    EXPECT_TRUE(same(got->message.bytes(), pattern(kSizes[i], i))) << kSizes[i];
  }
  sender.join();
}

TEST_F(RemoteChannel, APublishedChannelsEndWasReceivedWhenCloseReturns) {
  auto out =
      open_remote_producer(name("frames").text(), here(), std::make_shared<test::PlainEngine>());
  ASSERT_TRUE(out) << to_string(out.error());
  auto in = Consumer::open("frames", test::consumer_options(there()), soon()).value();
  for (std::uint64_t i = 0; i < 5; ++i)
    ASSERT_TRUE(out->send(pattern(200'000, i), {.deadline = soon()}));
  EXPECT_EQ(out->close(Deadline::after(std::chrono::milliseconds(30))).error().code,
            Code::timed_out);
  std::jthread reader([&] {
    for (std::uint64_t i = 0; i < 5; ++i) expect_next(in, 200'000, i);
    EXPECT_EQ(in.receive(soon()).error().code, Code::closed);
  });
  EXPECT_TRUE(out->close(soon()));
  reader.join();
}

// close() waits for a reader there. Who asked for that with a descriptor can end it.
TEST_F(RemoteChannel, AnInterruptEndsTheWaitForTheLastReader) {
  const Fd stop = make_event().value();
  ProducerOptions options = here();
  options.interrupt_descriptor = stop.get();
  auto out =
      open_remote_producer(name("squares").text(), options, std::make_shared<test::PlainEngine>());
  ASSERT_TRUE(out) << to_string(out.error());
  ASSERT_TRUE(out->send(test::pattern(1000, 1)));
  Error why;
  std::thread closing([&] { why = out->close().error(); });
  const auto has_arrived = [&] {
    const auto channels = list_channels(there().directory);
    return channels && channels->size() == 1 && channels->front().producer.messages == 1;
  };
  const Deadline limit = soon();
  while (!has_arrived() && !limit.passed()) std::this_thread::yield();
  EXPECT_TRUE(has_arrived());
  ring(stop.get());
  closing.join();
  EXPECT_EQ(why.code, Code::interrupted) << why.message;
}

TEST_F(RemoteChannel, ANameThatIsTakenThereIsRefusedHere) {
  const auto there_first = test::make_producer("frames", there()).value();
  const auto out =
      open_remote_producer(name("frames").text(), here(), std::make_shared<test::PlainEngine>());
  ASSERT_FALSE(out);
  EXPECT_EQ(out.error().code, Code::already_exists) << to_string(out.error());
}

TEST_F(RemoteChannel, NothingStaysBehind) {
  {
    auto out = test::make_producer("frames", there()).value();
    auto in = consume(name("frames")).value();
    ASSERT_TRUE(out.send(pattern(100, 1), {.deadline = soon()}));
    EXPECT_TRUE(in.receive(soon()));
  }
  EXPECT_TRUE(here_.is_empty());
}

}  // namespace
}  // namespace gantry
