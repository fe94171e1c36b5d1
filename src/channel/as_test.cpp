#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <thread>

#include "base/half_float.hpp"
#include "channel/test_support.hpp"

// Messages whose elements become others on their way: every byte that arrives is what a plain loop
// makes of what was sent.
namespace gantry {
namespace {

using test::consumer_options;
using test::make_producer;
using test::options_in;
using test::same;
using test::soon;

std::vector<float> numbers(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(random() % 100'000) / 7 - 5'000;
  return values;
}

ConstByteSpan bytes_of(const std::vector<float>& values) {
  return std::as_bytes(std::span(values));
}

Tensor row(DataType type, std::size_t count) {
  const auto extent = static_cast<std::int64_t>(count);
  return Tensor::dense(type, {&extent, 1});
}

std::vector<std::byte> as_bf16(const std::vector<float>& values) {
  std::vector<std::byte> made;
  for (const float value : values) {
    const std::uint16_t bits = bf16_of_float(value);
    made.push_back(static_cast<std::byte>(bits));
    made.push_back(static_cast<std::byte>(bits >> 8));
  }
  return made;
}

constexpr std::size_t kCounts[] = {1, 16, 33, 1000, 20'001, 300'007, 3'000'001};
constexpr SendMode kEveryMode[] = {SendMode::whole, SendMode::pipelined, SendMode::streamed,
                                   SendMode::immutable};

class Conversions : public testing::Test {
 protected:
  test::ScratchDirectory directory_;
  ProducerOptions options_ = options_in(directory_);

  struct Ends {
    Producer out;
    Consumer in;
  };
  Ends ends_of() {
    return {*make_producer("frames", options_),
            *Consumer::open("frames", consumer_options(options_), soon())};
  }
  static void expect_next(Consumer& in, const std::vector<float>& sent) {
    const auto message = in.receive(soon());
    ASSERT_TRUE(message) << message.error().message;
    ASSERT_EQ(message->segments(), 1u);
    EXPECT_EQ(message->segment(0).tensor, row(types::bf16, sent.size()));
    EXPECT_TRUE(same(message->segment(0).bytes, as_bf16(sent))) << sent.size();
  }
  static void expect_refused(const Result<void>& sent, std::string_view why) {
    ASSERT_FALSE(sent);
    EXPECT_EQ(sent.error().code, Code::invalid_argument);
    EXPECT_NE(sent.error().message.find(why), std::string::npos) << sent.error().message;
    EXPECT_EQ(sent.error().message.find("channel 'frames': "), 0u) << sent.error().message;
  }
};

TEST_F(Conversions, ADraftIsConvertedInEveryModeAndSize) {
  for (const Bytes cells : {Bytes{0}, Bytes{4096}}) {
    options_.cell_bytes = cells;
    Ends ends = ends_of();
    for (const SendMode mode : kEveryMode)
      for (const std::size_t count : kCounts) {
        const auto values = numbers(count, static_cast<unsigned>(count));
        ASSERT_TRUE(
            ends.out.send(Draft().copy(bytes_of(values), row(types::f32, count)).as(types::bf16),
                          {.deadline = soon(), .mode = mode}));
        expect_next(ends.in, values);
        if (HasFatalFailure()) return;
      }
  }
}

TEST_F(Conversions, ASendAndAChannelSayItForAllTheirParts) {
  const auto one = numbers(5000, 1), two = numbers(70'000, 2);
  const auto draft = [&] {
    return Draft()
        .copy(bytes_of(one), row(types::f32, one.size()))
        .copy(bytes_of(two), row(types::f32, two.size()))
        .as(types::i16);
  };
  const auto check = [&](Consumer& in, DataType first) {
    const auto message = in.receive(soon());
    ASSERT_TRUE(message);
    ASSERT_EQ(message->segments(), 2u);
    EXPECT_EQ(message->segment(0).tensor, row(first, one.size()));
    EXPECT_EQ(message->segment(1).tensor, row(types::i16, two.size()));
    if (first == types::bf16) {
      EXPECT_TRUE(same(message->segment(0).bytes, as_bf16(one)));
    }
    const auto* whole = reinterpret_cast<const std::int16_t*>(message->segment(1).bytes.data());
    for (std::size_t i = 0; i < two.size(); ++i)
      ASSERT_EQ(whole[i], static_cast<std::int16_t>(std::nearbyint(two[i]))) << i;
  };
  const As bf16 = types::bf16, f16 = types::f16;
  {
    Ends ends = ends_of();
    ASSERT_TRUE(ends.out.send(draft(), {.deadline = soon(), .as = &bf16}));
    check(ends.in, types::bf16);
  }
  options_.as = bf16;
  Ends ends = ends_of();
  ASSERT_TRUE(ends.out.send(draft(), {.deadline = soon()}));
  check(ends.in, types::bf16);
  ASSERT_TRUE(ends.out.send(draft(), {.deadline = soon(), .as = &f16}));
  check(ends.in, types::f16);
}

TEST_F(Conversions, APlanChangesTheLayoutToo) {
  const std::int64_t pixels[] = {2, 100, 90, 3}, planes[] = {2, 3, 100, 90};
  const auto plan =
      ReshapePlan::make(Tensor::dense(types::f32, planes), Tensor::dense(types::u8, pixels),
                        {.order = {0, 3, 1, 2}, .scale = {0.5f}, .offset = {-8}});
  ASSERT_TRUE(plan) << plan.error().message;
  const auto image = test::pattern(2 * 100 * 90 * 3, 5);
  Ends ends = ends_of();
  for (const SendMode mode : kEveryMode) {
    ASSERT_TRUE(ends.out.send(Draft().copy(image).as(*plan), {.deadline = soon(), .mode = mode}));
    const auto message = ends.in.receive(soon());
    ASSERT_TRUE(message);
    EXPECT_EQ(message->segment(0).tensor, Tensor::dense(types::f32, planes));
    const auto* got = reinterpret_cast<const float*>(message->segment(0).bytes.data());
    for (std::size_t n = 0; n < 2; ++n)
      for (std::size_t c = 0; c < 3; ++c)
        for (std::size_t p = 0; p < 9000; ++p)
          ASSERT_EQ(
              got[(n * 3 + c) * 9000 + p],
              static_cast<float>(std::to_integer<int>(image[(n * 9000 + p) * 3 + c])) * 0.5f - 8);
  }
}

TEST_F(Conversions, BytesBecomeWhatTheChannelSaysTheyAre) {
  options_.as = *As::parse("f32 -> bf16");
  Ends ends = ends_of();
  for (const std::size_t count : kCounts) {
    const auto values = numbers(count, 3);
    ASSERT_TRUE(ends.out.send(bytes_of(values), soon()));
    expect_next(ends.in, values);
    const auto ticket = ends.out.send_async(bytes_of(values), {.deadline = soon()});
    ASSERT_TRUE(ticket);
    expect_next(ends.in, values);
    ASSERT_TRUE(ends.out.wait(*ticket, soon()));
    const ConstByteSpan two[] = {bytes_of(values), bytes_of(values)};
    ASSERT_EQ(ends.out.send_batch(two, {.deadline = soon()}), 2u);
    expect_next(ends.in, values);
    expect_next(ends.in, values);
  }
  ASSERT_TRUE(ends.out.send(ConstByteSpan(), soon()));  // nothing becomes nothing
  EXPECT_EQ(ends.in.receive(soon())->bytes().size(), 0u);
}

TEST_F(Conversions, ALoanIsOfTheSourcesTypeAndPublishingConverts) {
  options_.as = *As::parse("f32 -> bf16");
  options_.slots = 1;  // publish() needs no second one
  Ends ends = ends_of();
  for (int round = 0; round < 3; ++round)
    for (const std::size_t count : kCounts) {
      const auto values = numbers(count, 4);
      auto loan = ends.out.loan(4 * count, soon());
      ASSERT_TRUE(loan) << loan.error().message;
      std::memcpy(loan->bytes().data(), values.data(), 4 * count);
      ASSERT_TRUE(ends.out.publish(std::move(*loan)));
      expect_next(ends.in, values);
    }
  auto loan = ends.out.loan(15, soon());
  expect_refused(ends.out.publish(std::move(*loan)), "15 bytes are no whole number of f32");
  EXPECT_TRUE(ends.out.send(bytes_of({1.f}), soon()));  // the slot came back
}

TEST_F(Conversions, EachReaderGetsTheSameAndItIsMadeOnce) {
  options_.consumers = 2;
  Ends ends = ends_of();
  Consumer other = *Consumer::open("frames", consumer_options(options_), soon());
  const auto values = numbers(200'000, 6);
  ASSERT_TRUE(
      ends.out.send(Draft().copy(bytes_of(values), row(types::f32, values.size())).as(types::bf16),
                    {.deadline = soon()}));
  expect_next(ends.in, values);
  expect_next(other, values);
  EXPECT_EQ(ends.out.metrics().copied_bytes[0], 400'000u);
}

TEST_F(Conversions, WhatCannotBeConvertedIsRefusedAndNothingIsLost) {
  Ends ends = ends_of();
  const auto values = numbers(1000, 7);
  const ConstByteSpan bytes = bytes_of(values);
  const Tensor tensor = row(types::f32, 1000);
  const SendOptions options{.deadline = soon()};
  expect_refused(ends.out.send(Draft().copy(bytes).as(types::bf16), options),
                 "4000 bytes without a tensor cannot become bf16");
  expect_refused(ends.out.send(Draft().copy(bytes, row(types::f32, 1001)).as(types::bf16), options),
                 "does not fit its segment of 4000 bytes");
  expect_refused(
      ends.out.send(Draft().copy(bytes, Tensor{{99, 32, 1}, 1, {1000}, {1}}).as(types::bf16),
                    options),
      "DLPack type 99 of 32 bits");
  As exact = types::bf16;
  exact.exact = true;
  expect_refused(ends.out.send(Draft().copy(bytes, tensor).as(exact), options), "not exact");
  Block block = *ends.out.pool().allocate(4000);
  std::memcpy(block.bytes().data(), values.data(), 4000);
  expect_refused(ends.out.send(Draft().move(block.share(), tensor).as(types::bf16), options),
                 "a block of f32 cannot become bf16");
  // A block of the type that is wanted goes as it is.
  ASSERT_TRUE(ends.out.send(Draft().move(std::move(block), tensor).as(types::f32), options));
  auto message = ends.in.receive(soon());
  ASSERT_TRUE(message);
  EXPECT_TRUE(same(message->segment(0).bytes, bytes));
  expect_refused(ends.out.send(Draft().forward(std::move(*message)).as(types::bf16), options),
                 "a message that travels on of f32 cannot become bf16");
  ASSERT_TRUE(ends.out.send(Draft().copy(bytes, tensor).as(types::bf16), options));
  expect_next(ends.in, values);
}

TEST_F(Conversions, ASourceThatGoesAwayIsAnErrorOfThisMessageAlone) {
  options_.cell_bytes = 4096;
  Ends ends = ends_of();
  for (const std::size_t count : {500u, 100'000u, 2'000'000u})
    for (const SendMode mode : kEveryMode) {
      void* at = ::mmap(nullptr, 4 * count, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      const ConstByteSpan gone(static_cast<const std::byte*>(at), 4 * count);
      const auto sent = ends.out.send(Draft().copy(gone, row(types::f32, count)).as(types::bf16),
                                      {.deadline = soon(), .mode = mode});
      ASSERT_FALSE(sent);
      EXPECT_EQ(sent.error().code, Code::invalid_argument) << sent.error().message;
      ::munmap(at, 4 * count);
      const auto values = numbers(count, 8);
      ASSERT_TRUE(
          ends.out.send(Draft().copy(bytes_of(values), row(types::f32, count)).as(types::bf16),
                        {.deadline = soon(), .mode = mode}));
      expect_next(ends.in, values);
    }
}

}  // namespace
}  // namespace gantry
