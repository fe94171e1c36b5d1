#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "core/channel/test_support.hpp"
#include "shape/decision/test_decisions.hpp"

// Decisions about messages that are still landing. Property: the answer is that of a scan, and is
// given as soon as what it needs is there, whatever comes behind.
namespace gantry {
namespace {

using namespace test;
using shape::Element;

class Landing : public testing::Test {
 protected:
  static Sample logits(std::size_t count) {
    Random random(9);
    std::vector<float> values(count);
    for (float& each : values)
      each = static_cast<float>(std::normal_distribution<double>(0, 3)(random));
    return sample_of(Element::f32, values, {Planes::Unit::bits, 0, 0});
  }

  ScratchDirectory directory_;
  ProducerOptions options_ = options_in(directory_);
  Producer out_ = *make_producer("logits", options_);
  Consumer in_ = *Consumer::open("logits", consumer_options(options_), soon());
  Sample sample_ = logits(100'000);
  std::vector<std::size_t> best_ = scan(values_of(sample_), Decision::top(2));
};

TEST_F(Landing, AnswersBeforeTheRestIsThere) {
  Block block = *out_.pool().allocate(sample_.planes.size());
  auto outgoing = out_.send_early(Draft().move(block.share()), {.deadline = soon()});
  ASSERT_TRUE(outgoing);
  Incoming incoming = *in_.receive_early(soon());
  const Result<Decided> early =
      decide(incoming, sample_.elements, Decision::top(2), {.deadline = Deadline::now()});
  EXPECT_EQ(early.error().code, Code::timed_out);
  const Bytes whole = sample_.planes.size();
  // Of the last plane nothing ever lands: the best two differ before.
  const Bytes end = whole - whole / 32;
  std::ranges::copy(ConstByteSpan(sample_.planes).first(end), block.bytes().begin());
  ASSERT_TRUE(outgoing->land(end));
  const Result<Decided> decided =
      decide(incoming, sample_.elements, Decision::top(2), {.deadline = soon()});
  ASSERT_TRUE(decided) << to_string(decided.error());
  EXPECT_TRUE(decided->proven);
  EXPECT_EQ(decided->indices, best_);
  EXPECT_LT(decided->bytes_read, whole / 4);
}

TEST_F(Landing, AnswersInEveryMode) {
  for (const SendMode mode : {SendMode::whole, SendMode::pipelined, SendMode::streamed}) {
    std::thread sender([&] {
      const Result<void> sent =
          out_.send(sample_.planes, SendOptions{.deadline = soon(), .mode = mode});
      EXPECT_TRUE(sent) << to_string(sent.error());
    });
    {
      Incoming incoming = *in_.receive_early(soon());
      const Result<Decided> decided =
          decide(incoming, sample_.elements, Decision::top(2), {.deadline = soon()});
      ASSERT_TRUE(decided) << to_string(decided.error());
      EXPECT_TRUE(decided->proven);
      EXPECT_EQ(decided->indices, best_);
    }
    sender.join();
  }
}

// A stream that is longer than its window, of which nothing is left behind its chunks.
TEST_F(Landing, AnswersAsOftenAsItIsAskedInEveryMode) {
  const Sample sample = logits(1'250'000);
  const std::vector<std::size_t> best = scan(values_of(sample), Decision::top(2));
  for (const SendMode mode : {SendMode::whole, SendMode::pipelined, SendMode::streamed}) {
    const testing::ScopedTrace trace(__FILE__, __LINE__, std::string(to_string(mode)));
    std::thread sender([&] {
      const Result<void> sent =
          out_.send(sample.planes, SendOptions{.deadline = soon(), .mode = mode});
      EXPECT_TRUE(sent) << to_string(sent.error());
    });
    {
      Incoming incoming = *in_.receive_early(soon());
      const auto ask = [&](const Decision& question) {
        return decide(incoming, sample.elements, question, {.deadline = soon()});
      };
      EXPECT_THAT(ask(Decision::above(1e6))->indices, testing::IsEmpty());
      const Result<Decided> decided = ask(Decision::top(2));
      ASSERT_TRUE(decided) << to_string(decided.error());
      EXPECT_TRUE(decided->proven);
      EXPECT_EQ(decided->indices, best);
      EXPECT_EQ(ask(Decision::above(-1e6))->indices.size(), sample.planes.size() / 4);
      const Message all = *incoming.whole(soon());
      EXPECT_TRUE(std::ranges::equal(all.bytes(), sample.planes));
    }
    sender.join();
  }
}

// A time that was too short took nothing.
TEST_F(Landing, AnswersAStreamThatWasAskedTooEarly) {
  const Sample sample = logits(1'250'000);
  std::thread sender([&] {
    EXPECT_TRUE(out_.send(sample.planes, {.deadline = soon(), .mode = SendMode::streamed}));
  });
  {
    Incoming incoming = *in_.receive_early(soon());
    ASSERT_TRUE(incoming.is_streamed());
    const Decision all = Decision::above(-1e6);
    const auto early = decide(incoming, sample.elements, all, {.deadline = Deadline::now()});
    EXPECT_TRUE(early || early.error().code == Code::timed_out);
    const auto late = decide(incoming, sample.elements, all, {.deadline = soon()});
    ASSERT_TRUE(late) << to_string(late.error());
    EXPECT_EQ(late->indices.size(), sample.planes.size() / 4);
    std::vector<std::byte> taken(sample.planes.size());
    EXPECT_EQ(*incoming.into(taken, soon()), taken.size());
    EXPECT_TRUE(taken == sample.planes);
  }
  sender.join();
}

TEST_F(Landing, AStreamOfWhichSomeWasTakenIsRefused) {
  std::thread sender([&] {
    EXPECT_TRUE(out_.send(sample_.planes, {.deadline = soon(), .mode = SendMode::streamed}));
  });
  {
    Incoming incoming = *in_.receive_early(soon());
    ASSERT_TRUE(incoming.next(soon()));
    const Result<Decided> decided =
        decide(incoming, sample_.elements, Decision::top(2), {.deadline = soon()});
    ASSERT_FALSE(decided);
    EXPECT_EQ(decided.error().code, Code::invalid_argument);
    EXPECT_THAT(decided.error().message, testing::HasSubstr("have passed already"));
  }
  sender.join();
}

TEST_F(Landing, WhatComesBehindCanStillBeTaken) {
  ASSERT_TRUE(out_.send(sample_.planes, soon()));
  Incoming incoming = *in_.receive_early(soon());
  const Result<Decided> guessed = decide(incoming, sample_.elements, Decision::top(2),
                                         {.budget_bytes = 1000, .deadline = soon()});
  ASSERT_TRUE(guessed);
  EXPECT_FALSE(guessed->proven);
  EXPECT_LE(guessed->bytes_read, 1000u);
  const Message all = *incoming.whole(soon());
  const Result<Decided> decided = decide(all.bytes(), sample_.elements, Decision::top(2));
  EXPECT_TRUE(decided->proven);
  EXPECT_EQ(decided->indices, best_);
}

#if defined(__x86_64__)
TEST_F(Landing, NumbersBelowTheNormalOnesAreDecidedWhateverTheThreadsMode) {
  const Sample small = sample_of<float>(Element::f32, {-1, 1e-40f, 0, -1e-40f, 1, 2e-39f},
                                        {Planes::Unit::bits, 0, 0});
  ASSERT_TRUE(out_.send(small.planes, soon()));
  Incoming incoming = *in_.receive_early(soon());
  const auto above = [&] { return decide(incoming, small.elements, Decision::above(0))->indices; };
  EXPECT_EQ(while_flushing(above), (std::vector<std::size_t>{1, 4, 5}));
}
#endif

TEST_F(Landing, AMessageOfAnotherSizeIsRefused) {
  ASSERT_TRUE(out_.send(ConstByteSpan(sample_.planes).first(1000), soon()));
  Incoming incoming = *in_.receive_early(soon());
  const Result<Decided> decided = decide(incoming, sample_.elements, Decision::top(2));
  ASSERT_FALSE(decided);
  EXPECT_EQ(decided.error().code, Code::invalid_argument);
  EXPECT_EQ(decided.error().message,
            "planes: a message of 1000 bytes, and 100000 elements of f32 have 400000");
}

}  // namespace
}  // namespace gantry
