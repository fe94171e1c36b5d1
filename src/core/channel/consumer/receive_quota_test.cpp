#include "core/channel/consumer/receive_quota.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <vector>

// Some senders that take all they can leave every other one its share.
namespace gantry {
namespace {

using Charge = SenderQuota::Charge;

/// One sender, and what it took.
struct Taking {
  std::shared_ptr<SenderQuota> quota;
  std::vector<Charge> charges;

  explicit Taking(const std::shared_ptr<ReceiveQuota>& all)
      : quota(std::make_shared<SenderQuota>(all)) {}
  bool take(std::uint64_t amount = 1) {
    auto charge = quota->take(Expense::slabs, amount);
    if (charge) charges.push_back(std::move(*charge));
    return charge.has_value();
  }
  std::size_t take_all() {
    while (take()) {
    }
    return charges.size();
  }
};

TEST(ReceiveQuota, OneSenderHasItAll) {
  Taking only(ReceiveQuota::make({}, {.slabs = 10}, 1));
  EXPECT_EQ(only.take_all(), 10u);
  only.charges.pop_back();
  EXPECT_TRUE(only.take()) << "what went back can be had again";
}

TEST(ReceiveQuota, TheErrorSaysWhatToRaise) {
  Taking only(ReceiveQuota::make({.slabs = 1}, {}, 1));
  EXPECT_TRUE(only.take());
  const auto refused = only.quota->take(Expense::slabs, 1);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::too_large);
  EXPECT_NE(refused.error().hint.find("ReceiveLimits::slabs"), std::string::npos);
}

TEST(ReceiveQuota, AmountsBeyondAllCountingAreRefused) {
  Taking only(ReceiveQuota::make({}, {.slabs = 10}, 1));
  EXPECT_FALSE(only.take(~std::uint64_t{0}));
  EXPECT_TRUE(only.take(10));
  EXPECT_FALSE(only.take(~std::uint64_t{0}));
}

TEST(ReceiveQuota, TheGreedyLeaveEachOtherItsShare) {
  constexpr unsigned kSenders = 8;
  const auto all = ReceiveQuota::make({}, {.slabs = 160}, kSenders);
  std::vector<Taking> senders;
  for (unsigned i = 0; i < kSenders; ++i) senders.emplace_back(all);
  std::size_t taken = 0;
  for (unsigned i = 0; i < kSenders - 1; ++i) {
    const std::size_t had = senders[i].take_all();
    EXPECT_GE(had, 10u);
    EXPECT_LE(had, 30u) << "its share and a quarter of what is nobody's";
    taken += had;
  }
  EXPECT_EQ(senders.back().take_all(), 10u) << "half of it all is divided evenly";
  EXPECT_LE(taken + 10, 160u);
  senders.front().charges.clear();
  EXPECT_TRUE(senders.back().take());
}

// The usual limit of open files; the defaults of an inbox.
TEST(ReceiveQuota, SixtyFourSendersWorkWithThousandDescriptors) {
  constexpr unsigned kSenders = 64;
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit usual{std::min<rlim_t>(1024, before.rlim_max), before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &usual), 0);
  const auto all = ReceiveQuota::make({}, {}, kSenders);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  std::size_t taken = 0;
  std::vector<Taking> senders;
  for (unsigned i = 0; i < kSenders; ++i) senders.emplace_back(all);
  for (unsigned i = 0; i < 8; ++i) taken += senders[i].take_all();
  for (unsigned i = 8; i < kSenders; ++i) {
    EXPECT_GE(senders[i].take_all(), 2u) << "sender " << i;
    taken += senders[i].charges.size();
  }
  EXPECT_LE(taken + kSenders * 10, 1024u - 32u) << "and all of it fits the limit";
}

}  // namespace
}  // namespace gantry
