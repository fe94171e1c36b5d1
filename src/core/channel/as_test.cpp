#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include <gantry/shape.hpp>

#include "core/base/half_float.hpp"
#include "core/channel/test_support.hpp"

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
  test::Numbers random(seed);
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
  // A streamed message waits for its reader.
  static void expect_sent(Ends& ends, const std::vector<float>& values, SendMode mode) {
    expect_sent(ends, values, as_bf16(values), mode);
  }
  static void expect_sent(Ends& ends, const std::vector<float>& values,
                          const std::vector<std::byte>& wanted, SendMode mode) {
    Result<void> sent;
    std::thread sending([&] {
      sent = ends.out.send(
          Draft().copy(bytes_of(values), row(types::f32, values.size())).as(types::bf16),
          {.deadline = soon(), .mode = mode});
    });
    expect_next(ends.in, values.size(), wanted);
    sending.join();
    EXPECT_TRUE(sent) << sent.error().message;
  }
  static void expect_next(Consumer& in, const std::vector<float>& sent) {
    expect_next(in, sent.size(), as_bf16(sent));
  }
  static void expect_next(Consumer& in, std::size_t count, const std::vector<std::byte>& wanted) {
    const auto message = in.receive(soon());
    ASSERT_TRUE(message) << message.error().message;
    ASSERT_EQ(message->segments(), 1u);
    EXPECT_EQ(message->segment(0).tensor, row(types::bf16, count));
    EXPECT_TRUE(same(message->segment(0).bytes, wanted)) << count;
  }
  static void expect_refused(const Result<void>& sent, std::string_view why) {
    ASSERT_FALSE(sent);
    EXPECT_EQ(sent.error().code, Code::invalid_argument);
    EXPECT_NE(sent.error().message.find(why), std::string::npos) << sent.error().message;
    EXPECT_EQ(sent.error().message.find("channel 'frames': "), 0u) << sent.error().message;
  }
};

TEST_F(Conversions, ADraftIsConvertedInEveryModeAndSize) {
  for (const std::size_t count : kCounts) {
    const auto values = numbers(count, static_cast<unsigned>(count));
    const auto wanted = as_bf16(values);
    for (const Bytes cells : {Bytes{0}, Bytes{4096}}) {
      options_.cell_bytes = cells;
      Ends ends = ends_of();
      for (const SendMode mode : kEveryMode) {
        expect_sent(ends, values, wanted, mode);
        if (HasFatalFailure()) return;
      }
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
    std::thread sending([&] {
      EXPECT_TRUE(ends.out.send(Draft().copy(image).as(*plan), {.deadline = soon(), .mode = mode}));
    });
    const auto message = ends.in.receive(soon());
    sending.join();
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
      expect_sent(ends, values, mode);
    }
}

TEST_F(Conversions, AChannelSaysWhatBecomesOfWhatIsSent) {
  options_.as = *As::parse("f32 -> bf16");
  Ends ends = ends_of();
  const auto has = [&](Bytes payload, std::string_view line) {
    const auto because = ends.out.explain(payload).because;
    return std::ranges::find(because, line) != because.end();
  };
  EXPECT_TRUE(has(kMiB, "what is sent becomes f32 -> bf16 on its way"));
  EXPECT_TRUE(has(kMiB + 1, "what is sent becomes f32 -> bf16 on its way"));
  // By the bytes that travel, half of what is sent: pipelined from 128 KiB of them on.
  EXPECT_EQ(ends.out.explain((Bytes{256} << 10) - 4).mode, SendMode::whole);
  EXPECT_EQ(ends.out.explain(Bytes{256} << 10).mode, SendMode::pipelined);
}

// ---- at the receiving end ------------------------------------------------------------------

std::vector<std::byte> converted(const ReshapePlan& plan, ConstByteSpan source) {
  std::vector<std::byte> made(plan.destination_bytes());
  EXPECT_TRUE(plan.convert(made, source));
  return made;
}

// Of every kind: whole elements, elements of groups that chunks cut, packed ones, another order.
std::vector<ReshapePlan> plans_of(std::size_t count) {
  const auto extent = static_cast<std::int64_t>(count);
  const std::int64_t rows[] = {extent / 8, 8}, turned[] = {8, extent / 8};
  const Tensor floats = Tensor::dense(types::f32, {&extent, 1});
  const DataType groups = *parse_type("i8[32]");
  return {*ReshapePlan::make(types::bf16, floats), *ReshapePlan::make(types::f64, floats),
          *ReshapePlan::make(types::i4, floats), *ReshapePlan::make(groups, floats),
          *ReshapePlan::make(Tensor::dense(types::bf16, turned), Tensor::dense(types::f32, rows),
                             {.order = {1, 0}})};
}

TEST_F(Conversions, AReaderConvertsWhileItLands) {
  Ends ends = ends_of();
  for (const SendMode mode : kEveryMode)
    for (const std::size_t count : {64u, 4096u, 300'000u / 64 * 64, 3'000'000u / 64 * 64}) {
      const auto values = numbers(count, 9);
      for (const ReshapePlan& plan : plans_of(count)) {
        SCOPED_TRACE(testing::Message() << plan.text() << " " << to_string(mode));
        std::vector<std::byte> made(plan.destination_bytes() + 1, std::byte{0xee});
        std::thread sending([&] {
          EXPECT_TRUE(ends.out.send(bytes_of(values), {.deadline = soon(), .mode = mode}));
        });
        const auto received = ends.in.receive_into(made, plan, soon());
        sending.join();
        ASSERT_TRUE(received) << received.error().message;
        EXPECT_EQ(received->bytes, plan.destination_bytes());
        ASSERT_TRUE(
            same(ConstByteSpan(made).first(received->bytes), converted(plan, bytes_of(values))));
        EXPECT_EQ(made.back(), std::byte{0xee});
      }
    }
}

// Groups of 34 bytes lie across every border of a chunk.
TEST_F(Conversions, WhatAChunkCutsIsPutTogether) {
  Ends ends = ends_of();
  const std::size_t count = 1'000'000u / 128 * 128;
  const auto values = numbers(count, 10);
  for (const std::string_view type : {"i8[32]", "u4[128,f32,zero]", "e2m1[32,e8m0]"}) {
    const auto extent = static_cast<std::int64_t>(count);
    const Tensor floats = Tensor::dense(types::f32, {&extent, 1});
    const auto there = *ReshapePlan::make(*parse_type(type), floats);
    const auto back = *ReshapePlan::make(floats, there.destination());
    const auto packed = converted(there, bytes_of(values));
    for (const SendMode mode : kEveryMode) {
      std::vector<std::byte> made(back.destination_bytes());
      std::thread sending(
          [&] { EXPECT_TRUE(ends.out.send(packed, {.deadline = soon(), .mode = mode})); });
      const auto received = ends.in.receive_into(made, back, soon());
      sending.join();
      ASSERT_TRUE(received) << received.error().message;
      ASSERT_TRUE(same(made, converted(back, packed))) << type << " " << to_string(mode);
    }
  }
}

TEST_F(Conversions, AStreamedTensorSaysWhatItIsFromTheFirstByteOn) {
  Ends ends = ends_of();
  const auto values = numbers(3'000'000, 11);
  const Tensor tensor = row(types::f32, values.size());
  for (const bool converts : {false, true}) {
    std::thread sending([&] {
      Draft draft;
      draft.copy(bytes_of(values), tensor);
      if (converts) draft.as(types::bf16);
      EXPECT_TRUE(
          ends.out.send(std::move(draft), {.deadline = soon(), .mode = SendMode::streamed}));
    });
    auto incoming = ends.in.receive_early(soon());
    ASSERT_TRUE(incoming) << incoming.error().message;
    EXPECT_TRUE(incoming->is_streamed());
    EXPECT_EQ(incoming->tensor(), row(converts ? types::bf16 : types::f32, values.size()));
    std::vector<std::byte> got(incoming->size());
    EXPECT_TRUE(incoming->into(got, soon()));
    sending.join();
    const auto narrowed = as_bf16(values);
    EXPECT_TRUE(same(got, converts ? ConstByteSpan(narrowed) : bytes_of(values)));
  }
}

TEST_F(Conversions, ABufferOrAMessageThatIsTooSmallIsRefusedAndStays) {
  Ends ends = ends_of();
  const auto values = numbers(1000, 12);
  const auto plan = *ReshapePlan::make(types::bf16, row(types::f32, 1000));
  const auto larger = *ReshapePlan::make(types::bf16, row(types::f32, 1001));
  std::vector<std::byte> made(2002);
  ASSERT_TRUE(ends.out.send(bytes_of(values), soon()));
  const auto refused = [&](ByteSpan buffer, const ReshapePlan& by, std::string_view why) {
    const auto received = ends.in.receive_into(buffer, by, soon());
    ASSERT_FALSE(received);
    EXPECT_EQ(received.error().code, Code::invalid_argument);
    EXPECT_NE(received.error().message.find(why), std::string::npos) << received.error().message;
  };
  refused(ByteSpan(made).first(1999), plan, "becomes 2000 bytes, the buffer has 1999");
  refused(made, larger, "has 4000 bytes, the plan reads 4004");
  refused(made, *ReshapePlan::make(types::bf16, row(types::f32, 999)), "the plan reads 3996");
  ASSERT_TRUE(ends.in.receive_into(made, plan, soon()));
  EXPECT_TRUE(same(ConstByteSpan(made).first(2000), as_bf16(values)));
}

}  // namespace
}  // namespace gantry
