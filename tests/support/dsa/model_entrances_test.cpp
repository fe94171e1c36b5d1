#include <cerrno>

#include "support/dsa/test_model.hpp"

// The three ways in, and what each refuses. A halted queue makes "full" a fact and not a race.
namespace gantry::dsa {
namespace {

ConstByteSpan bytes_of(const auto& list) {
  return std::as_bytes(std::span(list));
}
constexpr ssize_t kEach = sizeof(Descriptor);

TEST(ModelEntrances, AFullSharedQueueSaysRetry) {
  const auto model = make_model({.entries = 2});
  std::array<Order, 3> orders;
  model->halt(Halt::accepts);
  EXPECT_FALSE(model->enqcmd(orders[0].descriptor));
  EXPECT_FALSE(model->enqcmd(orders[1].descriptor));
  EXPECT_TRUE(model->enqcmd(orders[2].descriptor));
  EXPECT_EQ(model->counts().refused, 1u);
  model->resume();
  orders[1].await();
  EXPECT_FALSE(model->enqcmd(orders[2].descriptor)) << "an answer means room";
  EXPECT_EQ(orders[2].await(), Status::success);
}

TEST(ModelEntrances, AFullDedicatedQueueDropsWithoutAWord) {
  const auto model = make_model({.kind = QueueKind::dedicated, .entries = 2});
  std::array<Order, 3> orders;
  model->halt(Halt::accepts);
  for (const Order& order : orders) model->movdir64b(order.descriptor);
  model->resume();
  model->await_idle();
  EXPECT_TRUE(orders[0].answered());
  EXPECT_TRUE(orders[1].answered());
  EXPECT_FALSE(orders[2].answered());
  EXPECT_EQ(model->counts().dropped, 1u);
}

TEST(ModelEntrances, TheOtherKindsEntranceLeadsNowhere) {
  const auto shared = make_model();
  const auto dedicated = make_model({.kind = QueueKind::dedicated});
  Order order;
  shared->movdir64b(order.descriptor);
  EXPECT_TRUE(dedicated->enqcmd(order.descriptor));
  EXPECT_EQ(shared->counts().dropped, 1u);
  EXPECT_EQ(shared->counts().accepted + dedicated->counts().accepted, 0u);
}

TEST(ModelEntrances, WriteTakesWholeDescriptors) {
  for (const QueueKind kind : {QueueKind::shared, QueueKind::dedicated}) {
    const auto model = make_model({.kind = kind});
    std::array<Order, 3> orders;
    const std::array list{orders[0].descriptor, orders[1].descriptor, orders[2].descriptor};
    EXPECT_EQ(model->write(bytes_of(list).first(2 * kEach + 10)), 2 * kEach);
    EXPECT_EQ(model->write(bytes_of(list).last(kEach)), kEach);
    EXPECT_EQ(model->write({}), 0);
    for (Order& order : orders) EXPECT_EQ(order.await(), Status::success);
  }
}

TEST(ModelEntrances, WriteCountsWhatAFullQueueTook) {
  const auto model = make_model({.entries = 2});
  std::array<Order, 3> orders;
  const std::array list{orders[0].descriptor, orders[1].descriptor, orders[2].descriptor};
  model->halt(Halt::accepts);
  EXPECT_EQ(model->write(bytes_of(list)), 2 * kEach);
  EXPECT_EQ(model->write(bytes_of(list).last(kEach)), -1);
  EXPECT_EQ(errno, EAGAIN);
}

TEST(ModelEntrances, WriteRefusesAMisalignedRecord) {
  const auto model = make_model();
  Order order;
  order.descriptor.completion += 8;
  std::array list{Order().descriptor, order.descriptor};
  list[0].set(Opcode::noop, Flags::none);
  EXPECT_EQ(model->write(bytes_of(list).last(kEach)), -1);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(model->write(bytes_of(list)), kEach) << "after the first one it ends the count";
}

TEST(ModelEntrances, WriteRefusesABatchForTheFirstVersionOnly) {
  std::array<Order, 2> orders;
  std::array inner{orders[0].descriptor, orders[1].descriptor};
  for (const unsigned version : {1u, 2u}) {
    const auto model = make_model({.limits = {.version = version}});
    Order batch(Opcode::batch);
    batch.of(inner.data(), nullptr, inner.size());
    const std::array list{batch.descriptor};
    errno = 0;
    EXPECT_EQ(model->write(bytes_of(list)), version == 1 ? -1 : kEach);
    EXPECT_EQ(errno, version == 1 ? EINVAL : 0);
    if (version == 2) {
      EXPECT_EQ(batch.await(), Status::success);
    }
  }
}

TEST(ModelEntrances, WriteFromUnreadableMemoryIsAnError) {
  const auto model = make_model();
  const Pages pages(1);
  pages.protect(0, PROT_NONE);
  EXPECT_EQ(model->write(ConstByteSpan(pages.at(0), kEach)), -1);
  EXPECT_EQ(errno, EFAULT);
}

TEST(ModelEntrances, AnotherDescriptorIsRefusedWhenScripted) {
  const auto model = make_model();
  Order order;
  model->refuse_next(2, 1);
  EXPECT_FALSE(model->enqcmd(order.descriptor));
  EXPECT_TRUE(model->enqcmd(order.descriptor));
  const std::array list{order.descriptor};
  EXPECT_EQ(model->write(bytes_of(list)), -1);
  EXPECT_EQ(errno, EAGAIN);
  EXPECT_FALSE(model->enqcmd(order.descriptor));
  model->await_idle();

  const auto dedicated = make_model({.kind = QueueKind::dedicated});
  dedicated->refuse_next(1);
  dedicated->movdir64b(order.descriptor);
  EXPECT_EQ(dedicated->counts().dropped, 1u);
}

TEST(ModelEntrances, AHaltedDeviceNeverAnswers) {
  const auto model = make_model();
  std::array<Order, 3> orders;
  model->halt(Halt::accepts);
  EXPECT_FALSE(model->enqcmd(orders[0].descriptor));
  model->halt(Halt::refuses);
  EXPECT_TRUE(model->enqcmd(orders[1].descriptor));
  const std::array list{orders[1].descriptor};
  EXPECT_EQ(model->write(bytes_of(list)), -1);
  EXPECT_EQ(errno, EAGAIN);
  EXPECT_EQ(model->counts().ended, 0u);

  const auto dedicated = make_model({.kind = QueueKind::dedicated});
  dedicated->halt(Halt::refuses);
  dedicated->movdir64b(orders[2].descriptor);
  EXPECT_EQ(dedicated->counts().dropped, 1u);
}

}  // namespace
}  // namespace gantry::dsa
