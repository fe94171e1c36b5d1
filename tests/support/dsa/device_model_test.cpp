#include "support/dsa/device_model.hpp"

#include <algorithm>
#include <chrono>

#include "core/base/test_effort.hpp"
#include "support/dsa/test_model.hpp"

// Every operation against a plain reference, and the queue as several threads see it. Randomness
// is seeded; nothing depends on how long anything takes.
namespace gantry::dsa {
namespace {

// Sizes around the pieces and pages that the model works by, at any alignment.
struct Case {
  Bytes bytes;
  Bytes from;
  Bytes to;
};
std::vector<Case> cases() {
  std::mt19937_64 dice(test_seed(7));
  std::vector<Case> all{{1, 0, 0}, {8, 3, 5}, {4096, 0, 0}, {65536, 1, 0}, {65537, 0, 1}};
  for (int i = 0; i < 40; ++i) all.push_back({1 + dice() % 200'000, dice() % 4096, dice() % 4096});
  for (int i = 0; i < 40; ++i) all.push_back({1 + dice() % 100, dice() % 64, dice() % 64});
  return all;
}

class ModelOperations : public testing::Test {
 protected:
  std::unique_ptr<DeviceModel> model_ = make_model();
  const Buffer source_ = random_bytes(300'000, 1);
  Buffer destination_ = random_bytes(300'000, 2);
  Buffer expected_ = destination_;
  Order order_;
};

TEST_F(ModelOperations, NoopAnswers) {
  EXPECT_EQ(run(*model_, order_), Status::success);
  EXPECT_EQ(destination_, expected_);
}

TEST_F(ModelOperations, MemmoveCopies) {
  order_.set(Opcode::memmove);
  for (const auto& [bytes, from, to] : cases()) {
    order_.of(source_.data() + from, destination_.data() + to, bytes);
    std::memmove(expected_.data() + to, source_.data() + from, bytes);
    ASSERT_EQ(run(*model_, order_), Status::success);
    ASSERT_EQ(destination_, expected_) << bytes << " at " << from << " to " << to;
  }
}

TEST_F(ModelOperations, MemmoveMayOverlapEitherWay) {
  order_.set(Opcode::memmove);
  for (const auto& [bytes, from, to] : cases()) {
    order_.of(destination_.data() + from, destination_.data() + to, bytes);
    std::memmove(expected_.data() + to, expected_.data() + from, bytes);
    ASSERT_EQ(run(*model_, order_), Status::success);
    ASSERT_EQ(destination_, expected_) << bytes << " at " << from << " to " << to;
  }
}

TEST_F(ModelOperations, MemfillRepeatsItsPatternFromTheFirstByteOn) {
  order_.set(Opcode::memfill);
  for (const auto& [bytes, from, to] : cases()) {
    std::uint64_t pattern = 0;
    std::memcpy(&pattern, source_.data() + from, sizeof pattern);
    order_.of(nullptr, destination_.data() + to, bytes);
    order_.descriptor.source = pattern;
    for (Bytes i = 0; i < bytes; ++i) expected_[to + i] = source_[from + i % 8];
    ASSERT_EQ(run(*model_, order_), Status::success);
    ASSERT_EQ(destination_, expected_) << bytes << " to " << to;
  }
}

// ---- batches -------------------------------------------------------------------------------

struct BatchOf3 : testing::Test {
  BatchOf3() {
    for (Order& order : orders) order.set(Opcode::noop);
    batch.set(Opcode::batch);
    batch.of(list.data(), nullptr, list.size());
  }
  Status run_all() {
    for (std::size_t i = 0; i < list.size(); ++i) list[i] = orders[i].descriptor;
    return run(*model, batch);
  }
  std::unique_ptr<DeviceModel> model = make_model();
  std::array<Order, 3> orders;
  std::array<Descriptor, 3> list;
  Order batch;
};

TEST_F(BatchOf3, AnswersEachAndThenTheBatch) {
  const Buffer source = random_bytes(5000, 3);
  Buffer middle(5000);
  Buffer destination(5000);
  orders[0].set(Opcode::memmove);
  orders[0].of(source.data(), middle.data(), 5000);
  orders[1].set(Opcode::memmove, kAnswered | Flags::fence);
  orders[1].of(middle.data(), destination.data(), 5000);
  EXPECT_EQ(run_all(), Status::success);
  for (Order& order : orders) EXPECT_EQ(status_in(load_status(order.record)), Status::success);
  EXPECT_EQ(batch.record.bytes_completed, 3u);
  EXPECT_EQ(destination, source);
  EXPECT_EQ(model->counts().ended, 1u) << "a batch takes one entry";
}

TEST_F(BatchOf3, GoesOnAfterAFailureUpToTheNextFence) {
  orders[0].set(kUnknown);
  EXPECT_EQ(run_all(), Status::batch_failed);
  EXPECT_EQ(batch.record.bytes_completed, 3u);
  EXPECT_TRUE(orders[2].answered());
  for (Order& order : orders) order.record = {};
  orders[2].also(Flags::fence);
  EXPECT_EQ(run_all(), Status::batch_failed);
  EXPECT_EQ(batch.record.bytes_completed, 2u);
  EXPECT_TRUE(orders[1].answered());
  EXPECT_FALSE(orders[2].answered()) << "given up at its fence";
}

TEST_F(BatchOf3, HoldsNoBatch) {
  orders[1].set(Opcode::batch);
  EXPECT_EQ(run_all(), Status::batch_failed);
  EXPECT_EQ(status_in(load_status(orders[1].record)), Status::bad_opcode);
}

// ---- several threads -----------------------------------------------------------------------

// Property: whatever two submitters send to one queue is executed once and answered after it was
// done. Method: each copies its own bytes to and fro, so that one lost or early answer shows.
TEST(DeviceModel, TwoThreadsShareAQueue) {
  const auto model = make_model({.entries = 2});
  constexpr int kRounds = 300;
  const auto work = [&](std::uint64_t seed) {
    const Buffer source = random_bytes(3000, seed);
    Buffer there(3000);
    Buffer back(3000);
    Order order(Opcode::memmove);
    for (int i = 0; i < kRounds; ++i) {
      std::fill(there.begin(), there.end(), std::byte{});
      order.of(source.data(), there.data(), 3000);
      ASSERT_EQ(run(*model, order), Status::success);
      order.of(there.data(), back.data(), 3000);
      ASSERT_EQ(run(*model, order), Status::success);
      ASSERT_EQ(back, source);
    }
  };
  std::thread other(work, 4);
  work(5);
  other.join();
  EXPECT_EQ(model->counts().accepted, 4u * kRounds);
}

// Property: after the destructor nothing is written any more, and what was answered is a prefix.
TEST(DeviceModel, EndsWithWorkInFlight) {
  for (int round = 0; round < 20; ++round) {
    const Buffer source = random_bytes(100'000, 6);
    std::array<Buffer, 8> destinations;
    std::array<Order, 8> orders;
    auto model = make_model();
    for (std::size_t i = 0; i < orders.size(); ++i) {
      destinations[i].resize(source.size());
      orders[i].set(Opcode::memmove);
      orders[i].of(source.data(), destinations[i].data(), source.size());
      submit(*model, orders[i].descriptor);
    }
    if (round % 2 == 0) orders[2].await();
    model.reset();
    bool ended = true;
    for (std::size_t i = 0; i < orders.size(); ++i) {
      EXPECT_TRUE(ended || !orders[i].answered()) << "answers in order";
      ended = orders[i].answered();
      EXPECT_EQ(destinations[i] == source, ended);
    }
  }
}

TEST(DeviceModel, TakesAtLeastThePublishedTime) {
  using Clock = std::chrono::steady_clock;
  constexpr Bytes kBytes = Bytes{2} << 20;
  const auto model = make_model({.timing = true});
  const Buffer source(kBytes);
  Buffer destination(kBytes);
  Order order(Opcode::memmove);
  order.of(source.data(), destination.data(), kBytes);
  const auto start = Clock::now();
  for (int i = 0; i < 50; ++i) ASSERT_EQ(run(*model, order), Status::success);
  EXPECT_GE(Clock::now() - start, std::chrono::nanoseconds(50 * (1200 + kBytes / 30)));
}

TEST(DeviceModel, RefusesOptionsThatMakeNoQueue) {
  EXPECT_FALSE(DeviceModel::create({.entries = 0}));
  EXPECT_FALSE(DeviceModel::create({.limits = {.version = 3}}));
  EXPECT_FALSE(DeviceModel::create({.limits = {.max_transfer_bytes = 0}}));
  EXPECT_FALSE(DeviceModel::create({.limits = {.max_batch = 0}}));
}

}  // namespace
}  // namespace gantry::dsa
