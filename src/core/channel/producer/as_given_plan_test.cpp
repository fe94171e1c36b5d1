#include <gtest/gtest.h>

#include <algorithm>

#include "core/base/half_float.hpp"
#include "core/channel/test_support.hpp"

// Messages that are converted by a plan of the user's: it is for all that is sent, or is refused.
namespace gantry {
namespace {

using test::consumer_options;
using test::make_producer;
using test::same;
using test::soon;

constexpr std::size_t kPlanned = 1'000;  // floats

class GivenPlans : public testing::Test {
 protected:
  GivenPlans() {
    for (std::size_t i = 0; i < 2 * kPlanned; ++i) floats_.push_back(static_cast<float>(i) / 7);
  }
  void open() {
    in_.reset();
    out_.reset();
    out_.emplace(*make_producer("frames", options_));
    in_.emplace(*Consumer::open("frames", consumer_options(options_), soon()));
  }
  [[nodiscard]] ConstByteSpan bytes(std::size_t count) const {
    return std::as_bytes(std::span(floats_)).first(count);
  }
  static Tensor row(DataType type, std::size_t count) {
    const auto extent = static_cast<std::int64_t>(count);
    return Tensor::dense(type, {&extent, 1});
  }
  void expect_refused(const Result<void>& sent, Bytes size) {
    ASSERT_FALSE(sent) << size;
    EXPECT_EQ(sent.error().code, Code::invalid_argument);
    EXPECT_EQ(sent.error().message.find(fmt::format(
                  "channel 'frames': {} bytes are sent, the plan reads 4000: f32 [1000] to", size)),
              0u)
        << sent.error().message;
  }
  void expect_next(ConstByteSpan wanted) {
    const auto message = in_->receive(soon());
    ASSERT_TRUE(message) << message.error().message;
    EXPECT_EQ(message->sequence(), ++received_);  // nothing came that was refused
    ASSERT_EQ(message->segments(), 1u);
    EXPECT_TRUE(same(message->segment(0).bytes, wanted));
  }
  void expect_whole_plan() {
    std::vector<std::uint16_t> made;
    for (std::size_t i = 0; i < kPlanned; ++i) made.push_back(bf16_of_float(floats_[i]));
    expect_next(std::as_bytes(std::span(made)));
  }

  std::vector<float> floats_;
  const ReshapePlan plan_ = *ReshapePlan::make(types::bf16, row(types::f32, kPlanned));
  test::ScratchDirectory directory_;
  ProducerOptions options_ = options_in(directory_);
  std::optional<Producer> out_;
  std::optional<Consumer> in_;
  std::uint64_t received_ = 0;
};

constexpr std::size_t kOtherSizes[] = {3'996, 3'999, 4'001, 4'004, 8'000};  // bytes

TEST_F(GivenPlans, AreForAllThatIsSent) {
  for (const Bytes cells : {Bytes{0}, Bytes{4096}}) {
    options_.cell_bytes = cells;
    open();
    received_ = 0;
    for (const SendMode mode :
         {SendMode::whole, SendMode::pipelined, SendMode::streamed, SendMode::immutable}) {
      const SendOptions options{.deadline = soon(), .mode = mode};
      for (const std::size_t size : kOtherSizes)
        expect_refused(out_->send(Draft().copy(bytes(size)).as(plan_), options), size);
      expect_refused(out_->send(Draft().copy({}).as(plan_), options), 0);
      if (mode == SendMode::streamed) continue;  // waits for its reader
      ASSERT_TRUE(out_->send(Draft().copy(bytes(4'000)).as(plan_), options));
      expect_whole_plan();
    }
  }
}

TEST_F(GivenPlans, OfAChannelAreForEachMessage) {
  options_.as = plan_;
  open();
  for (const std::size_t size : kOtherSizes) {
    expect_refused(out_->send(bytes(size), soon()), size);
    auto loan = *out_->loan(size, soon());
    std::ranges::copy(bytes(size), loan.bytes().begin());
    expect_refused(out_->publish(std::move(loan)), size);
    const auto ticket = out_->send_async(bytes(size), {.deadline = soon()});
    ASSERT_TRUE(ticket);
    expect_refused(out_->wait(*ticket, soon()), size);
  }
  ASSERT_TRUE(out_->send(bytes(0), soon()));  // nothing becomes nothing
  expect_next({});
  ASSERT_TRUE(out_->send(bytes(4'000), soon()));
  expect_whole_plan();
}

// A frame that is kept in rows of a pitch is often sent with what lies behind its last row.
TEST_F(GivenPlans, TakeTheGapBehindTheLastRow) {
  open();
  const Tensor rows{types::f32, 2, {3, 10}, {16, 1}};
  const auto plan = *ReshapePlan::make(types::f32, rows);
  std::vector<float> wanted;
  for (std::size_t i = 0; i < 30; ++i) wanted.push_back(floats_[i / 10 * 16 + i % 10]);
  for (std::size_t size = 160; size <= 200; ++size) {
    const auto sent = out_->send(Draft().copy(bytes(size)).as(plan), {.deadline = soon()});
    EXPECT_EQ(sent.has_value(), size >= 168 && size <= 192) << size;
    if (sent) expect_next(std::as_bytes(std::span(wanted)));
  }
}

TEST_F(GivenPlans, OfGroupsTakeNothingBehindTheLast) {
  open();
  const auto plan = *ReshapePlan::make(types::f32, row(*parse_type("i8[32]"), 96));
  std::vector<std::byte> groups(137);
  std::vector<float> wanted;
  for (std::size_t group = 0; group < 3; ++group) {  // a scale of 1, and its number 32 times
    groups[group * 34 + 1] = std::byte{0x3c};
    for (std::size_t i = 0; i < 32; ++i) {
      groups[group * 34 + 2 + i] = static_cast<std::byte>(group + 1);
      wanted.push_back(static_cast<float>(group + 1));
    }
  }
  for (const std::size_t size : {101u, 102u, 103u, 136u}) {
    const auto sent =
        out_->send(Draft().copy(ConstByteSpan(groups).first(size)).as(plan), {.deadline = soon()});
    EXPECT_EQ(sent.has_value(), size == 102) << size;
    if (sent) expect_next(std::as_bytes(std::span(wanted)));
  }
}

// A type is for the tensor that is sent, whatever lies behind it.
TEST_F(GivenPlans, AreNotWhatATypeMakesOfATensor) {
  open();
  for (const bool queued : {false, true}) {
    Draft draft;
    draft.copy(bytes(8'000), row(types::f32, kPlanned)).as(types::bf16);
    if (queued) {
      const auto ticket = out_->send_async(std::move(draft), {.deadline = soon()});
      ASSERT_TRUE(ticket);
      EXPECT_TRUE(out_->wait(*ticket, soon()));
    } else {
      EXPECT_TRUE(out_->send(std::move(draft), {.deadline = soon()}));
    }
    expect_whole_plan();
  }
}

TEST_F(GivenPlans, AreRefusedWhereExactIsAskedFor) {
  open();
  const auto signs = *ReshapePlan::make(types::i8, row(types::u8, 4'000));
  const auto wide = *ReshapePlan::make(types::f64, row(types::f32, kPlanned));
  for (const ReshapePlan& plan : {plan_, signs, wide}) {
    As exact(plan);
    exact.exact = true;
    const SendOptions options{.deadline = soon(), .as = &exact};
    for (const auto& sent : {out_->send(Draft().copy(bytes(4'000)).as(exact), {.deadline = soon()}),
                             out_->send(Draft().copy(bytes(4'000)), options)}) {
      EXPECT_EQ(sent.has_value(), plan == wide);
      if (sent) continue;
      EXPECT_EQ(sent.error().code, Code::invalid_argument);
      EXPECT_EQ(sent.error().message, "channel 'frames': the plan is not exact: " + plan.text());
    }
  }
  const std::vector<double> wanted(floats_.begin(), floats_.begin() + kPlanned);
  expect_next(std::as_bytes(std::span(wanted)));
  expect_next(std::as_bytes(std::span(wanted)));
}

TEST_F(GivenPlans, OfReadersAreForTheMessageThatComesWhichElseStays) {
  open();
  std::vector<std::byte> made(4'000, std::byte{0xee});
  const auto untouched = made;
  const auto refused = [&](std::string_view why) {
    const auto received = in_->receive_into(made, plan_, soon());
    ASSERT_FALSE(received);
    EXPECT_EQ(received.error().code, Code::invalid_argument);
    EXPECT_NE(received.error().message.find(why), std::string::npos) << received.error().message;
    EXPECT_EQ(made, untouched);
  };
  for (const SendMode mode : {SendMode::whole, SendMode::pipelined}) {
    const SendOptions options{.deadline = soon(), .mode = mode};
    ASSERT_TRUE(out_->send(Draft().copy(bytes(4'000), row(types::i32, kPlanned)), options));
    refused("is a tensor of i32, not the one that the plan reads");
    EXPECT_TRUE(same(in_->receive(soon())->bytes(), bytes(4'000)));
    ASSERT_TRUE(out_->send(Draft().copy(bytes(4'000)).copy(bytes(4'000)), options));
    refused("has 8000 bytes, the plan reads 4000");
    EXPECT_EQ(in_->receive(soon())->segments(), 2u);
  }
}

}  // namespace
}  // namespace gantry
