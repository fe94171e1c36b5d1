#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "core/channel/test_support.hpp"

// Messages that timed out half-way in a buffer, as they are or by a plan. Property: whatever is
// called next delivers every byte of what it says, or is refused and changes nothing; and never a
// byte outside of the span that it was given.
namespace gantry {
namespace {

using test::consumer_options;
using test::make_producer;
using test::options_in;
using test::same;
using test::soon;

enum class TakenAs { plain, wide, narrow };
constexpr TakenAs kEveryTaking[] = {TakenAs::plain, TakenAs::wide, TakenAs::narrow};
constexpr std::size_t kFloatsHalfWay = 1'100'000;  // floats: more than a window
constexpr std::byte kNotWritten{0xee};             // in none of the first bytes that are made

// The same bytes for all tests: made once.
template <class T>
ConstByteSpan floats_taken_as() {
  static const std::vector<T> kValues = [] {
    std::vector<T> values(kFloatsHalfWay);
    for (std::size_t i = 0; i < kFloatsHalfWay; ++i) values[i] = static_cast<T>(1 + i * 7 % 199);
    return values;
  }();
  return std::as_bytes(std::span(kValues));
}

class ConversionsHalfWay : public testing::Test {
 protected:
  void TearDown() override {
    in_.reset();  // whatever it has not taken
    end_sender();
  }

  [[nodiscard]] ConstByteSpan wanted(TakenAs way) const {
    return way == TakenAs::plain ? sent_ : way == TakenAs::wide ? doubles_ : octets_;
  }
  [[nodiscard]] const ReshapePlan& plan_of(TakenAs way) const {
    return way == TakenAs::wide ? wide_ : narrow_;
  }
  ByteSpan span_of(TakenAs way) { return ByteSpan(buffer_).first(wanted(way).size()); }
  void wipe() { std::ranges::fill(buffer_, kNotWritten); }

  Result<Bytes> receive_into(TakenAs way, ByteSpan span, Deadline deadline) {
    auto got = way == TakenAs::plain ? in_->receive_into(span, deadline)
                                     : in_->receive_into(span, plan_of(way), deadline);
    if (!got) return tl::unexpected(got.error());
    return got->bytes;
  }
  Result<Bytes> into(Incoming& incoming, TakenAs way, ByteSpan span, Deadline deadline) const {
    return way == TakenAs::plain ? incoming.into(span, deadline)
                                 : incoming.into(span, plan_of(way), deadline);
  }

  // ---- in a block

  /// A third of it has landed.
  EarlyMessage send_early() {
    open(1);
    Block block = *out_->pool().allocate(sent_.size());
    std::ranges::copy(sent_, block.bytes().begin());
    EarlyMessage early = *out_->send_early(Draft().move(std::move(block)), {.deadline = soon()});
    EXPECT_TRUE(early.land(sent_.size() / 3));
    return early;
  }

  // ---- through a window, which another consumer holds up

  void send_streamed() {
    open(2);
    blocker_.emplace(*Consumer::open("frames", consumer_options(options_), soon()));
    sender_ = std::thread([this] {
      const auto sent = out_->send(sent_, {.deadline = soon(), .mode = SendMode::streamed});
      EXPECT_TRUE(sent) << sent.error().message;
    });
  }
  void release_sender() {
    if (reading_.joinable()) return;
    reading_ = std::thread([this] { EXPECT_TRUE(blocker_->receive(soon())); });
  }
  void end_sender() {
    if (!sender_.joinable()) return;
    release_sender();
    sender_.join();
    reading_.join();
    blocker_.reset();
  }
  /// `receive` times out until the first bytes lie in the buffer.
  template <class Receive>
  void time_out(Receive receive) {
    wipe();
    for (const Deadline end = soon(); buffer_.front() == kNotWritten;) {
      ASSERT_FALSE(end.passed()) << "nothing is written";
      const Result<Bytes> got = receive();
      ASSERT_FALSE(got);
      ASSERT_EQ(got.error().code, Code::timed_out) << got.error().message;
    }
  }
  template <class T>
  static void expect_refused(const Result<T>& got) {
    ASSERT_FALSE(got);
    EXPECT_EQ(got.error().code, Code::invalid_argument) << got.error().message;
    EXPECT_NE(got.error().message.find("have passed already"), std::string::npos)
        << got.error().message;
  }

  void expect_delivered(const Result<Bytes>& got, TakenAs way) {
    ASSERT_TRUE(got) << got.error().message;
    EXPECT_EQ(*got, wanted(way).size());
    EXPECT_TRUE(same(span_of(way), wanted(way))) << static_cast<int>(way);
  }
  void open(unsigned consumers) {
    in_.reset();
    out_.reset();
    options_.consumers = consumers;
    options_.slots = 2;
    out_.emplace(*make_producer("frames", options_));
    in_.emplace(*Consumer::open("frames", consumer_options(options_), soon()));
  }

  const ConstByteSpan sent_ = floats_taken_as<float>();
  const ConstByteSpan doubles_ = floats_taken_as<double>();
  const ConstByteSpan octets_ = floats_taken_as<std::uint8_t>();
  const std::int64_t extent_ = kFloatsHalfWay;
  const Tensor floats_ = Tensor::dense(types::f32, {&extent_, 1});
  const ReshapePlan wide_ = *ReshapePlan::make(types::f64, floats_);
  const ReshapePlan narrow_ = *ReshapePlan::make(types::u8, floats_);
  std::vector<std::byte> buffer_ = std::vector<std::byte>(doubles_.size());

  test::ScratchDirectory directory_;
  ProducerOptions options_ = options_in(directory_);
  std::optional<Producer> out_;
  std::optional<Consumer> in_, blocker_;
  std::thread sender_, reading_;
};

TEST_F(ConversionsHalfWay, WhatIsInABlockBeginsAgainAnotherWay) {
  for (const TakenAs first : kEveryTaking)
    for (const TakenAs second : kEveryTaking) {
      SCOPED_TRACE(testing::Message() << static_cast<int>(first) << static_cast<int>(second));
      EarlyMessage early = send_early();
      time_out([&] { return receive_into(first, span_of(first), Deadline::now()); });
      ASSERT_TRUE(early.land(sent_.size()));
      const auto before = buffer_;
      expect_delivered(receive_into(second, span_of(second), soon()), second);
      const std::size_t end = span_of(second).size();
      EXPECT_TRUE(same(ConstByteSpan(buffer_).subspan(end), ConstByteSpan(before).subspan(end)));
    }
}

TEST_F(ConversionsHalfWay, ABufferOfAnotherSizeIsAnother) {
  EarlyMessage early = send_early();
  time_out([&] { return receive_into(TakenAs::narrow, buffer_, Deadline::now()); });
  const auto before = buffer_;
  const auto small =
      receive_into(TakenAs::narrow, span_of(TakenAs::narrow).first(kFloatsHalfWay - 1), soon());
  ASSERT_FALSE(small);
  EXPECT_EQ(small.error().code, Code::invalid_argument) << small.error().message;
  EXPECT_TRUE(same(buffer_, before));
  wipe();  // what is there counts for nothing
  ASSERT_TRUE(early.land(sent_.size()));
  expect_delivered(receive_into(TakenAs::narrow, span_of(TakenAs::narrow), soon()),
                   TakenAs::narrow);
}

TEST_F(ConversionsHalfWay, WhatWentThroughAWindowIsHadAsItBeganAlone) {
  for (const TakenAs first : kEveryTaking)
    for (const TakenAs second : kEveryTaking) {
      if (first == second) continue;
      SCOPED_TRACE(testing::Message() << static_cast<int>(first) << static_cast<int>(second));
      send_streamed();
      time_out([&] { return receive_into(first, span_of(first), Deadline::now()); });
      const auto before = buffer_;
      expect_refused(receive_into(second, span_of(second), soon()));
      expect_refused(in_->receive_early(soon()));
      EXPECT_TRUE(same(buffer_, before));
      release_sender();
      expect_delivered(receive_into(first, span_of(first), soon()), first);
      end_sender();
    }
}

// receive_early() gives the message from its first byte on.
TEST_F(ConversionsHalfWay, AMessageInHandBeginsAnew) {
  for (const TakenAs first : kEveryTaking) {
    SCOPED_TRACE(static_cast<int>(first));
    EarlyMessage early = send_early();
    time_out([&] { return receive_into(first, span_of(first), Deadline::now()); });
    auto incoming = *in_->receive_early(soon());
    wipe();
    ASSERT_TRUE(early.land(sent_.size()));
    expect_delivered(into(incoming, first, span_of(first), soon()), first);
  }
}

TEST_F(ConversionsHalfWay, ChunksGoOnWhereChunksEnded) {
  for (const TakenAs first : kEveryTaking)
    for (const TakenAs second : kEveryTaking) {
      SCOPED_TRACE(testing::Message() << static_cast<int>(first) << static_cast<int>(second));
      EarlyMessage early = send_early();
      auto incoming = *in_->receive_early(soon());
      time_out([&] { return into(incoming, first, span_of(first), Deadline::now()); });
      ASSERT_TRUE(early.land(sent_.size() / 2));
      const auto chunk = incoming.next(soon());
      ASSERT_TRUE(chunk) << chunk.error().message;
      ASSERT_TRUE(same(*chunk, ConstByteSpan(sent_).first(sent_.size() / 2)));
      wipe();
      ASSERT_TRUE(early.land(sent_.size()));
      const auto got = into(incoming, second, span_of(second), soon());
      if (second != TakenAs::plain) {  // of which a conversion takes no notice
        expect_delivered(got, second);
        continue;
      }
      ASSERT_TRUE(got) << got.error().message;
      EXPECT_TRUE(
          same(ByteSpan(buffer_).first(*got), ConstByteSpan(sent_).subspan(sent_.size() / 2)));
    }
}

// A copy goes on behind the last chunk, also after a conversion that came to nothing.
TEST_F(ConversionsHalfWay, ACopyGoesOnBehindTheLastChunk) {
  EarlyMessage early = send_early();
  auto incoming = *in_->receive_early(soon());
  const Bytes chunk = incoming.next(soon())->size();
  for (const TakenAs way : {TakenAs::wide, TakenAs::narrow})
    time_out([&] { return into(incoming, way, span_of(way), Deadline::now()); });
  ASSERT_TRUE(early.land(sent_.size()));
  const auto rest = incoming.into(buffer_, soon());
  ASSERT_TRUE(rest) << rest.error().message;
  EXPECT_TRUE(same(ByteSpan(buffer_).first(*rest), ConstByteSpan(sent_).subspan(chunk)));
}

TEST_F(ConversionsHalfWay, ChunksOfAWindowDoNotMixWithABuffer) {
  for (const TakenAs way : kEveryTaking) {
    SCOPED_TRACE(static_cast<int>(way));
    send_streamed();
    auto incoming = *in_->receive_early(soon());
    time_out([&] { return into(incoming, way, span_of(way), Deadline::now()); });
    expect_refused(incoming.next(soon()));
    expect_refused(incoming.whole(soon()));
    release_sender();
    expect_delivered(into(incoming, way, span_of(way), soon()), way);
    end_sender();
  }
  send_streamed();
  auto incoming = *in_->receive_early(soon());
  const auto chunk = incoming.next(soon());
  ASSERT_TRUE(chunk);
  const Bytes size = chunk->size();
  EXPECT_TRUE(same(*chunk, ConstByteSpan(sent_).first(size)));
  wipe();
  expect_refused(into(incoming, TakenAs::narrow, span_of(TakenAs::narrow), soon()));
  EXPECT_EQ(static_cast<std::size_t>(std::ranges::count(buffer_, kNotWritten)), buffer_.size());
  release_sender();
  const auto rest = incoming.into(buffer_, soon());
  ASSERT_TRUE(rest) << rest.error().message;
  EXPECT_TRUE(same(ByteSpan(buffer_).first(*rest), ConstByteSpan(sent_).subspan(size)));
}

}  // namespace
}  // namespace gantry
