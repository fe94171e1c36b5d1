// c/queue_test.cpp: queues of work: each item to one end, and what comes back.

#include <gantry/queue.h>

#include <array>
#include <thread>

#include "test_ends.hpp"

namespace gantry::c::test {
namespace {

class Queues : public Ends {
 protected:
  Queues() { EXPECT_OK(gantry_queue_open(runtime(), "jobs", nullptr, Out(queue_))); }
  [[nodiscard]] Owned<gantry_producer> putter() {
    Owned<gantry_producer> end;
    EXPECT_OK(gantry_queue_put_end(runtime(), "jobs", nullptr, kPatienceNs, Out(end)));
    return end;
  }
  [[nodiscard]] Owned<gantry_consumer> getter(std::uint32_t acknowledge) {
    Owned<gantry_consumer> end;
    EXPECT_OK(gantry_queue_get_end(runtime(), "jobs", nullptr, acknowledge, kPatienceNs, Out(end)));
    return end;
  }
  static void put(const Owned<gantry_producer>& end, const std::vector<unsigned char>& bytes) {
    const gantry_part part = part_of(bytes);
    EXPECT_OK(gantry_send(end.get(), &part, 1, kPatienceNs, nullptr));
  }
  [[nodiscard]] gantry_queue_report report() const {
    gantry_queue_report report{};
    report.size = sizeof report;
    EXPECT_OK(gantry_queue_get_report(queue_.get(), &report));
    return report;
  }

  Owned<gantry_queue> queue_;
};

TEST_F(Queues, EachItemGoesToOneEnd) {
  const auto putting = putter();
  const std::array ends{getter(GANTRY_ACKNOWLEDGE_ON_GET), getter(GANTRY_ACKNOWLEDGE_ON_GET)};
  for (std::size_t i = 0; i < 8; ++i) put(putting, bytes_of(i, i % 2 == 0 ? 40 : 200'000));
  for (std::size_t i = 0; i < 8; ++i) {
    const auto item = receive(ends[i % 3 % 2]);
    expect_bytes(item.get(), i % 2 == 0 ? 40 : 200'000, i);
    const gantry_message_info info = info_of(item.get());
    EXPECT_EQ(info.sequence, i + 1);
    EXPECT_EQ(info.segments, 1U);
    EXPECT_EQ(info.tries, 1U);
    EXPECT_EQ(info.bytes, i % 2 == 0 ? 40U : 200'000U);
    gantry_segment behind{};
    behind.size = sizeof behind;
    EXPECT_REFUSED(gantry_message_segment(item.get(), 1, &behind), GANTRY_INVALID_ARGUMENT,
                   "no segment 1 in a message of 1", "");
  }
  EXPECT_OK(gantry_queue_finish(queue_.get()));
  EXPECT_OK(gantry_queue_wait(queue_.get(), kPatienceNs));
  EXPECT_EQ(report().acknowledged, 8U);
  Owned<gantry_message> none;
  EXPECT_EQ(gantry_receive(ends[0].get(), kPatienceNs, Out(none)), GANTRY_CLOSED);
}

TEST_F(Queues, SeveralItemsGoInOneCall) {
  const auto putting = putter();
  const auto getting = getter(GANTRY_ACKNOWLEDGE_BY_HAND);
  std::vector<std::vector<unsigned char>> kept;
  std::vector<gantry_part> parts;
  for (std::size_t i = 0; i < 20; ++i)
    parts.push_back(part_of(kept.emplace_back(bytes_of(i, i == 11 ? 5000 : 10 * i))));
  std::size_t put = 77;
  ASSERT_OK(gantry_queue_put_many(putting.get(), parts.data(), parts.size(), kPatienceNs, &put));
  EXPECT_EQ(put, 20U);
  while (report().waiting_items != 20) std::this_thread::yield();
  std::array<gantry_message*, 7> messages{};
  std::size_t count = 0;
  for (std::size_t next = 0; next < 20;) {
    ASSERT_OK(gantry_queue_get_many(getting.get(), messages.size(), kPatienceNs, messages.data(),
                                    &count));
    ASSERT_TRUE(count >= 1 && count <= messages.size());
    for (std::size_t i = 0; i < count; ++i, ++next) {
      Owned<gantry_message> item;
      item.reset(messages[i]);
      expect_bytes(item.get(), next == 11 ? 5000 : 10 * next, next);
      EXPECT_EQ(info_of(item.get()).sequence, next + 1);
      EXPECT_EQ(info_of(item.get()).bytes, next == 11 ? 5000U : 10 * next);
      EXPECT_EQ(info_of(item.get()).segments, 1U);
      EXPECT_OK(gantry_done(item.get()));
    }
  }
  EXPECT_EQ(gantry_queue_get_many(getting.get(), 7, 0, messages.data(), &count), GANTRY_TIMED_OUT);
  EXPECT_EQ(count, 0U);
  EXPECT_EQ(gantry_queue_withdraw_many(getting.get(), 7, kPatienceNs, messages.data(), &count),
            GANTRY_TIMED_OUT);
  EXPECT_EQ(gantry_queue_get_many(getting.get(), 7, 0, messages.data(), &count), GANTRY_TIMED_OUT);
  ASSERT_OK(gantry_queue_put_many(putting.get(), parts.data(), 7, kPatienceNs, &put));
  while (report().in_hand != 7) std::this_thread::yield();
  EXPECT_EQ(gantry_queue_withdraw_many(getting.get(), 3, kPatienceNs, messages.data(), &count),
            GANTRY_TIMED_OUT);  // what the get was given is for seven
  for (std::size_t next = 0; next < 7; ++next) {
    Owned<gantry_message> item;
    ASSERT_OK(gantry_receive(getting.get(), kPatienceNs, Out(item)));
    expect_bytes(item.get(), 10 * next, next);
    EXPECT_OK(gantry_done(item.get()));
  }
  EXPECT_REFUSED(gantry_queue_get_many(getting.get(), 0, 0, messages.data(), &count),
                 GANTRY_INVALID_ARGUMENT, "0 items", "1 or more");
  gantry_tensor tensor{};
  parts[1].tensor = &tensor;
  EXPECT_REFUSED(gantry_queue_put_many(putting.get(), parts.data(), 2, kPatienceNs, &put),
                 GANTRY_INVALID_ARGUMENT, "item 1 has a block", "gantry_send");
  EXPECT_EQ(put, 0U);
  EXPECT_OK(gantry_queue_wait(queue_.get(), kPatienceNs));
}

TEST_F(Queues, ItemsOfANewerCallerHaveTheirOwnStride) {
  struct Newer {
    gantry_part known;
    std::uint64_t later;
  };
  const auto putting = putter();
  const auto getting = getter(GANTRY_ACKNOWLEDGE_ON_GET);
  std::vector<std::vector<unsigned char>> kept;
  std::array<Newer, 3> items{};
  for (std::size_t i = 0; i < items.size(); ++i) {
    items[i].known = part_of(kept.emplace_back(bytes_of(i, 50)));
    items[i].known.size = sizeof(Newer);
  }
  std::size_t put = 0;
  ASSERT_OK(gantry_queue_put_many(putting.get(), &items[0].known, 3, kPatienceNs, &put));
  EXPECT_EQ(put, 3U);
  for (std::size_t i = 0; i < items.size(); ++i) {
    const auto item = receive(getting);
    expect_bytes(item.get(), 50, i);
  }
  items[1].known.size = sizeof(gantry_part);
  EXPECT_REFUSED(gantry_queue_put_many(putting.get(), &items[0].known, 3, 0, &put),
                 GANTRY_INVALID_ARGUMENT, "item 1: its size is not that of item 0", "");
}

TEST_F(Queues, WhatIsNotDoneGoesToAnotherEnd) {
  const auto putting = putter();
  put(putting, bytes_of(1, 500));
  auto first = getter(GANTRY_ACKNOWLEDGE_BY_HAND);
  auto item = receive(first);
  expect_bytes(item.get(), 500, 1);
  item.reset();
  first.reset();
  const auto second = getter(GANTRY_ACKNOWLEDGE_BY_HAND);
  item = receive(second);
  expect_bytes(item.get(), 500, 1);
  EXPECT_EQ(info_of(item.get()).tries, 2U);
  EXPECT_OK(gantry_done(item.get()));
  EXPECT_REFUSED(gantry_done(item.get()), GANTRY_INVALID_ARGUMENT, "has been acknowledged", "once");
  EXPECT_OK(gantry_queue_finish(queue_.get()));
  EXPECT_OK(gantry_queue_wait(queue_.get(), kPatienceNs));
  EXPECT_EQ(report().redelivered, 1U);
}

TEST_F(Queues, BlocksOfThePoolArePutWithoutACopy) {
  const auto putting = putter();
  const auto getting = getter(GANTRY_ACKNOWLEDGE_ON_GET);
  Owned<gantry_pool> pool;
  ASSERT_OK(gantry_producer_pool(putting.get(), Out(pool)));
  Owned<gantry_block> block;
  void* data = nullptr;
  ASSERT_OK(gantry_pool_allocate(pool.get(), 300'000, Out(block), &data));
  fill(data, 300'000, 9);
  const gantry_part part = part_of(block.get());
  ASSERT_OK(gantry_send(putting.get(), &part, 1, kPatienceNs, nullptr));
  expect_bytes(receive(getting).get(), 300'000, 9);
}

TEST_F(Queues, WhatTheyDoNotHaveIsRefused) {
  const auto putting = putter();
  const auto getting = getter(GANTRY_ACKNOWLEDGE_ON_GET);
  Owned<gantry_loan> loan;
  void* data = nullptr;
  EXPECT_REFUSED(gantry_loan_take(putting.get(), 10, 0, Out(loan), &data), GANTRY_UNSUPPORTED,
                 "puts items only", "gantry_send()");
  std::uint64_t ticket = 0;
  EXPECT_REFUSED(gantry_send_async(putting.get(), nullptr, 0, 0, nullptr, &ticket),
                 GANTRY_UNSUPPORTED, "puts items only", "");
  gantry_send_options options{};
  options.size = sizeof options;
  options.type = 3;
  EXPECT_REFUSED(gantry_send(putting.get(), nullptr, 0, 0, &options), GANTRY_INVALID_ARGUMENT,
                 "an item of a queue has none", "into the item");
  Owned<gantry_consumer> wrong;
  EXPECT_REFUSED(gantry_queue_get_end(runtime(), "jobs", nullptr, 2, 0, Out(wrong)),
                 GANTRY_INVALID_ARGUMENT, "no way to acknowledge has the number 2", "");
  Owned<gantry_queue> second;
  EXPECT_REFUSED(gantry_queue_open(runtime(), "jobs", nullptr, Out(second)), GANTRY_ALREADY_EXISTS,
                 "jobs", "");
  gantry_queue_options wide{};
  wide.size = sizeof wide;
  wide.slots = 65;
  EXPECT_REFUSED(gantry_queue_open(runtime(), "wide", &wide, Out(second)), GANTRY_INVALID_ARGUMENT,
                 "65 slots", "");
  wide.slots = 64;
  EXPECT_OK(gantry_queue_open(runtime(), "wide", &wide, Out(second)));
  put(putting, bytes_of(1, 10));
  const auto item = receive(getting);
  const gantry_part part = part_of(item.get());
  EXPECT_REFUSED(gantry_send(putting.get(), &part, 1, 0, nullptr), GANTRY_INVALID_ARGUMENT,
                 "cannot travel on", "");
  EXPECT_REFUSED(gantry_done(nullptr), GANTRY_INVALID_ARGUMENT, "message is NULL", "");
}

TEST_F(Queues, EndsAskTheirQueue) {
  gantry_queue_options options{};
  options.size = sizeof options;
  options.most_items = 1;
  Owned<gantry_queue> small;
  ASSERT_OK(gantry_queue_open(runtime(), "small", &options, Out(small)));
  Owned<gantry_producer> putting;
  ASSERT_OK(gantry_queue_put_end(runtime(), "small", nullptr, kPatienceNs, Out(putting)));
  Owned<gantry_consumer> getting;
  ASSERT_OK(gantry_queue_get_end(runtime(), "small", nullptr, GANTRY_ACKNOWLEDGE_ON_GET,
                                 kPatienceNs, Out(getting)));
  Owned<gantry_message> none;
  EXPECT_EQ(gantry_receive(getting.get(), 0, Out(none)), GANTRY_TIMED_OUT);
  EXPECT_EQ(gantry_queue_withdraw(getting.get(), kPatienceNs, Out(none)), GANTRY_TIMED_OUT);

  ASSERT_OK(gantry_queue_ask(putting.get(), GANTRY_QUEUE_PLACE, kPatienceNs, nullptr));
  put(putting, bytes_of(1, 100));
  EXPECT_EQ(gantry_queue_ask(putting.get(), GANTRY_QUEUE_PLACE, 0, nullptr), GANTRY_TIMED_OUT);
  ASSERT_OK(gantry_queue_ask(getting.get(), GANTRY_QUEUE_PLACE_BACK, 0, nullptr));  // it has none
  gantry_queue_report told{};
  told.size = sizeof told;
  ASSERT_OK(gantry_queue_ask(getting.get(), GANTRY_QUEUE_REPORT, kPatienceNs, &told));
  EXPECT_EQ(told.waiting_items, 1U);
  EXPECT_EQ(gantry_queue_ask(getting.get(), GANTRY_QUEUE_ALL_DONE, 0, nullptr), GANTRY_TIMED_OUT);
  expect_bytes(receive(getting).get(), 100, 1);
  EXPECT_OK(gantry_queue_ask(getting.get(), GANTRY_QUEUE_ALL_DONE, kPatienceNs, nullptr));
  EXPECT_EQ(gantry_queue_ask(getting.get(), GANTRY_QUEUE_ALL_FINISHED, 0, nullptr),
            GANTRY_TIMED_OUT);
  EXPECT_OK(gantry_queue_ask(getting.get(), GANTRY_QUEUE_TASK_DONE, kPatienceNs, nullptr));
  EXPECT_OK(gantry_queue_ask(getting.get(), GANTRY_QUEUE_ALL_FINISHED, kPatienceNs, nullptr));

  EXPECT_REFUSED(gantry_queue_ask(getting.get(), 6, 0, nullptr), GANTRY_INVALID_ARGUMENT,
                 "no question has the number 6", "");
  EXPECT_REFUSED(gantry_queue_ask(getting.get(), GANTRY_QUEUE_REPORT, 0, nullptr),
                 GANTRY_INVALID_ARGUMENT, "report is NULL", "");
  EXPECT_REFUSED(gantry_queue_ask(small.get(), GANTRY_QUEUE_REPORT, 0, &told),
                 GANTRY_INVALID_ARGUMENT, "that end is no queue's", "gantry_queue_get_end");
}

}  // namespace
}  // namespace gantry::c::test
