#include <random>

#include <gantry/shape.hpp>

#include "core/base/test_effort.hpp"
#include "core/channel/consumer/landing_conversion.hpp"
#include "engine_suite.hpp"
#include "shape_reference.hpp"

// What every engine does with reshapes, against a plain loop over the destination's numbers.
namespace gantry {
namespace {

std::string told(const AskedReshape& asked, const ReshapePlan& plan) {
  std::string text = plan.text();
  for (unsigned i = 0; i < asked.from.dimensions; ++i)
    text += " stride " + std::to_string(asked.from.strides[i]);
  const ReshapeOptions& options = asked.options;
  for (const unsigned i : options.order) text += " order " + std::to_string(i);
  for (const auto i : options.crop_from) text += " crop " + std::to_string(i);
  for (const auto i : options.pad_before) text += " pad " + std::to_string(i);
  for (const auto i : options.channels) text += " channel " + std::to_string(i);
  text += " of dimension " + std::to_string(options.channel_dimension);
  return text + " scales " + std::to_string(options.scale.size());
}

// At the destination's offset from the plan's front, with bytes around it that must stay.
struct Window {
  Bytes from = 0, bytes = 0, unaligned = 0;
};

class EngineReshapes : public EngineConformance {
 protected:
  void check_part(const ReshapePlan& plan, ConstByteSpan source,
                  const std::vector<std::byte>& whole, const Window& window, CacheUse cache) {
    std::vector<std::byte> got(window.bytes + window.unaligned + 130, std::byte{0xee});
    std::vector<std::byte> expected = got;
    std::copy_n(whole.begin() + static_cast<std::ptrdiff_t>(window.from), window.bytes,
                expected.begin() + static_cast<std::ptrdiff_t>(window.unaligned));
    Move move = Move::reshape(ByteSpan(got).subspan(window.unaligned, window.bytes), source, plan,
                              window.from);
    move.cache = cache;
    run_well(move);
    if (test::same(got, expected)) return;
    const auto [bad, good] = std::mismatch(got.begin(), got.end(), expected.begin());
    FAIL() << "byte " << bad - got.begin() << " of " << window.bytes << " from " << window.from
           << ", " << static_cast<int>(*bad) << " for " << static_cast<int>(*good);
  }
};

TEST_P(EngineReshapes, DoWhatAPlainLoopDoesForEveryTypeAndLayout) {
  std::mt19937 random(test_seed(21));
  for (int i = 0; i < 600; i += kTestStride) {
    const DrawnReshape drawn(random, i % 40 == 0 ? 200'000 : 4'000);
    const auto plan =
        ReshapePlan::make(drawn.asked().to, drawn.asked().from, drawn.asked().options);
    ASSERT_TRUE(plan) << plan.error().message;
    SCOPED_TRACE(testing::Message() << "reshape " << i << ": " << told(drawn.asked(), *plan));
    ASSERT_EQ(plan->source_bytes(), drawn.source().size());
    const auto whole = PlainReshape(drawn.asked(), drawn.source().data()).make();
    ASSERT_EQ(plan->destination_bytes(), whole.size());
    const auto cache = random() % 2 == 0 ? CacheUse::reader_soon : CacheUse::streaming;
    check_part(*plan, drawn.source(), whole, {0, whole.size(), random() % 70}, cache);
    if (HasFatalFailure()) return;
    const Bytes from = random() % whole.size();
    check_part(*plan, drawn.source(), whole, {from, random() % (whole.size() - from + 1), 3},
               cache);
    if (HasFatalFailure()) return;
  }
}

/// Parts in their turn, each of no more of the source than its front has: as a message lands.
std::vector<std::byte> landed(const ReshapePlan& plan, ConstByteSpan source, std::mt19937& random) {
  std::vector<std::byte> made(plan.destination_bytes(), std::byte{0xee});
  Bytes done = 0;
  for (Bytes there = 0; there < source.size();) {
    there = std::min<Bytes>(source.size(), there + 1 + random() % 40);
    const Bytes enough = plan.destination_from(there);
    const ByteRange needed = plan.source_of({done, enough - done});
    const std::vector<std::byte> part(source.data() + needed.from, source.data() + needed.end());
    EXPECT_LE(needed.end(), there);
    EXPECT_TRUE(plan.convert(ByteSpan(made).subspan(done, enough - done), part, done, needed.from));
    done = enough;
  }
  return made;
}

/// By pieces that go when they were taken, as chunks of a message do.
std::vector<std::byte> converted_as_it_lands(const ReshapePlan& plan, ConstByteSpan source,
                                             std::mt19937& random) {
  std::vector<std::byte> made(plan.destination_bytes(), std::byte{0xee});
  LandingConversion conversion(plan, made);
  for (Bytes at = 0; at < source.size();) {
    const Bytes bytes = std::min<Bytes>(source.size() - at, 1 + random() % 90);
    const std::vector<std::byte> piece(source.data() + at, source.data() + at + bytes);
    conversion.take(piece);
    at += bytes;
  }
  return made;
}

// Small ones, of which there are many kinds, in the calling thread.
TEST(RandomReshapes, AreWhatAPlainLoopMakesWholeAndAsTheyLand) {
  std::mt19937 random(test_seed(24));
  for (int i = 0; i < 40'000; i += kTestStride) {
    const DrawnReshape drawn(random, i % 100 == 0 ? 1'000 : 40);
    const auto plan =
        ReshapePlan::make(drawn.asked().to, drawn.asked().from, drawn.asked().options);
    ASSERT_TRUE(plan) << plan.error().message;
    SCOPED_TRACE(testing::Message() << "reshape " << i << ": " << told(drawn.asked(), *plan));
    const auto whole = PlainReshape(drawn.asked(), drawn.source().data()).make();
    std::vector<std::byte> got(whole.size(), std::byte{0xee});
    ASSERT_TRUE(plan->convert(got, drawn.source()));
    ASSERT_EQ(got, whole);
    ASSERT_EQ(landed(*plan, drawn.source(), random), whole);
    // What does not permute needs the source from its front on, which is gone behind it.
    if (plan->kind() == ReshapeClass::permuting) continue;
    ASSERT_EQ(converted_as_it_lands(*plan, drawn.source(), random), whole);
    for (Bytes from = 0, last = 0; from < whole.size(); from += plan->unit()) {
      const ByteRange read = plan->source_of({from, plan->unit()});
      ASSERT_TRUE(read.bytes == 0 || read.from >= last);
      last = std::max(last, read.from);
    }
  }
}

// What is made of a front of the source is right whatever lies behind that front.
TEST_P(EngineReshapes, AFrontOfTheSourceMakesWhatThePlanSays) {
  std::mt19937 random(test_seed(22));
  for (int i = 0; i < 200; i += kTestStride) {
    const DrawnReshape drawn(random, 4'000);
    const auto plan =
        ReshapePlan::make(drawn.asked().to, drawn.asked().from, drawn.asked().options);
    ASSERT_TRUE(plan) << plan.error().message;
    SCOPED_TRACE(testing::Message() << "reshape " << i << ": " << told(drawn.asked(), *plan));
    const auto whole = PlainReshape(drawn.asked(), drawn.source().data()).make();
    std::vector<std::byte> front(drawn.source().begin(), drawn.source().end());
    const Bytes there = random() % (front.size() + 1);
    for (Bytes at = there; at < front.size(); ++at) front[at] = static_cast<std::byte>(random());
    const Bytes made = plan->destination_from(there);
    EXPECT_LE(plan->source_of({0, made}).end(), there);
    check_part(*plan, front, whole, {0, made, 1}, CacheUse::reader_soon);
    if (HasFatalFailure()) return;
  }
}

// Each range of the destination is made of what the plan says, and of nothing else.
TEST_P(EngineReshapes, ARangeIsMadeOfTheSourceThatThePlanNames) {
  std::mt19937 random(test_seed(23));
  for (int i = 0; i < 200; i += kTestStride) {
    const DrawnReshape drawn(random, 3'000);
    const auto plan =
        ReshapePlan::make(drawn.asked().to, drawn.asked().from, drawn.asked().options);
    ASSERT_TRUE(plan) << plan.error().message;
    SCOPED_TRACE(testing::Message() << "reshape " << i << ": " << told(drawn.asked(), *plan));
    const auto whole = PlainReshape(drawn.asked(), drawn.source().data()).make();
    const Bytes from = random() % whole.size(), bytes = 1 + random() % (whole.size() - from);
    const ByteRange read = plan->source_of({from, bytes});
    ASSERT_LE(read.end(), plan->source_bytes());
    std::vector<std::byte> other(drawn.source().size());
    for (std::byte& byte : other) byte = static_cast<std::byte>(random());
    std::copy_n(drawn.source().begin() + static_cast<std::ptrdiff_t>(read.from), read.bytes,
                other.begin() + static_cast<std::ptrdiff_t>(read.from));
    check_part(*plan, other, whole, {from, bytes, 0}, CacheUse::reader_soon);
    if (HasFatalFailure()) return;
  }
}

TEST_P(EngineReshapes, ALargeOneIsCutAndStillRight) {
  const std::int64_t count = has_thread_sanitizer() ? 2 : 5;
  const std::int64_t shape[] = {count, 331, 403, 3}, planes[] = {count, 3, 331, 403};
  std::vector<std::byte> source = random_bytes(static_cast<Bytes>(count) * 331 * 403 * 3, 24);
  const AskedReshape asked{Tensor::dense(types::f32, planes),
                           Tensor::dense(types::u8, shape),
                           {.order = {0, 3, 1, 2},
                            .channel_dimension = 1,
                            .channels = {2, 1, 0},
                            .scale = {0.1f, 0.2f, 0.3f},
                            .offset = {-1, -2, -3}}};
  const auto plan = ReshapePlan::make(asked.to, asked.from, asked.options);
  ASSERT_TRUE(plan) << plan.error().message;
  const auto whole = PlainReshape(asked, source.data()).make();
  for (const CacheUse cache : {CacheUse::reader_soon, CacheUse::streaming})
    check_part(*plan, source, whole, {0, whole.size(), 17}, cache);
}

TEST_P(EngineReshapes, PlanesAreMadeAndJoined) {
  const std::int64_t count = 300'001;
  const Tensor dense = Tensor::dense(types::f32, {&count, 1});
  const auto source = random_bytes(4 * 300'001, 25);
  for (const Planes& planes :
       {Planes{Planes::Unit::bytes, 0, 0}, Planes{Planes::Unit::bytes, 4096, 64},
        Planes{Planes::Unit::bits, 8000, 32}}) {
    const auto there = ReshapePlan::to_planes(dense, planes);
    const auto back = ReshapePlan::from_planes(dense, planes);
    ASSERT_TRUE(there && back);
    std::vector<std::byte> image(there->destination_bytes()), joined(source.size());
    run_well(Move::reshape(image, source, *there));
    run_well(Move::reshape(joined, image, *back));
    EXPECT_TRUE(test::same(joined, source));
    EXPECT_FALSE(test::same(source, ConstByteSpan(image).first(source.size())));
  }
}

// A page of the source is missing: what is said to be done is there, and right.
TEST_P(EngineReshapes, AMissingPageOfTheSourceIsAnAnswer) {
  const GuardedPages from(64);
  const std::int64_t rows[] = {64, 1024};
  const Tensor source = Tensor::dense(types::f32, rows);
  const auto numbers = random_bytes(from.bytes().size(), 26);
  std::copy(numbers.begin(), numbers.end(), from.bytes().begin());
  for (const DataType type : {types::bf16, types::f64, types::u8, types::i4}) {
    const AskedReshape asked{Tensor::dense(type, rows), source, {}};
    const auto plan = ReshapePlan::make(asked.to, asked.from);
    const auto whole = PlainReshape(asked, numbers.data()).make();
    std::vector<std::byte> made(plan->destination_bytes());
    from.protect(37, PROT_NONE);
    Move move = Move::reshape(made, from.bytes(), *plan);
    const Completion completion = run(move);
    from.protect(37, PROT_READ | PROT_WRITE);
    EXPECT_EQ(completion.outcome, Outcome::failed);
    EXPECT_EQ(completion.cause, Cause::unreadable);
    EXPECT_EQ(completion.fault_address / kPage, address(from.page(37).data()) / kPage);
    EXPECT_EQ(completion.bytes_done, plan->destination_from(37 * kPage));
    EXPECT_TRUE(test::same(ConstByteSpan(made).first(completion.bytes_done),
                           ConstByteSpan(whole).first(completion.bytes_done)))
        << to_string(type);
  }
}

TEST_P(EngineReshapes, AMissingPageOfTheDestinationIsAnAnswer) {
  const GuardedPages to(32);
  const std::int64_t count = 32 * 1024;
  const Tensor source = Tensor::dense(types::u8, {&count, 1});
  const auto numbers = random_bytes(32 * 1024, 27);
  const AskedReshape asked{Tensor::dense(types::f32, {&count, 1}), source, {}};
  const auto plan = ReshapePlan::make(asked.to, asked.from);
  const auto whole = PlainReshape(asked, numbers.data()).make();
  to.protect(20, PROT_READ);
  const Completion completion = run(Move::reshape(to.bytes(), numbers, *plan));
  EXPECT_EQ(completion.cause, Cause::unwritable);
  EXPECT_EQ(completion.bytes_done, 20 * kPage);
  EXPECT_TRUE(std::equal(whole.begin(), whole.begin() + 20 * kPage, to.bytes().begin()));
}

// The thread's own mode has no say, and is as it was.
TEST_P(EngineReshapes, NumbersBelowTheNormalOnesStay) {
  const std::int64_t count = 4096;
  std::vector<float> small(4096, 0x1p-140f);
  const auto plan = ReshapePlan::make(types::f64, Tensor::dense(types::f32, {&count, 1}));
  std::vector<double> made(4096);
  const unsigned before = __builtin_ia32_stmxcsr();
  __builtin_ia32_ldmxcsr(before | 0x8040u | 0x6000u);  // to zero, both ways; rounding towards zero
  run_well(Move::reshape(std::as_writable_bytes(std::span(made)), std::as_bytes(std::span(small)),
                         *plan));
  const unsigned during = __builtin_ia32_stmxcsr();
  __builtin_ia32_ldmxcsr(before);
  EXPECT_EQ(during & 0xe040u, 0xe040u);
  for (const double value : made) ASSERT_EQ(value, 0x1p-140);
}

TEST_P(EngineReshapes, WhatDoesNotFitIsRefusedBeforeItBegins) {
  const std::int64_t count = 100;
  const auto plan = ReshapePlan::make(types::bf16, Tensor::dense(types::f32, {&count, 1}));
  std::vector<std::byte> source(400), destination(202);
  const auto refused = [&](const Move& move, std::string_view why) {
    const auto ticket = lane_->submit(move);
    ASSERT_FALSE(ticket);
    EXPECT_EQ(ticket.error().code, Code::invalid_argument);
    EXPECT_NE(ticket.error().message.find(why), std::string::npos) << ticket.error().message;
  };
  const ByteSpan exact = ByteSpan(destination).first(200);
  refused(Move::reshape(destination, source, *plan), "makes 200");
  refused(Move::reshape(exact, ConstByteSpan(source).first(399), *plan), "has 399 bytes");
  refused(Move::reshape(exact, source, *plan, 1), "makes 199");
  refused(Move::reshape(exact, source, *plan, 1000), "makes 0");
  refused(Move::reshape(ByteSpan(source).subspan(200, 200), source, *plan), "overlap");
  Move planless = Move::reshape(exact, source, *plan);
  planless.plan = nullptr;
  refused(planless, "no plan");
  run_well(Move::reshape(exact, source, *plan));
}

INSTANTIATE_TEST_SUITE_P(Engines, EngineReshapes, testing::ValuesIn(kEngines), name_of);

}  // namespace
}  // namespace gantry
