#include <gtest/gtest.h>

#include <limits>
#include <optional>
#include <random>
#include <vector>

#include "core/base/test_effort.hpp"
#include "core/channel/test_support.hpp"

// Tensors that go beside their records: which do, and what is received.
namespace gantry {
namespace {

using test::consumer_options;
using test::make_producer;
using test::options_in;
using test::pattern;
using test::same;
using test::soon;

constexpr DataType kFloat{DataType::floating, 32, 1};

class CellTensors : public testing::Test {
 protected:
  CellTensors() {
    options_.cell_bytes = PayloadOptions::kMaxCellBytes;
    out_.emplace(*make_producer("frames", options_));
  }
  Consumer join() {
    auto in = Consumer::open("frames", consumer_options(options_), soon());
    EXPECT_TRUE(in) << to_string(in.error());
    return *std::move(in);
  }
  Result<void> send(const std::vector<std::byte>& bytes, const std::optional<Tensor>& tensor) {
    return out_->send(Draft().copy(bytes, tensor), {.deadline = soon(), .user = bytes.size()});
  }
  static void expect(const Message& message, const std::vector<std::byte>& bytes,
                     const std::optional<Tensor>& tensor) {
    ASSERT_EQ(message.segments(), 1u);
    EXPECT_TRUE(same(message.bytes(), bytes));
    EXPECT_TRUE(same(message.segment(0).bytes, bytes));
    EXPECT_EQ(message.segment(0).tensor, tensor);
    EXPECT_EQ(message.info().user, bytes.size());
  }
  [[nodiscard]] unsigned slots_held() { return out_->explain().status.slots_held; }
  [[nodiscard]] static Tensor dense(std::vector<std::int64_t> shape, DataType type = kFloat) {
    return Tensor::dense(type, shape);
  }

  test::ScratchDirectory directory_;
  ProducerOptions options_ = options_in(directory_);
  std::optional<Producer> out_;
};

TEST_F(CellTensors, ThoseOfUpToThreeDimensionsWithoutGapsHoldNoSlot) {
  Consumer in = join();
  const auto bytes = pattern(96, 1);
  Tensor wide = dense({2, 3});
  wide.strides = {8, 1};
  Tensor columns = dense({4, 6});
  columns.strides = {1, 4};
  const std::vector<std::pair<Tensor, unsigned>> cases{{dense({}), 0},
                                                       {dense({24}), 0},
                                                       {dense({4, 6}), 0},
                                                       {dense({2, 3, 4}), 0},
                                                       {dense({24}, {DataType::bfloat, 16, 2}), 0},
                                                       {dense({5}), 0},  // smaller than its bytes
                                                       {dense({3, 0, 2}), 0},
                                                       {dense({2, 3, 2, 2}), 1},
                                                       {dense({0, std::int64_t{1} << 32}), 1},
                                                       {wide, 1},
                                                       {columns, 1}};
  for (const auto& [tensor, slots] : cases) {
    const auto sent = send(bytes, tensor);
    ASSERT_TRUE(sent) << to_string(sent.error());
    EXPECT_EQ(slots_held(), slots) << tensor.dimensions;
    auto message = in.receive(soon());
    ASSERT_TRUE(message) << to_string(message.error());
    expect(*message, bytes, tensor);
  }
}

TEST_F(CellTensors, ALimitIsALimit) {
  Consumer in = join();
  for (const std::int64_t elements : {1, 15, 16, 17, 1023, 1024, 1025}) {
    const auto bytes = pattern(static_cast<Bytes>(elements) * 4, 7);
    ASSERT_TRUE(send(bytes, dense({elements})));
    EXPECT_EQ(slots_held(), elements > 1024 ? 1u : 0u) << elements;
    const auto message = in.receive(soon());
    ASSERT_TRUE(message) << to_string(message.error());
    expect(*message, bytes, dense({elements}));
  }
}

TEST_F(CellTensors, OneThatDoesNotFitIsRefusedAndTheNextGoes) {
  Consumer in = join();
  for (const Tensor& bad : {dense({17}), dense({~0u, ~0u, ~0u}), dense({-1}),
                            dense({4}, {DataType::floating, 0, 1}), dense({4}, {2, 32, 0})}) {
    const auto sent = send(pattern(64, 3), bad);
    ASSERT_FALSE(sent);
    EXPECT_EQ(sent.error().code, Code::invalid_argument);
    EXPECT_EQ(slots_held(), 0u);
  }
  ASSERT_TRUE(send(pattern(64, 4), dense({16})));
  const auto message = in.receive(soon());
  ASSERT_TRUE(message) << to_string(message.error());
  expect(*message, pattern(64, 4), dense({16}));
}

TEST_F(CellTensors, EveryWayToReceiveHasIt) {
  Consumer in = join();
  for (int i = 1; i <= 5; ++i)
    ASSERT_TRUE(send(pattern(static_cast<Bytes>(i) * 40, 5), dense({2, i * 5})));
  const auto sent = [](int i) { return pattern(static_cast<Bytes>(i) * 40, 5); };
  std::vector<std::byte> into(40);
  ASSERT_TRUE(in.receive_into(into, soon()));
  EXPECT_TRUE(same(into, sent(1)));
  auto early = in.receive_early(soon());
  ASSERT_TRUE(early);
  auto whole = early->whole(soon());
  ASSERT_TRUE(whole) << to_string(whole.error());
  expect(*whole, sent(2), dense({2, 10}));
  std::vector<Consumer> ends;
  ends.push_back(std::move(in));
  auto any = Consumer::receive_any(ends, soon());
  ASSERT_TRUE(any);
  expect(any->message, sent(3), dense({2, 15}));
  std::array<Message, 2> batch;
  const auto count = ends[0].receive_batch(batch, soon());
  ASSERT_TRUE(count) << to_string(count.error());
  ASSERT_EQ(*count, 2u);
  expect(batch[0], sent(4), dense({2, 20}));
  expect(batch[1], sent(5), dense({2, 25}));
}

TEST_F(CellTensors, ASuccessorGetsThoseThatWereNotRead) {
  options_.slots = 8;
  std::optional<Consumer> first(join());
  for (int i = 1; i <= 4; ++i)
    ASSERT_TRUE(send(pattern(static_cast<Bytes>(i) * 400, 6), dense({i * 2, 50})));
  ASSERT_TRUE(out_->send(pattern(400, 6), {.deadline = soon(), .user = 400}));
  first.reset();
  Consumer second = join();
  for (int i = 1; i <= 4; ++i) {
    const auto message = second.receive(soon());
    ASSERT_TRUE(message) << to_string(message.error());
    expect(*message, pattern(static_cast<Bytes>(i) * 400, 6), dense({i * 2, 50}));
  }
  const auto plain = second.receive(soon());
  ASSERT_TRUE(plain) << to_string(plain.error());
  expect(*plain, pattern(400, 6), std::nullopt);
}

TEST_F(CellTensors, OneThatIsPassedOnKeepsIt) {
  Consumer in = join();
  ASSERT_TRUE(send(pattern(800, 8), dense({2, 100})));
  auto message = in.receive(soon());
  ASSERT_TRUE(message);
  ASSERT_TRUE(out_->send(Draft().forward(std::move(*message)), {.deadline = soon(), .user = 800}));
  const auto again = in.receive(soon());
  ASSERT_TRUE(again) << to_string(again.error());
  expect(*again, pattern(800, 8), dense({2, 100}));
}

TEST_F(CellTensors, RandomOnesArriveInOrder) {
  Consumer in = join();
  std::mt19937_64 random(test_seed(9));
  const auto below = [&](std::uint64_t end) { return static_cast<std::int64_t>(random() % end); };
  for (int i = 0; i < 3000; ++i) {
    std::vector<std::int64_t> shape(static_cast<std::size_t>(below(6)));
    std::int64_t elements = 1;
    for (std::int64_t& length : shape) elements *= length = below(shape.size() > 2 ? 7 : 40);
    const auto bits = static_cast<std::uint8_t>(8 << below(4));
    const DataType type{DataType::signed_int, bits, static_cast<std::uint16_t>(1 + below(3))};
    std::optional<Tensor> tensor = Tensor::dense(type, shape);
    const auto size = static_cast<Bytes>(elements * bits / 8 * type.lanes + below(2) * 3);
    if (below(4) == 0) tensor.reset();
    const auto bytes = pattern(size, static_cast<std::uint64_t>(i));
    const auto sent = send(bytes, tensor);
    ASSERT_TRUE(sent) << i << to_string(sent.error());
    const auto message = in.receive(soon());
    ASSERT_TRUE(message) << to_string(message.error());
    expect(*message, bytes, tensor);
    if (HasFatalFailure() || HasNonfatalFailure()) FAIL() << i;
  }
}

}  // namespace
}  // namespace gantry
