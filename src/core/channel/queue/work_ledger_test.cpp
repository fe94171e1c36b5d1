// Who has which item, against a model in which each is a line of its own.
#include "core/channel/queue/work_ledger.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "core/base/test_effort.hpp"

namespace gantry {
namespace {

std::shared_ptr<const WorkPayload> payload_of(std::uint8_t value) {
  auto segments = std::make_unique<std::vector<Segment>>();
  const auto bytes = static_cast<std::byte>(value);
  Message message(ConstByteSpan(&bytes, 1), {});
  static std::array<std::byte, 256> all{};
  all[value] = bytes;
  segments->push_back({{all.data() + value, 1}, {}});
  segments->push_back({});
  message.set_segments(std::move(segments));
  return std::make_shared<const WorkPayload>(std::move(message), true);
}

std::byte byte_of(const WorkLedger::Item& item) {
  Draft draft = item.payload->draft();
  EXPECT_EQ(draft.parts().size(), 1u);
  return draft.parts().at(0).bytes[0];
}

WorkQueueReport report_of(const WorkLedger& ledger) {
  WorkQueueReport report;
  ledger.report_to(report);
  return report;
}

TEST(WorkLedger, HandsOutInOrderAndTakesBackInFront) {
  WorkLedger ledger(0);
  for (std::uint8_t i = 1; i <= 4; ++i) ledger.put(payload_of(i));
  EXPECT_EQ(byte_of(ledger.hand_to(7)), std::byte{1});
  EXPECT_EQ(byte_of(ledger.hand_to(8)), std::byte{2});
  EXPECT_EQ(byte_of(ledger.hand_to(7)), std::byte{3});
  ledger.take_all_back(7);
  const WorkLedger::Item first = ledger.hand_to(8);
  EXPECT_EQ(byte_of(first), std::byte{1});
  EXPECT_EQ(first.tries, 2u);
  EXPECT_EQ(byte_of(ledger.hand_to(8)), std::byte{3});
  EXPECT_EQ(byte_of(ledger.hand_to(8)), std::byte{4});
  EXPECT_FALSE(ledger.has_waiting());
  EXPECT_EQ(report_of(ledger).redelivered, 2u);
}

TEST(WorkLedger, AnItemThatCannotBeHandedOverLetsOthersPass) {
  WorkLedger ledger(3);
  for (std::uint8_t i = 1; i <= 3; ++i) ledger.put(payload_of(i));
  const WorkLedger::Item bad = ledger.hand_to(7);
  ledger.failed(8, bad.number);  // not its holder
  ledger.failed(7, bad.number);
  EXPECT_FALSE(ledger.is_last_resort(bad.failures + 1));
  EXPECT_EQ(byte_of(ledger.hand_to(7)), std::byte{2});
  EXPECT_EQ(byte_of(ledger.hand_to(7)), std::byte{3});
  EXPECT_TRUE(ledger.is_last_resort(1));
  const WorkLedger::Item again = ledger.hand_to(7);
  EXPECT_EQ(byte_of(again), std::byte{1});
  EXPECT_EQ(again.tries, 2u);
  ledger.failed(7, again.number);
  EXPECT_EQ(ledger.hand_to(7).tries, 3u);
  ledger.failed(7, again.number);
  EXPECT_FALSE(ledger.has_waiting());
  EXPECT_EQ(report_of(ledger).dropped, 1u);
  EXPECT_EQ(report_of(ledger).in_hand, 2u);
}

TEST(WorkLedger, WhatWasNotReadGoesBackUntried) {
  WorkLedger ledger(0);
  for (std::uint8_t i = 1; i <= 2; ++i) ledger.put(payload_of(i));
  EXPECT_EQ(byte_of(ledger.hand_to(7, 5)), std::byte{1});
  EXPECT_EQ(byte_of(ledger.hand_to(7, 6)), std::byte{2});
  ledger.not_read(8, 5);
  ledger.not_read(7, 4);
  EXPECT_EQ(report_of(ledger).in_hand, 2u);
  ledger.not_read(7, 5);
  ledger.not_read(7, 5);  // it is in nobody's hands
  EXPECT_EQ(report_of(ledger).in_hand, 1u);
  const WorkLedger::Item again = ledger.hand_to(8, 1);
  EXPECT_EQ(byte_of(again), std::byte{1});
  EXPECT_EQ(again.tries, 1u);
  EXPECT_EQ(report_of(ledger).redelivered, 0u);
}

// So that a member, with many items in hand, cannot have all of them looked at by each of its
// words.
TEST(WorkLedger, HearsOfARequestOnce) {
  WorkLedger ledger(0);
  for (std::uint8_t i = 1; i <= 6; ++i) ledger.put(payload_of(i));
  ASSERT_EQ(ledger.hand_batch_to(7, 5, 3).size(), 3u);
  ledger.note_seen(8, 5);
  ledger.note_seen(7, 5);
  ledger.not_read(7, 5);
  ledger.acknowledge_batch(7, 5);
  EXPECT_EQ(report_of(ledger).in_hand, 3u);
  ASSERT_EQ(ledger.hand_batch_to(7, 5, 3).size(), 3u);  // a stranger's numbers may be any
  ledger.acknowledge(7, 4);
  ledger.take_back(7, 5);
  ledger.acknowledge_batch(7, 5);
  EXPECT_EQ(report_of(ledger).acknowledged, 2u);
  EXPECT_EQ(report_of(ledger).in_hand, 3u);
  ledger.take_all_back(7);
  const auto again = ledger.hand_batch_to(7, 5, 3);
  ASSERT_EQ(again.size(), 3u);
  EXPECT_EQ(again[0].tries, 2u);  // it was seen
  ledger.not_read(7, 5);
  EXPECT_EQ(ledger.hand_to(8).tries, 2u);
}

TEST(WorkLedger, NobodyAcknowledgesOrReturnsWhatAnotherHolds) {
  WorkLedger ledger(0);
  ledger.put(payload_of(1));
  const auto item = ledger.hand_to(7);
  ledger.acknowledge(8, item.number);
  ledger.take_back(8, item.number);
  ledger.acknowledge(7, item.number + 1);
  ledger.take_all_back(8);
  EXPECT_EQ(report_of(ledger).in_hand, 1u);
  EXPECT_FALSE(ledger.has_waiting());
  ledger.acknowledge(7, item.number);
  ledger.acknowledge(7, item.number);
  ledger.take_back(7, item.number);
  EXPECT_TRUE(ledger.is_empty());
  EXPECT_EQ(report_of(ledger).acknowledged, 1u);
  EXPECT_EQ(ledger.copied(), 0u);
}

TEST(WorkLedger, DropsWhatWasTriedOftenEnough) {
  WorkLedger ledger(2);
  ledger.put(payload_of(1));
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(ledger.has_waiting());
    ledger.take_back(7, ledger.hand_to(7).number);
  }
  EXPECT_TRUE(ledger.is_empty());
  EXPECT_EQ(report_of(ledger).dropped, 1u);
  EXPECT_EQ(ledger.copied(), 0u);
}

TEST(WorkLedger, WhatNeverArrivedWasNoTry) {
  WorkLedger ledger(1);
  ledger.put(payload_of(1));
  for (int i = 0; i < 5; ++i) {
    const auto item = ledger.hand_to(7);
    EXPECT_EQ(item.tries, 1u);
    ledger.not_delivered(7, item.number);
  }
  EXPECT_EQ(report_of(ledger).redelivered, 0u);
  EXPECT_TRUE(ledger.has_waiting());
}

/// Each item that is not gone has a line.
class ModelOfLedger {
 public:
  explicit ModelOfLedger(unsigned seed)
      : random_(seed), most_tries_(random_() % 4), ledger_(most_tries_) {}

  void step() {
    const std::uint64_t member = 1 + random_() % 3;
    const std::uint64_t number = put_ == 0 ? 0 : 1 + random_() % put_;
    const auto line = lines_.find(number);
    const bool holds = line != lines_.end() && line->second.holder == member;
    switch (random_() % 6) {
      case 0:
      case 1:
        ledger_.put(payload_of(static_cast<std::uint8_t>(++put_)));
        lines_[put_] = {};
        return;
      case 2:
      case 3:
        return hand_to(member);
      case 4:
        ledger_.acknowledge(member, number);
        if (holds) lines_.erase(line), ++acknowledged_;
        return;
      default:
        if (random_() % 4 == 0) return take_all_back(member);
        ledger_.take_back(member, number);
        if (holds) come_back(number);
    }
  }

  void compare() const {
    const WorkQueueReport report = report_of(ledger_);
    const auto held =
        std::ranges::count_if(lines_, [](const auto& one) { return one.second.holder != 0; });
    ASSERT_EQ(report.in_hand, static_cast<std::size_t>(held));
    ASSERT_EQ(report.waiting_items + report.in_hand, lines_.size());
    ASSERT_EQ(report.put, put_);
    ASSERT_EQ(report.acknowledged, acknowledged_);
    ASSERT_EQ(report.dropped, dropped_);
    ASSERT_EQ(ledger_.copied(), lines_.size());
  }

 private:
  struct Line {
    std::uint64_t holder = 0;  // 0: it waits
    unsigned tries = 0;
  };

  void hand_to(std::uint64_t member) {
    const auto first =
        std::ranges::find_if(lines_, [](const auto& one) { return one.second.holder == 0; });
    ASSERT_EQ(ledger_.has_waiting(), first != lines_.end());
    if (first == lines_.end()) return;
    const auto item = ledger_.hand_to(member);
    ASSERT_EQ(item.number, first->first);
    first->second.holder = member;
    ASSERT_EQ(item.tries, ++first->second.tries);
    ASSERT_EQ(byte_of(item), static_cast<std::byte>(item.number));
  }
  void take_all_back(std::uint64_t member) {
    ledger_.take_all_back(member);
    std::vector<std::uint64_t> theirs;
    for (const auto& [number, line] : lines_)
      if (line.holder == member) theirs.push_back(number);
    for (const std::uint64_t number : theirs) come_back(number);
  }
  void come_back(std::uint64_t number) {
    Line& line = lines_.at(number);
    line.holder = 0;
    if (most_tries_ == 0 || line.tries < most_tries_) return;
    lines_.erase(number);
    ++dropped_;
  }

  std::mt19937 random_;
  const unsigned most_tries_;
  WorkLedger ledger_;
  std::map<std::uint64_t, Line> lines_;
  std::uint64_t put_ = 0;
  std::uint64_t acknowledged_ = 0;
  std::uint64_t dropped_ = 0;
};

TEST(WorkLedger, AgreesWithAModelOnRandomSteps) {
  for (unsigned seed = 0; seed < 400; seed += kTestStride) {
    ModelOfLedger model(seed);
    for (int step = 0; step < 300 && !HasFatalFailure(); ++step) {
      model.step();
      model.compare();
    }
  }
}

}  // namespace
}  // namespace gantry
