#include <poll.h>

#include <deque>
#include <limits>
#include <random>

#include "core/base/test_effort.hpp"
#include "link_suite.hpp"

// What links refuse, and what they do at the edge of their limits.
namespace gantry {
namespace {

constexpr Bytes kMost = std::numeric_limits<Bytes>::max();

class LinkLimits : public LinkConformance {
 protected:
  void SetUp() override {
    LinkConformance::SetUp();
    exported_ = *b_->export_memory(there_, RemoteAccess::read_write);
  }
  [[nodiscard]] Transfer at(Bytes offset, Bytes size) const {
    Transfer transfer = Transfer::of(here_, exported_.remote(), offset);
    transfer.row_bytes = size;
    return transfer;
  }
  void expect_refused(const Transfer& transfer, Code code) {
    EXPECT_EQ(code_of(a_->put(transfer)), code);
    EXPECT_EQ(code_of(a_->get(transfer)), code);
  }

  std::vector<std::byte> here_ = some_bytes(10'000, 1);
  std::vector<std::byte> there_ = some_bytes(10'000, 2);
  Export exported_;
};

TEST_P(LinkLimits, TheLastByteIsReachedAndNoneBeyond) {
  EXPECT_TRUE(put(at(9'999, 1)));
  EXPECT_EQ(there_[9'999], here_[0]);
  EXPECT_TRUE(put(at(0, 10'000)));
  EXPECT_TRUE(put(at(10'000, 0)));
  expect_refused(at(9'999, 2), Code::invalid_argument);
  expect_refused(at(10'000, 1), Code::invalid_argument);
  expect_refused(at(10'001, 0), Code::invalid_argument);
  expect_refused(at(kMost, 1), Code::invalid_argument);
  expect_refused(at(kMost, kMost), Code::invalid_argument);  // the sum wraps to less
  expect_refused(at(5, kMost - 2), Code::invalid_argument);
  EXPECT_TRUE(a_->state() && b_->state());
}

TEST_P(LinkLimits, RowsNeitherOverlapNorWrapAround) {
  Transfer transfer = at(0, 100);
  transfer.rows = 100;
  transfer.local_stride = transfer.remote_stride = 100;
  EXPECT_TRUE(put(transfer));
  transfer.remote_stride = 101;
  expect_refused(transfer, Code::invalid_argument);
  transfer.rows = 3;
  transfer.remote_stride = 99;
  expect_refused(transfer, Code::invalid_argument);
  transfer.remote_stride = 100;
  transfer.local_stride = 0;
  expect_refused(transfer, Code::invalid_argument);
  transfer.local_stride = kMost / 2 + 2;  // 2 x this is 2
  expect_refused(transfer, Code::invalid_argument);
  transfer.local_stride = 100;
  transfer.remote_stride = kMost / 2 + 2;
  expect_refused(transfer, Code::invalid_argument);
  transfer = at(0, kMost / 2 + 2);
  transfer.rows = 2;
  transfer.local_stride = transfer.remote_stride = kMost;
  expect_refused(transfer, Code::too_large);
}

TEST_P(LinkLimits, NoMemoryIsRefused) {
  Transfer transfer = at(0, 100);
  transfer.local = nullptr;
  expect_refused(transfer, Code::invalid_argument);
  EXPECT_FALSE(a_->export_memory({}, RemoteAccess::read));
  EXPECT_FALSE(a_->export_region(Region(), RemoteAccess::read));
}

TEST_P(LinkLimits, AccessThatWasNotGivenIsRefused) {
  const auto readable = *b_->export_memory(there_, RemoteAccess::read);
  const auto writable = *b_->export_memory(there_, RemoteAccess::write);
  EXPECT_EQ(code_of(a_->put(Transfer::of(here_, readable.remote()))), Code::invalid_argument);
  EXPECT_EQ(code_of(a_->get(Transfer::of(here_, writable.remote()))), Code::invalid_argument);
  EXPECT_TRUE(get(Transfer::of(here_, readable.remote())));
  EXPECT_TRUE(put(Transfer::of(here_, writable.remote())));
}

TEST_P(LinkLimits, TransfersUnderWayAreCounted) {
  const auto most = a_->capabilities().max_transfers;
  std::vector<Ticket> tickets;
  for (std::size_t i = 0; i < most; ++i) {
    const auto ticket = a_->put(at(i, 1));
    ASSERT_TRUE(ticket);
    tickets.push_back(*ticket);
  }
  expect_refused(at(0, 1), Code::busy);
  EXPECT_TRUE(finish(*a_, tickets.front()));
  for (const Ticket ticket : tickets) EXPECT_TRUE(finish(*a_, ticket));
  EXPECT_TRUE(put(at(0, 1)));
}

TEST_P(LinkLimits, SignalsThatNobodyTookAreCounted) {
  const auto most = a_->capabilities().max_signals;
  Transfer transfer = at(0, 1);
  for (std::uint64_t i = 0; i < most; ++i) {
    transfer.signal = i;
    ASSERT_TRUE(put(transfer));
  }
  expect_refused(transfer, Code::busy);
  EXPECT_TRUE(put(at(0, 1)));  // those without go on
  for (std::uint64_t i = 0; i < most; ++i) ASSERT_EQ(b_->receive_signal(patience()), i);
  settle();
  EXPECT_TRUE(put(transfer));
}

TEST_P(LinkLimits, ControlMessagesHaveALimitOfSizeAndNumber) {
  const auto limits = a_->capabilities();
  const auto message = some_bytes(limits.max_control_bytes + 1, 4);
  EXPECT_EQ(a_->send_control(message).error().code, Code::too_large);
  EXPECT_EQ(a_->send_control({}).error().code, Code::invalid_argument);
  const auto largest = std::span(message).first(limits.max_control_bytes);
  for (std::size_t i = 0; i < limits.max_controls; ++i)
    ASSERT_TRUE(a_->send_control(largest, Deadline::now()));
  EXPECT_EQ(a_->send_control(largest, Deadline::now()).error().code, Code::timed_out);
  std::vector<std::byte> into(limits.max_control_bytes);
  EXPECT_EQ(b_->receive_control(std::span(into).first(10), patience()).error().code,
            Code::too_large);
  for (std::size_t i = 0; i < limits.max_controls; ++i) {
    Result<Bytes> got;
    ASSERT_TRUE(
        pump_until([&] { return (got = b_->receive_control(into, Deadline::now())).has_value(); }));
    ASSERT_EQ(*got, largest.size());
    ASSERT_TRUE(are_equal(into, largest));
  }
  EXPECT_TRUE(a_->send_control(largest, patience()));
}

TEST_P(LinkLimits, ControlMessagesKeepTheirOrderAndTheirBytes) {
  std::mt19937_64 random(test_seed(6));
  std::deque<std::vector<std::byte>> sent;
  std::vector<std::byte> large(8 * kMiB);  // so that messages have to queue up behind it
  const auto place = *b_->export_memory(large, RemoteAccess::write);
  std::vector<std::byte> into(4096);
  const auto take = [&] {
    Result<Bytes> size;
    ASSERT_TRUE(pump_until(
        [&] { return (size = b_->receive_control(into, Deadline::now())).has_value(); }));
    ASSERT_TRUE(are_equal(sent.front(), std::span(into).first(*size)));
    sent.pop_front();
  };
  for (std::uint64_t i = 0; i < 5000; ++i) {
    sent.push_back(some_bytes(1 + random() % 4096, i));
    ASSERT_TRUE(
        pump_until([&] { return a_->send_control(sent.back(), Deadline::now()).has_value(); }));
    if (i % 500 == 0) {
      ASSERT_TRUE(a_->put(Transfer::of(large, place.remote())));
    }
    while (sent.size() > random() % 30) take();
  }
  while (!sent.empty()) take();
}

TEST_P(LinkLimits, WaitingEndsAtItsDeadlineAndMayBeginAgain) {
  std::array<std::byte, 8> into{};
  const auto soon = [] { return Deadline::after(std::chrono::milliseconds(2)); };
  EXPECT_EQ(b_->receive_signal(soon()).error().code, Code::timed_out);
  EXPECT_EQ(b_->receive_control(into, soon()).error().code, Code::timed_out);
  const auto ticket = a_->put(at(0, 10'000));
  ASSERT_TRUE(ticket);
  EXPECT_EQ(a_->wait(*ticket, soon()).error().code, Code::timed_out);  // nobody polls the far end
  EXPECT_EQ(a_->outcome(*ticket), Outcome::pending);
  EXPECT_TRUE(finish(*a_, *ticket));
  EXPECT_TRUE(a_->wait(*ticket));  // as often as one likes
}

TEST_P(LinkLimits, TicketsThatWereNeverGivenHaveFailed) {
  for (const Ticket ticket : {Ticket{0}, Ticket{1}, Ticket{~0ull}}) {
    EXPECT_EQ(a_->outcome(ticket), Outcome::failed);
    EXPECT_EQ(a_->wait(ticket).error().code, Code::invalid_argument);
  }
}

TEST_P(LinkLimits, TheDescriptorSaysWhenThereIsWork) {
  const auto is_readable = [](const Link& link, int ms) {
    pollfd entry{link.descriptor(), POLLIN, 0};
    return ::poll(&entry, 1, ms) == 1;
  };
  settle();
  EXPECT_TRUE(pump_until([&] { return !is_readable(*a_, 0) && !is_readable(*b_, 0); }));
  ASSERT_TRUE(a_->put(at(0, 100)));
  EXPECT_TRUE(is_readable(*b_, 60'000));
  ASSERT_TRUE(pump_until([&] { return a_->report().puts == 1; }));
}

TEST(RemoteRegion, SurvivesItsJourneyAndNothingElseDoes) {
  const RemoteRegion region{0x1234'5678'9abc'def0, 99, RemoteAccess::write};
  const auto encoded = region.encode();
  const auto decoded = RemoteRegion::decode(encoded);
  ASSERT_TRUE(decoded);
  EXPECT_EQ(*decoded, region);
  for (std::size_t bit = 0; bit < 8 * encoded.size(); ++bit) {
    auto changed = encoded;
    changed[bit / 8] ^= std::byte{1} << (bit % 8);
    EXPECT_FALSE(RemoteRegion::decode(changed)) << bit;
  }
  for (std::size_t size = 0; size < encoded.size(); ++size)
    EXPECT_FALSE(RemoteRegion::decode(std::span(encoded).first(size))) << size;
  const std::vector<std::byte> longer(encoded.size() + 1);
  EXPECT_FALSE(RemoteRegion::decode(longer));
}

INSTANTIATE_TEST_SUITE_P(Links, LinkLimits, testing::ValuesIn(kLinks), name_of);

}  // namespace
}  // namespace gantry
