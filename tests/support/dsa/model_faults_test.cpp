#include "core/base/test_effort.hpp"
#include "support/dsa/test_model.hpp"

// Page faults, scripted and real, and that whoever goes on by the published rule loses nothing.
namespace gantry::dsa {
namespace {

using Side = PageFault::Side;

class ModelFaults : public testing::Test {
 protected:
  std::uint8_t raw_status() { return load_status(order_.record); }

  static constexpr Bytes kBytes = 30'000;
  std::unique_ptr<DeviceModel> model_ = make_model();
  Buffer source_ = random_bytes(kBytes, 1);
  Buffer destination_ = Buffer(kBytes);
  Order order_{Opcode::memmove};
};

TEST_F(ModelFaults, StopsAtAnyByteFromTheFront) {
  for (const Bytes after : {Bytes{0}, Bytes{1}, Bytes{4095}, Bytes{17'777}, kBytes - 1}) {
    for (const Side side : {Side::source, Side::destination}) {
      std::fill(destination_.begin(), destination_.end(), std::byte{});
      order_.of(source_.data(), destination_.data(), kBytes);
      model_->fault_next({.after = after, .side = side});
      ASSERT_EQ(run(*model_, order_), Status::page_fault);
      const bool read = side == Side::source;
      EXPECT_EQ(raw_status(), read ? 0x03 : 0x83);
      EXPECT_EQ(order_.record.result, 0);
      EXPECT_EQ(order_.record.bytes_completed, after);
      EXPECT_EQ(order_.record.fault_address,
                address_of(read ? source_.data() : destination_.data()) + after);
      Buffer expected = source_;
      std::fill(expected.begin() + static_cast<std::ptrdiff_t>(after), expected.end(), std::byte{});
      EXPECT_EQ(destination_, expected);
    }
  }
}

TEST_F(ModelFaults, StopsAtAnyByteFromTheTailOfAnOverlappingCopy) {
  constexpr Bytes kSize = 20'000;
  for (const Bytes after : {Bytes{0}, Bytes{1}, Bytes{9'000}, kSize - 1}) {
    Buffer buffer = source_;
    Buffer expected = source_;
    std::memmove(expected.data() + 5000, expected.data(), kSize);
    order_.of(buffer.data(), buffer.data() + 5000, kSize);
    model_->fault_next({.after = after, .side = Side::destination});
    ASSERT_EQ(run(*model_, order_), Status::page_fault);
    EXPECT_EQ(raw_status(), 0x83);
    EXPECT_EQ(order_.record.result, 1);
    EXPECT_EQ(order_.record.bytes_completed, after);
    EXPECT_EQ(order_.record.fault_address, address_of(buffer.data()) + 5000 + kSize - after - 1);
    order_.descriptor.size -= order_.record.bytes_completed;
    EXPECT_EQ(run_to_the_end(*model_, order_), 0u);
    EXPECT_EQ(buffer, expected);
  }
}

TEST_F(ModelFaults, ComeInTheirOrderAndAfterTheOnesLetPass) {
  order_.of(source_.data(), destination_.data(), kBytes);
  model_->fault_next({.after = 10, .skip = 1});
  model_->fault_next({.after = 20});
  EXPECT_EQ(run(*model_, order_), Status::success);
  EXPECT_EQ(run(*model_, order_), Status::page_fault);
  EXPECT_EQ(order_.record.bytes_completed, 10u);
  EXPECT_EQ(run(*model_, order_), Status::page_fault);
  EXPECT_EQ(order_.record.bytes_completed, 20u);
  EXPECT_EQ(run(*model_, order_), Status::success);
  EXPECT_EQ(model_->counts().page_faults, 2u);
}

TEST_F(ModelFaults, BlockOnFaultDoesNotPreventThem) {
  order_.of(source_.data(), destination_.data(), kBytes);
  order_.also(Flags::block_on_fault);
  model_->fault_next({.after = 10});
  EXPECT_EQ(run(*model_, order_), Status::page_fault_unresolved);
  EXPECT_EQ(order_.record.bytes_completed, 10u);
}

TEST_F(ModelFaults, OfABatchsList) {
  std::array<Order, 4> orders;
  std::array<Descriptor, 4> list;
  for (std::size_t i = 0; i < list.size(); ++i) list[i] = orders[i].descriptor;
  order_.set(Opcode::batch);
  order_.of(list.data(), nullptr, list.size());
  model_->fault_next_batch(1);
  EXPECT_EQ(run(*model_, order_), Status::batch_page_fault);
  EXPECT_EQ(order_.record.bytes_completed, 1u);
  EXPECT_EQ(order_.record.fault_address, address_of(&list[1]));
  EXPECT_TRUE(orders[0].answered());
  EXPECT_FALSE(orders[1].answered());
  order_.of(&list[1], nullptr, 3);
  EXPECT_EQ(run(*model_, order_), Status::success);
  for (Order& order : orders) EXPECT_TRUE(order.answered());
}

// ---- memory that is really not there -------------------------------------------------------

TEST_F(ModelFaults, RealOnesAreExactToThePage) {
  const Bytes page = Pages::page();
  const Pages from(6);
  const Pages to(6);
  const Buffer bytes = random_bytes(6 * page, 2);
  std::memcpy(from.at(0), bytes.data(), bytes.size());
  for (const bool read : {true, false}) {
    const Pages& broken = read ? from : to;
    broken.protect(3, read ? PROT_NONE : PROT_READ);
    for (const Bytes offset : {Bytes{0}, Bytes{100}, page - 1}) {
      order_.of(from.at(offset), to.at(offset), 5 * page);
      ASSERT_EQ(run(*model_, order_), Status::page_fault);
      EXPECT_EQ(raw_status(), read ? 0x03 : 0x83);
      EXPECT_EQ(order_.record.bytes_completed, 3 * page - offset);
      EXPECT_EQ(order_.record.fault_address, address_of(broken.at(3 * page)));
      EXPECT_EQ(std::memcmp(to.at(offset), from.at(offset), 3 * page - offset), 0);
    }
    broken.protect(3, PROT_READ | PROT_WRITE);
    order_.of(from.at(0), to.at(0), 5 * page);
    EXPECT_EQ(run(*model_, order_), Status::success);
  }
}

TEST_F(ModelFaults, RealOnesFromTheTailToo) {
  const Bytes page = Pages::page();
  const Pages pages(6);
  const Buffer bytes = random_bytes(6 * page, 3);
  std::memcpy(pages.at(0), bytes.data(), bytes.size());
  pages.protect(3, PROT_READ);
  order_.of(pages.at(0), pages.at(500), 5 * page);
  ASSERT_EQ(run(*model_, order_), Status::page_fault);
  EXPECT_EQ(raw_status(), 0x83);
  EXPECT_EQ(order_.record.result, 1);
  EXPECT_EQ(order_.record.bytes_completed, page + 500);
  EXPECT_EQ(order_.record.fault_address, address_of(pages.at(4 * page)) - 1);
  pages.protect(3, PROT_READ | PROT_WRITE);
  order_.descriptor.size -= order_.record.bytes_completed;
  EXPECT_EQ(run(*model_, order_), Status::success);
  EXPECT_EQ(std::memcmp(pages.at(500), bytes.data(), 5 * page), 0);
}

TEST_F(ModelFaults, NoOperationDiesOfThem) {
  const Bytes page = Pages::page();
  const Pages bad(2);
  bad.protect(1, PROT_NONE);
  const Pages good(2);
  for (const Opcode opcode : {Opcode::memmove, Opcode::memfill}) {
    const bool reads = opcode != Opcode::memfill;
    order_.descriptor = {};
    order_.set(opcode);
    order_.of(reads ? bad.at(0) : nullptr, reads ? good.at(0) : bad.at(0), 2 * page);
    ASSERT_EQ(run(*model_, order_), Status::page_fault) << static_cast<unsigned>(opcode);
    EXPECT_EQ(raw_status(), reads ? 0x03 : 0x83);
    EXPECT_EQ(order_.record.bytes_completed, page);
    EXPECT_EQ(order_.record.fault_address, address_of(bad.at(page)));
  }
  for (const Address wild : {Address{0}, ~Address{0} - 10'000, Address{1} << 55}) {
    order_.set(Opcode::memmove);
    order_.of(good.at(0), nullptr, page);
    order_.descriptor.destination = wild;
    EXPECT_EQ(run(*model_, order_), Status::page_fault);
    EXPECT_EQ(order_.record.bytes_completed, 0u);
    order_.set(Opcode::batch);
    order_.descriptor.source = wild / 64 * 64;
    order_.descriptor.size = 2;
    EXPECT_EQ(run(*model_, order_), Status::batch_page_fault);
  }
}

// ---- at random -----------------------------------------------------------------------------

// Property: however often an operation is interrupted, going on gives what it gives undisturbed.
// The same is done on a second model without faults.
TEST_F(ModelFaults, AtRandomLoseNothing) {
  model_->fault_randomly({.seed = 9, .page_fault = 0.5, .refusal = 0.2});
  const auto calm = make_model();
  std::mt19937_64 dice(test_seed(10));
  Buffer ours = random_bytes(kBytes, 11);
  Buffer theirs = ours;
  unsigned faults = 0;
  for (int i = 0; i < 1500; ++i) {
    const Opcode opcode = dice() % 3 == 0 ? Opcode::memfill : Opcode::memmove;
    const Bytes size = 1 + dice() % 9000;
    const bool overlapping = opcode == Opcode::memmove && dice() % 2 == 0;
    const Bytes from = dice() % 15'000;
    const Bytes to = dice() % 15'000;
    const auto aim = [&](Order& order, Buffer& buffer) {
      order.set(opcode);
      order.of((overlapping ? buffer : source_).data() + from, buffer.data() + to, size);
    };
    Order other;
    order_.descriptor = {};
    aim(order_, ours);
    aim(other, theirs);
    faults += run_to_the_end(*model_, order_);
    ASSERT_EQ(run(*calm, other), Status::success);
    ASSERT_EQ(ours, theirs) << static_cast<unsigned>(opcode) << " " << size << " from " << from
                            << " to " << to;
  }
  EXPECT_EQ(model_->counts().page_faults, faults);
  EXPECT_GT(faults, 500u);
  EXPECT_GT(model_->counts().refused, 100u);
}

TEST_F(ModelFaults, AtRandomStrikeBatchesToo) {
  model_->fault_randomly({.seed = 12, .batch_fault = 0.5});
  unsigned faults = 0;
  for (int round = 0; round < 50; ++round) {
    std::array<Order, 8> orders;
    std::array<Descriptor, 8> list;
    for (std::size_t i = 0; i < list.size(); ++i) list[i] = orders[i].descriptor;
    order_.set(Opcode::batch);
    order_.of(list.data(), nullptr, list.size());
    while (run(*model_, order_) == Status::batch_page_fault) {
      ++faults;
      order_.descriptor.source += order_.record.bytes_completed * sizeof(Descriptor);
      order_.descriptor.size -= order_.record.bytes_completed;
      if (order_.descriptor.size > 1) continue;
      submit(*model_, list.back());  // the first version takes no batch of one
      orders.back().await();
      break;
    }
    for (Order& order : orders) EXPECT_TRUE(order.answered());
  }
  EXPECT_GT(faults, 10u);
}

TEST_F(ModelFaults, TheSameSeedIsTheSameRun) {
  std::vector<std::uint32_t> runs[2];
  for (auto& completed : runs) {
    model_->fault_randomly({.seed = 5, .page_fault = 0.5});
    for (int i = 0; i < 100; ++i) {
      order_.of(source_.data(), destination_.data(), kBytes);
      run(*model_, order_);
      completed.push_back(order_.record.bytes_completed);
    }
  }
  EXPECT_EQ(runs[0], runs[1]);
}

}  // namespace
}  // namespace gantry::dsa
