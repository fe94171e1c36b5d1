#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cstring>
#include <thread>

#include "core/channel/test_support.hpp"

// Messages of several parts: copied, moved, passed on; and what is said of them.
namespace gantry {
namespace {

using test::consumer_options;
using test::make_producer;
using test::options_in;
using test::pattern;
using test::same;
using test::soon;

constexpr DataType kFloat32{DataType::floating, 32, 1};

class Segments : public testing::Test {
 protected:
  test::ScratchDirectory directory_;
  ProducerOptions options_ = options_in(directory_);
  Producer out_ = *make_producer("frames", options_);
  Consumer in_ = *Consumer::open("frames", consumer_options(options_), soon());
};

TEST_F(Segments, PartsOfEveryKindArriveAsOneMessage) {
  const auto small = pattern(10, 1);
  const auto large = pattern(700'001, 2);
  const auto moved = pattern(30'000, 3);
  const std::array<std::int64_t, 3> shape{2, 3, 5};
  for (const SendMode mode : {SendMode::whole, SendMode::pipelined, SendMode::streamed}) {
    Block block = *out_.pool().allocate(moved.size());
    std::memcpy(block.bytes().data(), moved.data(), moved.size());
    Draft draft;
    draft.copy(small).copy({}).move(std::move(block), Tensor::dense(kFloat32, shape)).copy(large);
    ASSERT_TRUE(out_.send(std::move(draft), {.deadline = soon(), .mode = mode}));
    const auto message = in_.receive(soon());
    ASSERT_TRUE(message) << message.error().message;
    ASSERT_EQ(message->segments(), 4u);
    EXPECT_TRUE(same(message->segment(0).bytes, small));
    EXPECT_TRUE(message->segment(1).bytes.empty());
    EXPECT_TRUE(same(message->segment(2).bytes, moved));
    EXPECT_TRUE(same(message->segment(3).bytes, large));
    EXPECT_EQ(message->segment(2).tensor, Tensor::dense(kFloat32, shape));
    EXPECT_FALSE(message->segment(3).tensor);
  }
}

TEST_F(Segments, ChunksGoThroughTheSegmentsInTurn) {
  const auto one = pattern(300'000, 1), two = pattern(400'000, 2);
  Draft draft;
  draft.copy(one).copy({}).copy(two);
  ASSERT_TRUE(out_.send(std::move(draft), {.deadline = soon(), .mode = SendMode::pipelined}));
  auto incoming = in_.receive_early(soon());
  ASSERT_TRUE(incoming);
  std::vector<std::byte> got(700'000);
  ASSERT_EQ(*incoming->into(got, soon()), 700'000u);
  EXPECT_TRUE(same(ConstByteSpan(got).first(300'000), one));
  EXPECT_TRUE(same(ConstByteSpan(got).last(400'000), two));
}

TEST_F(Segments, AsManyAsThereMayBeAndNoMore) {
  const auto payload = pattern(kMaxSegments, 1);
  Draft most, too_many;
  for (std::size_t i = 0; i < kMaxSegments; ++i) most.copy(ConstByteSpan(payload).subspan(i, 1));
  for (std::size_t i = 0; i <= kMaxSegments; ++i) too_many.copy(ConstByteSpan(payload).first(1));
  ASSERT_TRUE(out_.send(std::move(most), {.deadline = soon()}));
  EXPECT_EQ(out_.send(std::move(too_many), {.deadline = soon()}).error().code, Code::too_large);
  const auto message = in_.receive(soon());
  ASSERT_TRUE(message);
  ASSERT_EQ(message->segments(), kMaxSegments);
  for (std::size_t i = 0; i < kMaxSegments; ++i)
    EXPECT_EQ(message->segment(i).bytes.front(), payload[i]);
}

TEST_F(Segments, ADraftWithoutPartsIsAnEmptyMessage) {
  ASSERT_TRUE(out_.send(Draft(), {.deadline = soon(), .type = 3}));
  const auto message = in_.receive(soon());
  ASSERT_TRUE(message);
  EXPECT_TRUE(message->bytes().empty());
  EXPECT_EQ(message->info().type, 3u);
}

TEST_F(Segments, TensorsThatDoNotFitAreRefused) {
  const auto payload = pattern(100, 1);
  for (const std::int64_t count : {26l, 1l << 62, -1l}) {
    Draft draft;
    draft.copy(payload, Tensor::dense(kFloat32, std::span(&count, 1)));
    EXPECT_EQ(out_.send(std::move(draft), {.deadline = soon()}).error().code,
              Code::invalid_argument)
        << count;
  }
  const std::int64_t fits = 25;
  Draft draft;
  draft.copy(payload, Tensor::dense(kFloat32, std::span(&fits, 1)));
  EXPECT_TRUE(out_.send(std::move(draft), {.deadline = soon()}));
}

TEST(Tensors, OnlyWhatLiesInTheBytesFits) {
  Tensor tensor = Tensor::dense(kFloat32, std::array<std::int64_t, 2>{4, 5});
  EXPECT_TRUE(tensor.fits(80));
  EXPECT_FALSE(tensor.fits(79));
  tensor.strides = {10, 1};
  EXPECT_FALSE(tensor.fits(80));
  EXPECT_TRUE(tensor.fits(140));
  tensor.strides = {-5, 1};
  EXPECT_FALSE(tensor.fits(1000));
  tensor.strides = {std::int64_t{1} << 62, 1};
  EXPECT_FALSE(tensor.fits(1000));
  tensor.shape = {0, 5};
  EXPECT_TRUE(tensor.fits(0));
  tensor.dimensions = 9;
  EXPECT_FALSE(tensor.fits(1000));
  const Tensor bits{{DataType::unsigned_int, 1, 1}, 1, {9}, {1}};
  EXPECT_TRUE(bits.fits(2));
  EXPECT_FALSE(bits.fits(1));
  // Its last bit is number 2^64 - 1: rounded up to whole bytes that would be none.
  const Tensor huge{{DataType::unsigned_int, 255, 1}, 1, {72'340'172'838'076'673}, {1}};
  EXPECT_FALSE(huge.fits(0));
}

// ---- passing on ----------------------------------------------------------------------------

class Forwarding : public Segments {
 protected:
  Producer onward_ = *make_producer("onward", options_);
  Consumer last_ = *Consumer::open("onward", consumer_options(options_), soon());
};

TEST_F(Forwarding, AMessageGoesOnWithoutACopy) {
  const auto payload = pattern(500'000, 1), other = pattern(80'000, 2);
  for (int i = 0; i < 30; ++i) {
    Draft first;
    first.copy(payload).copy(other);
    ASSERT_TRUE(out_.send(std::move(first), {.deadline = soon(), .mode = SendMode::whole}));
    Draft draft;
    draft.forward(*in_.receive(soon()));
    ASSERT_TRUE(onward_.send(std::move(draft), {.deadline = soon()}));
    const auto message = last_.receive(soon());
    ASSERT_TRUE(message) << message.error().message;
    ASSERT_EQ(message->segments(), 2u);
    EXPECT_TRUE(same(message->segment(0).bytes, payload));
    EXPECT_TRUE(same(message->segment(1).bytes, other));
  }
  EXPECT_EQ(onward_.metrics().copies, MetricsReport{}.copies);
}

TEST_F(Forwarding, AMessageThatWasReleasedIsRefused) {
  for (const Bytes size : {Bytes{60}, Bytes{100'000}}) {
    ASSERT_TRUE(out_.send(pattern(size, 1), soon()));
    Draft draft;
    draft.forward(*in_.receive(soon()));
    draft.parts().front().forwarded->release();
    const auto sent = onward_.send(std::move(draft), {.deadline = soon()});
    ASSERT_FALSE(sent);
    EXPECT_EQ(sent.error().code, Code::invalid_argument);
    EXPECT_THAT(sent.error().message,
                testing::HasSubstr(fmt::format("message of {} bytes was released", size)));
  }
  const auto payload = pattern(200'000, 3);  // all is well behind it
  ASSERT_TRUE(onward_.send(payload, soon()));
  EXPECT_TRUE(same(last_.receive(soon())->bytes(), payload));
}

TEST_F(Forwarding, ItIsItsSendersAgainOnlyWhenTheLastReaderIsDone) {
  ASSERT_TRUE(out_.send(pattern(100'000, 1), soon()));
  Draft draft;
  draft.forward(*in_.receive(soon()));
  ASSERT_TRUE(onward_.send(std::move(draft), {.deadline = soon()}));
  auto message = last_.receive(soon());
  ASSERT_TRUE(message);
  for (unsigned i = 1; i < options_.slots; ++i) {  // all other credits
    ASSERT_TRUE(out_.send(pattern(1000, i), soon()));
  }
  EXPECT_EQ(out_.send(pattern(1000, 9), Deadline::now()).error().code, Code::timed_out);
  EXPECT_TRUE(same(message->bytes(), pattern(100'000, 1)));
  message->release();
  EXPECT_TRUE(out_.send(pattern(1000, 9), soon())) << "and nobody called the forwarder";
}

// The relay sleeps in receive(), upstream has one credit: only its release downstream frees it.
TEST_F(Forwarding, ARelayThatOnlyWaitsHoldsNobodyUp) {
  options_.slots = 1;
  Producer up = *make_producer("up", options_);
  Consumer relay_in = *Consumer::open("up", consumer_options(options_), soon());
  constexpr int kMessages = 200;
  std::thread relay([&] {
    for (int i = 0; i < kMessages; ++i) {
      Draft draft;
      auto message = relay_in.receive(soon());
      ASSERT_TRUE(message) << i << ": " << message.error().message;
      draft.forward(std::move(*message));
      ASSERT_TRUE(onward_.send(std::move(draft), {.deadline = soon()}));
    }
  });
  std::thread consumer([&] {
    for (int i = 0; i < kMessages; ++i) {
      const auto message = last_.receive(soon());
      ASSERT_TRUE(message) << message.error().message;
      EXPECT_TRUE(same(message->bytes(), pattern(1000, static_cast<std::uint64_t>(i))));
    }
  });
  for (int i = 0; i < kMessages; ++i) {
    const auto sent = up.send(pattern(1000, static_cast<std::uint64_t>(i)), soon());
    ASSERT_TRUE(sent) << i << ": " << sent.error().message;
  }
  relay.join();
  consumer.join();
}

// The forwarder's own waits and the acceptor's watch take turns at one wake-up socket.
TEST_F(Forwarding, ItsOwnWaitsFindTheirCreditsBesides) {
  options_.slots = 2;
  Producer narrow = *make_producer("narrow", options_);
  Consumer consumer = *Consumer::open("narrow", consumer_options(options_), soon());
  std::thread reading([&] {
    for (int i = 0; i < 400; ++i) ASSERT_TRUE(consumer.receive(soon()));
  });
  for (int i = 0; i < 200; ++i) {
    ASSERT_TRUE(out_.send(pattern(1000, 1), soon())) << i;
    Draft draft;
    draft.forward(*in_.receive(soon()));
    ASSERT_TRUE(narrow.send(std::move(draft), {.deadline = soon()})) << i;
    ASSERT_TRUE(narrow.send(pattern(1000, 2), soon())) << i;
  }
  reading.join();
}

TEST_F(Forwarding, SmallAndStreamedMessagesAreCopied) {
  ASSERT_TRUE(out_.send(pattern(20, 1), soon()));
  Draft small;
  small.forward(*in_.receive(soon()));
  ASSERT_TRUE(onward_.send(std::move(small), {.deadline = soon()}));
  EXPECT_TRUE(same(last_.receive(soon())->bytes(), pattern(20, 1)));
  const auto large = pattern(kMiB, 2);
  std::thread sender(
      [&] { ASSERT_TRUE(out_.send(large, {.deadline = soon(), .mode = SendMode::streamed})); });
  Draft streamed;
  streamed.forward(*in_.receive(soon()));
  sender.join();
  ASSERT_TRUE(onward_.send(std::move(streamed), {.deadline = soon()}));
  EXPECT_TRUE(same(last_.receive(soon())->bytes(), large));
}

TEST_F(Forwarding, ItStaysReadableWhenItsSenderIsGone) {
  ASSERT_TRUE(out_.send(pattern(100'000, 1), soon()));
  Draft draft;
  draft.forward(*in_.receive(soon()));
  ASSERT_TRUE(onward_.send(std::move(draft), {.deadline = soon()}));
  {
    const Producer dropped = std::move(out_);
  }
  const auto message = last_.receive(soon());
  ASSERT_TRUE(message) << message.error().message;
  EXPECT_TRUE(same(message->bytes(), pattern(100'000, 1)));
}

}  // namespace
}  // namespace gantry
