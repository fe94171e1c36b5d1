#include <gmock/gmock.h>

#include <thread>

#include "core/channel/test_child.hpp"
#include "core/channel/test_support.hpp"

// Both ends in one process, the same code and pages as between two. ThreadSanitizer sees the
// threads' own state here (caller, acceptor, releasing threads); of the shared pages it sees
// nothing, as each end maps them at its own address: for them stand the tests in src/core/sync.
namespace gantry {
namespace {

using test::consumer_options;
using test::make_producer;
using test::options_in;
using test::pattern;
using test::same;
using test::soon;
using testing::AllOf;
using testing::HasSubstr;

class Channel : public testing::Test {
 protected:
  test::ScratchDirectory directory_;
  ProducerOptions options_ = options_in(directory_);
  Producer producer() { return *make_producer("frames", options_); }
  Consumer consumer() { return *Consumer::open("frames", consumer_options(options_), soon()); }
  static void expect_nothing_to_receive(Producer& out) {
    EXPECT_THAT(out.close(Deadline::now()).error().message,
                testing::EndsWith("no consumer joined in time to learn that the stream has ended"));
  }
};

TEST_F(Channel, DeliversEverySizeInOrderAndWhole) {
  std::thread sending([this] {
    Producer out = producer();
    for (std::uint64_t i = 0; i < 60; ++i) ASSERT_TRUE(out.send(pattern(i * i * i, i), soon()));
    const auto closed = out.close(soon());
    ASSERT_TRUE(closed) << closed.error().message;
  });
  Consumer in = consumer();
  for (std::uint64_t i = 0; i < 60; ++i) {
    auto message = in.receive(soon());
    ASSERT_TRUE(message) << message.error().message;
    EXPECT_EQ(message->sequence(), i + 1);
    EXPECT_TRUE(same(message->bytes(), pattern(i * i * i, i))) << i;
  }
  EXPECT_EQ(in.receive(soon()).error().code, Code::closed);
  EXPECT_EQ(in.receive(soon()).error().code, Code::closed);
  sending.join();
  EXPECT_TRUE(directory_.is_empty());
}

TEST_F(Channel, LoansAreSeenWithoutACopy) {
  Producer out = producer();
  Consumer in = consumer();
  auto loan = out.loan(3 * kMiB, soon());
  ASSERT_TRUE(loan);
  const auto bytes = pattern(2 * kMiB, 1);
  std::copy(bytes.begin(), bytes.end(), loan->bytes().begin());
  loan->shrink(2 * kMiB);
  ASSERT_TRUE(out.publish(std::move(*loan)));
  auto message = in.receive(soon());
  ASSERT_TRUE(message);
  EXPECT_TRUE(same(message->bytes(), bytes));
  for (const auto copies : out.metrics().copies) EXPECT_EQ(copies, 0u);
  for (const auto copies : in.metrics().copies) EXPECT_EQ(copies, 0u);
  EXPECT_EQ(in.metrics().bytes, 2 * kMiB);
}

TEST_F(Channel, ADroppedLoanSendsNothingAndReturnsItsSlot) {
  options_.slots = 1;
  Producer out = producer();
  Consumer in = consumer();
  {
    const auto dropped = out.loan(100, soon());
  }
  ASSERT_TRUE(out.send(pattern(100, 2), soon()));
  EXPECT_EQ(in.receive(soon())->sequence(), 1u);
}

TEST_F(Channel, CreditsHoldTheSenderUntilAMessageIsReleased) {
  options_.slots = 2;
  Producer out = producer();
  Consumer in = consumer();
  ASSERT_TRUE(out.send(pattern(1000, 1), soon()));
  ASSERT_TRUE(out.send(pattern(1000, 2), soon()));
  EXPECT_EQ(out.send(pattern(1000, 3), Deadline::now()).error().code, Code::timed_out);
  auto first = in.receive(soon());
  auto second = in.receive(soon());
  EXPECT_EQ(out.send(pattern(1000, 3), Deadline::now()).error().code, Code::timed_out);
  const Error own_fault = in.receive(Deadline::now()).error();
  EXPECT_THAT(own_fault.message, HasSubstr("this reader holds 2 of the 2 that may be out"));
  EXPECT_THAT(own_fault.hint, HasSubstr("let go of messages"));
  std::thread releasing([&second] { second->release(); });  // out of order, from another thread
  EXPECT_TRUE(out.send(pattern(1000, 3), soon()));
  releasing.join();
  EXPECT_TRUE(same(first->bytes(), pattern(1000, 1)));
  EXPECT_TRUE(same(in.receive(soon())->bytes(), pattern(1000, 3)));
  EXPECT_THAT(in.receive(Deadline::now()).error().message, testing::EndsWith("in time"));
}

TEST_F(Channel, SmallMessagesNeedCreditsToo) {
  options_.slots = 3;
  Producer out = producer();
  for (std::uint64_t i = 0; i < 3; ++i) ASSERT_TRUE(out.send(pattern(8, i), soon()));
  EXPECT_EQ(out.send(pattern(8, 3), Deadline::now()).error().code, Code::timed_out);
  Consumer in = consumer();
  auto message = in.receive(soon());
  EXPECT_TRUE(out.send(pattern(8, 3), soon()));
  EXPECT_TRUE(same(message->bytes(), pattern(8, 0))) << "a small message is the receiver's own";
}

TEST_F(Channel, EveryLoanAndEverySmallMessageFitTheRingTogether) {
  options_.slots = 64;
  Producer out = producer();
  std::vector<Loan> loans;
  for (int i = 0; i < 64; ++i) loans.push_back(*out.loan(4096, soon()));
  for (std::uint64_t i = 0; i < 64; ++i) ASSERT_TRUE(out.send(pattern(8, i), Deadline::now()));
  for (Loan& loan : loans) ASSERT_TRUE(out.publish(std::move(loan)));
  Consumer in = consumer();
  for (std::uint64_t i = 1; i <= 128; ++i) EXPECT_EQ(in.receive(soon())->sequence(), i);
}

TEST_F(Channel, MemoryBudgetIsBackpressureWhileMessagesAreOut) {
  options_.pool.budget_bytes = 4 * kMiB;
  Producer out = producer();
  Consumer in = consumer();
  ASSERT_TRUE(out.send(pattern(3 * kMiB, 1), soon()));
  EXPECT_EQ(out.send(pattern(3 * kMiB, 2), Deadline::now()).error().code, Code::timed_out);
  in.receive(soon())->release();
  EXPECT_TRUE(out.send(pattern(3 * kMiB, 2), soon()));
  EXPECT_EQ(out.send(pattern(5 * kMiB, 3), soon()).error().code, Code::too_large);
}

TEST_F(Channel, GrowingMessagesReplaceSlabsUnderTheBudget) {
  options_.pool.budget_bytes = 8 * kMiB;
  options_.slots = 2;
  Producer out = producer();
  Consumer in = consumer();
  for (Bytes size = kMiB; size <= 8 * kMiB; size += kMiB) {
    ASSERT_TRUE(out.send(pattern(size, size), soon())) << size;
    auto message = in.receive(soon());
    ASSERT_TRUE(message) << message.error().message;
    EXPECT_TRUE(same(message->bytes(), pattern(size, size)));
  }
}

TEST_F(Channel, SleepersAreWoken) {
  options_.spin = std::chrono::nanoseconds(0);
  options_.slots = 1;
  Producer out = producer();
  Consumer in = consumer();
  std::thread echoing([&in] {
    for (std::uint64_t i = 1; i <= 3000; ++i) {
      const auto message = in.receive(soon());
      ASSERT_TRUE(message) << message.error().message;
      ASSERT_EQ(message->sequence(), i);
    }
  });
  for (std::uint64_t i = 0; i < 3000; ++i) {
    const auto sent = out.send(pattern(i % 2 == 0 ? 8 : 200, i), soon());
    ASSERT_TRUE(sent) << sent.error().message;
  }
  echoing.join();
}

TEST_F(Channel, ReceiveAnyMergesAndEndsWithTheLast) {
  std::vector<Consumer> ends;
  std::thread sending([this] {
    auto left = *make_producer("left", options_);
    auto right = *make_producer("right", options_);
    for (std::uint64_t i = 0; i < 50; ++i) ASSERT_TRUE(left.send(pattern(10, i), soon()));
    ASSERT_TRUE(left.close(soon()));
    for (std::uint64_t i = 0; i < 50; ++i) ASSERT_TRUE(right.send(pattern(5000, i), soon()));
    ASSERT_TRUE(right.close(soon()));
  });
  ends.push_back(*Consumer::open("left", consumer_options(options_), soon()));
  ends.push_back(*Consumer::open("right", consumer_options(options_), soon()));
  std::array<std::uint64_t, 2> counts{};
  for (;;) {
    auto any = Consumer::receive_any(ends, soon());
    if (!any) {
      EXPECT_EQ(any.error().code, Code::closed) << any.error().message;
      break;
    }
    EXPECT_TRUE(
        same(any->message.bytes(), pattern(any->index == 0 ? 10 : 5000, counts.at(any->index)++)));
  }
  EXPECT_EQ(counts, (std::array<std::uint64_t, 2>{50, 50}));
  sending.join();
}

TEST_F(Channel, ANameHasOneProducerAndOneConsumer) {
  Producer out = producer();
  const auto second = make_producer("frames", options_);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::already_exists);
  EXPECT_THAT(second.error().message, HasSubstr("frames"));
  Consumer in = consumer();
  const auto third = Consumer::open("frames", consumer_options(options_), soon());
  ASSERT_FALSE(third);
  EXPECT_EQ(third.error().code, Code::already_exists);
  ASSERT_TRUE(out.send(pattern(100, 1), soon()));
  EXPECT_TRUE(in.receive(soon()));
}

TEST_F(Channel, AProducerThatLeavesWithoutEndingBreaksTheStream) {
  std::optional<Producer> out = producer();
  Consumer in = consumer();
  ASSERT_TRUE(out->send(pattern(100, 1), soon()));
  out.reset();
  EXPECT_TRUE(in.receive(soon())) << "what was published is delivered";
  EXPECT_EQ(in.receive(soon()).error().code, Code::peer_gone);
}

TEST_F(Channel, AConsumerThatLeavesIsToldToTheProducer) {
  options_.slots = 1;
  Producer out = producer();
  std::optional<Consumer> in = consumer();
  ASSERT_TRUE(out.send(pattern(100, 1), soon()));
  std::thread leaving([&in] { in.reset(); });
  const auto sent = out.send(pattern(100, 2), soon());
  leaving.join();
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().code, Code::peer_gone);
  EXPECT_EQ(out.close(soon()).error().code, Code::peer_gone);
}

// Who takes the last small message may be busy for long, and never come back.
TEST_F(Channel, CloseReturnsWhenTheLastIsTakenNotWhenItsReaderComesBack) {
  options_.spin = {};
  Producer out = producer();
  Consumer in = consumer();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(out.send(pattern(10, 1), soon()));
  std::thread closing([&] {
    const auto closed = out.close();
    EXPECT_TRUE(closed) << closed.error().message;
  });
  while (!in.explain().ended) std::this_thread::yield();
  // Some work, so that it is likely to be in its last sleep.
  for (int i = 0; i < 5000; ++i) static_cast<void>(in.explain());
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(in.receive(soon()));
  const Deadline hung = soon();
  while (in.explain().producer_sleeps && !hung.passed()) std::this_thread::yield();
  EXPECT_FALSE(hung.passed());
  EXPECT_EQ(in.receive(soon()).error().code, Code::closed);
  closing.join();
}

TEST_F(Channel, CloseWaitsForTheReceiverAndSaysWhatWasLeft) {
  Producer out = producer();
  ASSERT_TRUE(out.send(pattern(100, 1), soon()));
  const auto closed = out.close(Deadline::now());
  ASSERT_FALSE(closed);
  EXPECT_EQ(closed.error().code, Code::timed_out);
  EXPECT_THAT(closed.error().message, HasSubstr("no consumer joined in time to receive 1 message"));
  EXPECT_EQ(out.send(pattern(1, 1), soon()).error().code, Code::invalid_argument);
  Consumer in = consumer();
  EXPECT_TRUE(in.receive(soon()));
  EXPECT_EQ(in.receive(soon()).error().code, Code::closed);
  EXPECT_TRUE(out.close(soon()));
}

TEST_F(Channel, WaitingEndsAtADeadlineOrAnInterrupt) {
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe(pipe.data()), 0);
  options_.interrupt_descriptor = pipe[0];
  options_.slots = 1;
  EXPECT_EQ(Consumer::open("nobody", consumer_options(options_), Deadline::now()).error().code,
            Code::timed_out);
  Producer out = producer();
  Consumer in = consumer();
  EXPECT_EQ(in.receive(Deadline::now()).error().code, Code::timed_out);
  ASSERT_TRUE(out.send(pattern(100, 1), soon()));
  ASSERT_EQ(::write(pipe[1], "x", 1), 1);
  EXPECT_EQ(out.send(pattern(100, 1), soon()).error().code, Code::interrupted);
  EXPECT_EQ(Consumer::open("nobody", consumer_options(options_), soon()).error().code,
            Code::interrupted);
  EXPECT_TRUE(in.receive(soon()));
  EXPECT_EQ(in.receive(soon()).error().code, Code::interrupted);
  ::close(pipe[0]);
  ::close(pipe[1]);
}

TEST_F(Channel, MessagesOutliveBothEnds) {
  Message kept;
  {
    Producer out = producer();
    Consumer in = consumer();
    ASSERT_TRUE(out.send(pattern(kMiB, 1), soon()));
    kept = *in.receive(soon());
  }
  EXPECT_TRUE(same(kept.bytes(), pattern(kMiB, 1)));
}

TEST_F(Channel, LeavesNoDescriptorBehind) {
  const std::size_t before = test::descriptors_at_rest();
  for (int i = 0; i < 20; ++i) {
    Producer out = producer();
    Consumer in = consumer();
    ASSERT_TRUE(out.send(pattern(kMiB, 1), soon()));
    ASSERT_TRUE(in.receive(soon()));
    const auto refused = Consumer::open("frames", consumer_options(options_), soon());
    ASSERT_FALSE(refused);
  }
  EXPECT_EQ(test::descriptors_at_rest(), before);
  EXPECT_TRUE(directory_.is_empty());
}

TEST_F(Channel, ALoanOfAnotherChannelIsRefused) {
  Producer out = producer();
  auto other = *make_producer("other", options_);
  auto loan = other.loan(100, soon());
  const auto refused = out.publish(std::move(*loan));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::invalid_argument);
  EXPECT_EQ(refused.error().hint, "publish what this channel's loan() has returned, once");
  EXPECT_EQ(out.publish(Loan()).error().code, Code::invalid_argument);
  EXPECT_EQ(out.loan(0, soon()).error().code, Code::invalid_argument);
}

TEST_F(Channel, APayloadAtNoAddressIsRefused) {
  Producer out = producer();
  for (const Bytes size : {Bytes{1}, Bytes{64}, Bytes{65}, Bytes{1'000'000}}) {
    const ConstByteSpan nowhere(static_cast<const std::byte*>(nullptr), size);
    const std::string said =
        fmt::format("channel 'frames': a payload of {} bytes at nullptr", size);
    const auto sent = out.send(nowhere, soon());
    ASSERT_FALSE(sent);
    EXPECT_EQ(sent.error().message, said);
    EXPECT_EQ(sent.error().hint, "pass the address of its bytes, or an empty payload");
    const auto queued = out.send_async(nowhere);
    ASSERT_FALSE(queued);
    EXPECT_EQ(queued.error().message, said);
  }
}

// A size that is too large by far is met before all pages of that size are made.
TEST_F(Channel, APayloadThatIsNotMappedTakesNoMemory) {
  Producer out = producer();
  const std::byte one{};
  const ConstByteSpan beyond(&one, Bytes{1} << 30);
  for (const SendMode mode : {SendMode::whole, SendMode::pipelined, SendMode::streamed}) {
    const auto sent = out.send(beyond, {.deadline = soon(), .mode = mode});
    ASSERT_FALSE(sent);
    EXPECT_EQ(sent.error().code, Code::invalid_argument);
    EXPECT_THAT(sent.error().message,
                AllOf(HasSubstr("channel 'frames': a payload of 1073741824 bytes at 0x"),
                      HasSubstr(": not all of it is mapped")));
  }
  EXPECT_EQ(out.pool().report().slab_bytes, 0u);
  expect_nothing_to_receive(out);
}

// What was given up before anyone joined waits for nobody.
TEST_F(Channel, AMessageThatCouldNotBeReadIsNotKeptForAConsumer) {
  options_.history = 2;
  for (const SendMode mode : {SendMode::pipelined, SendMode::streamed}) {
    Producer out = producer();
    const test::BrokenPayload broken(4'000'000, 500'000);
    EXPECT_FALSE(out.send(broken.bytes(), {.deadline = Deadline::now(), .mode = mode}));
    EXPECT_EQ(out.explain(0).status.history, 0u);
    expect_nothing_to_receive(out);
    Consumer in = consumer();
    EXPECT_EQ(in.receive(soon()).error().code, Code::closed);
    EXPECT_TRUE(out.close(soon()));
  }
}

// Nor does it wait for a successor of the reader that leaves without having taken it.
TEST_F(Channel, AMessageThatCouldNotBeReadIsNotKeptForASuccessor) {
  for (const SendMode mode : {SendMode::pipelined, SendMode::streamed}) {
    Producer out = producer();
    {
      Consumer in = consumer();
      const test::BrokenPayload broken(4'000'000, 500'000);
      EXPECT_FALSE(out.send(broken.bytes(), {.deadline = soon(), .mode = mode}));
    }
    EXPECT_TRUE(out.close(soon()));
    EXPECT_EQ(out.explain(0).status.backlog, 0u);
  }
}

// A negative number that became a size neither wraps nor reads: alone, or beside another segment.
TEST_F(Channel, ASizeThatIsANegativeNumberIsRefused) {
  Producer out = producer();
  const auto payload = pattern(512, 1);
  for (const Bytes size : {Bytes{0} - 1, Bytes{0} - 128, (Bytes{1} << 62) + 1}) {
    const ConstByteSpan wrong(payload.data() + 128, size);
    for (const auto& sent : {out.send(wrong, soon()),
                             out.send(Draft().copy(wrong).copy(payload), {.deadline = soon()}),
                             out.send(Draft().copy(payload).copy(wrong), {.deadline = soon()})}) {
      ASSERT_FALSE(sent);
      EXPECT_EQ(sent.error().code, Code::too_large);
      EXPECT_THAT(sent.error().message, HasSubstr(fmt::format("a segment of {} bytes", size)));
    }
  }
  EXPECT_EQ(out.pool().report().slab_bytes, 0u);
}

TEST_F(Channel, ASendThatCannotSucceedSaysWhatWouldDo) {
  options_.pool = {.slab_bytes = Bytes{1} << 20, .budget_bytes = Bytes{1} << 20};
  Producer out = producer();
  const auto payload = pattern(50, 1);
  const auto large = out.send(pattern(Bytes{2} << 20, 1), soon());
  EXPECT_EQ(large.error().code, Code::too_large);
  EXPECT_THAT(large.error().hint, HasSubstr("raise PoolOptions::budget_bytes"));
  const std::vector<std::int64_t> shape{3, 7};
  const auto narrow =
      out.send(Draft().copy(payload, Tensor::dense(types::f32, shape)), {.deadline = soon()});
  EXPECT_EQ(narrow.error().message,
            "channel 'frames': a tensor of f32 [3, 7] does not fit its segment of 50 bytes");
  EXPECT_THAT(narrow.error().hint, HasSubstr("send all bytes that its shape and strides reach"));
  EXPECT_FALSE(out.close(Deadline::now()));
  const auto late = out.send(payload, soon());
  EXPECT_EQ(to_string(late.error()),
            "channel 'frames': the stream was ended by close(); open another producer");
}

TEST_F(Channel, ABufferThatIsTooSmallIsToldWithTheChannel) {
  Producer out = producer();
  Consumer in = consumer();
  std::vector<std::byte> buffer(10);
  for (const Bytes size : {Bytes{30}, Bytes{1000}, Bytes{100'000}}) {
    ASSERT_TRUE(out.send(pattern(size, 1), soon()));
    const auto copied = in.receive_into(buffer, soon());
    ASSERT_FALSE(copied);
    EXPECT_THAT(copied.error().message,
                AllOf(testing::StartsWith("channel 'frames': message "),
                      HasSubstr(fmt::format("has {} bytes left, the buffer 10", size))));
    ASSERT_TRUE(in.receive(soon()));
  }
}

TEST_F(Channel, IsListedWithItsNumbers) {
  Producer out = producer();
  auto lonely = *make_producer("lonely", options_);
  Consumer in = consumer();
  ASSERT_TRUE(out.send(pattern(100'000, 1), soon()));
  ASSERT_TRUE(out.send(pattern(100'000, 2), soon()));
  auto held = in.receive(soon());
  const auto listed = list_channels(directory_.path());
  ASSERT_TRUE(listed);
  ASSERT_EQ(listed->size(), 2u);
  const ChannelStatus& frames = listed->at(0);
  EXPECT_EQ(frames.name, "frames");
  EXPECT_EQ(frames.producer_pid, ::getpid());
  ASSERT_EQ(frames.consumers.size(), 1u);
  EXPECT_EQ(frames.consumers[0].pid, ::getpid());
  EXPECT_EQ(frames.slots, 8u);
  EXPECT_EQ(frames.slots_held, 2u);
  EXPECT_EQ(frames.producer.messages, 2u);
  EXPECT_EQ(frames.consumers[0].metrics.messages, 1u);
  EXPECT_EQ(frames.consumers[0].metrics.bytes, 100'000u);
  EXPECT_EQ(listed->at(1).name, "lonely");
  EXPECT_TRUE(listed->at(1).consumers.empty());
}

TEST_F(Channel, ListingMakesNoDirectory) {
  const std::string missing = directory_.path() + "/missing";
  const auto listed = list_channels(missing);
  ASSERT_TRUE(listed) << listed.error().message;
  EXPECT_TRUE(listed->empty());
  EXPECT_TRUE(directory_.is_empty());
}

TEST_F(Channel, RefusesImpossibleOptions) {
  options_.slots = 0;
  EXPECT_EQ(make_producer("frames", options_).error().code, Code::invalid_argument);
  options_.slots = 65;
  EXPECT_EQ(make_producer("frames", options_).error().code, Code::invalid_argument);
  EXPECT_EQ(make_producer("a/b", options_).error().code, Code::invalid_argument);
  options_.slots = 1;
  EXPECT_EQ(Producer::open("frames", options_, nullptr).error().code, Code::invalid_argument);
}

}  // namespace
}  // namespace gantry
