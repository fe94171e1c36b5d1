#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <gantry/link.hpp>
#include <vector>

#include "core/base/os/fd.hpp"
#include "net/link/record.hpp"

// That payload takes libfabric; what every link does is in tests/conformance/.
namespace gantry {
namespace {

constexpr Bytes kSize = 5'000'003;

class FabricLink : public testing::Test {
 protected:
  void SetUp() override {
    std::array<int, 2> ends{};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
    auto one = make_fabric_link(ends[0]);
    auto other = make_fabric_link(ends[1]);
    if (!one && one.error().code == Code::unsupported) GTEST_SKIP() << one.error().message;
    ASSERT_TRUE(one && other) << one.error().message;
    a_ = *std::move(one);
    b_ = *std::move(other);
    here_exported_ = *a_->export_memory(here_, RemoteAccess::read);
    there_exported_ = *b_->export_memory(there_, RemoteAccess::read_write);
  }
  [[nodiscard]] Transfer all() { return Transfer::of(here_, there_exported_.remote()); }
  [[nodiscard]] bool takes_fabric(Link& link, const Transfer& transfer) {
    return link.explain(transfer).text().find("pulled") != std::string::npos;
  }
  [[nodiscard]] bool pump_until(const auto& is_so) {
    for (const Deadline deadline = Deadline::after(std::chrono::seconds(60)); !is_so();) {
      a_->poll();
      b_->poll();
      if (deadline.passed()) return false;
    }
    return true;
  }
  void finish(const Result<Ticket>& ticket) {
    ASSERT_TRUE(ticket) << ticket.error().message;
    ASSERT_TRUE(pump_until([&] { return a_->outcome(*ticket) != Outcome::pending; }));
    EXPECT_TRUE(a_->wait(*ticket));
  }

  std::vector<std::byte> here_ = std::vector<std::byte>(kSize, std::byte{1});
  std::vector<std::byte> there_ = std::vector<std::byte>(kSize, std::byte{2});
  std::unique_ptr<Link> a_, b_;
  Export here_exported_, there_exported_;
};

TEST_F(FabricLink, PayloadTakesItOnceItIsConnected) {
  ASSERT_TRUE(pump_until([&] { return takes_fabric(*a_, all()); })) << a_->explain(all()).text();
  ASSERT_TRUE(
      pump_until([&] { return takes_fabric(*b_, Transfer::of(there_, here_exported_.remote())); }));
  finish(a_->get(all()));
  EXPECT_EQ(here_, there_);
  EXPECT_EQ(a_->report().pulled_bytes, kSize);
  std::fill(here_.begin(), here_.end(), std::byte{5});
  finish(a_->put(all()));
  EXPECT_EQ(there_, here_);
  EXPECT_EQ(b_->report().pulled_bytes, kSize);
  EXPECT_EQ(b_->report().landed_bytes, kSize);
}

TEST_F(FabricLink, ShortRowsAndOtherMemoryTakeTheSocket) {
  ASSERT_TRUE(pump_until([&] { return takes_fabric(*a_, all()); }));
  Transfer rows = all();
  rows.rows = 100;
  rows.row_bytes = 1000;
  rows.local_stride = rows.remote_stride = 1001;
  EXPECT_FALSE(takes_fabric(*a_, rows));
  finish(a_->get(rows));
  std::vector<std::byte> other(1000, std::byte{9});
  finish(a_->put(Transfer::of(other, there_exported_.remote(), 7)));
  EXPECT_EQ(there_[1006], std::byte{9});
  EXPECT_EQ(a_->report().pulled_bytes + b_->report().pulled_bytes, 0u);
}

TEST_F(FabricLink, AProviderThatIsNotThereIsSaid) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
  const Fd other(ends[1]);
  const auto none = make_fabric_link(ends[0], "no_such_provider");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Code::unsupported);
  EXPECT_FALSE(none.error().hint.empty());
}

// A far end that speaks the wire by hand; see also link/socket/hostile_test.cpp.
class FabricStranger : public testing::Test {
 protected:
  using Kind = LinkRecord::Kind;
  void SetUp() override { connect(); }
  void connect(bool falls_back = true) {
    std::array<int, 2> ends{};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
    raw_.reset(ends[0]);
    auto link = make_fabric_link(ends[1], "tcp",
                                 {.peer = "mallory", .stall_limit = {}, .falls_back = falls_back});
    if (!link && link.error().code == Code::unsupported) GTEST_SKIP() << link.error().message;
    link_ = *std::move(link);
    exported_ = *link_->export_memory(memory_, RemoteAccess::write);
    LinkRecord::Encoded head{};
    ASSERT_EQ(::recv(raw_.get(), head.data(), head.size(), 0), 96);
    hello_.resize(LinkRecord::decode(head)->payload_bytes());
    ASSERT_EQ(::recv(raw_.get(), hello_.data(), hello_.size(), 0),
              static_cast<ssize_t>(hello_.size()));
  }
  void say(const LinkRecord& record, ConstByteSpan payload = {}) {
    const auto head = record.encode();
    static_cast<void>(!::send(raw_.get(), head.data(), head.size(), MSG_NOSIGNAL));
    static_cast<void>(!::send(raw_.get(), payload.data(), payload.size(), MSG_NOSIGNAL));
  }
  void say_hello(ConstByteSpan words) {
    say({.kind = Kind::hello, .rows = 1, .row_bytes = words.size()}, words);
  }
  void say_where_nothing_listens(bool falls_back) {
    do {
      connect(falls_back);
    } while (hello_[7] == std::byte{0xff});
    hello_[7] = std::byte{0xff};                   // the end with the smaller secret connects
    hello_[8 + 2] = hello_[8 + 3] = std::byte{0};  // port 0
    say_hello(hello_);
  }
  void expect_ends() {
    while (link_->poll()) continue;
    ASSERT_FALSE(link_->state());
    EXPECT_EQ(link_->state().error().code, Code::peer_misbehaved);
    EXPECT_EQ(memory_, std::vector<std::byte>(1000));
  }

  Fd raw_;
  std::vector<std::byte> hello_;
  std::vector<std::byte> memory_ = std::vector<std::byte>(1000);
  std::unique_ptr<Link> link_;
  Export exported_;
};

TEST_F(FabricStranger, AnInvitationThatIsNoneIsRefused) {
  say_hello(hello_);  // our own secret
  expect_ends();
  for (const std::size_t size : {std::size_t{1}, hello_.size() - 1, hello_.size() + 1}) {
    connect();
    std::vector<std::byte> other(size, std::byte{1});
    say_hello(other);
    expect_ends();
  }
  connect();
  hello_[0] ^= std::byte{1};
  say_hello(hello_);
  say_hello(hello_);
  expect_ends();
}

TEST_F(FabricStranger, WhereNothingListensNothingIsLostButTheWay) {
  say_where_nothing_listens(true);
  const Transfer transfer = Transfer::of(memory_, {1, 1000, RemoteAccess::read_write});
  for (const Deadline deadline = Deadline::after(std::chrono::seconds(60));
       link_->explain(transfer).text().find("lost") == std::string::npos && !deadline.passed();)
    link_->poll();
  EXPECT_NE(link_->explain(transfer).text().find("lost"), std::string::npos);
  EXPECT_TRUE(link_->state());
}

TEST_F(FabricStranger, ALinkThatMayNotFallBackEndsWithItsWay) {
  say_where_nothing_listens(false);
  const Deadline limit = Deadline::after(std::chrono::seconds(60));
  while (link_->state() && !limit.passed()) link_->poll();
  ASSERT_FALSE(link_->state());
  EXPECT_EQ(link_->state().error().code, Code::peer_gone) << link_->state().error().message;
  EXPECT_FALSE(link_->capabilities().pulls);
}

TEST_F(FabricStranger, PullsGoNowhereWithoutAConnection) {
  const LinkRecord share{.kind = Kind::share, .key = 5, .row_bytes = 1000};
  LinkRecord put{.kind = Kind::put_pulled, .ticket = 3, .key = exported_.remote().key};
  put.rows = 1;
  put.row_bytes = 1000;
  put.source_key = 5;
  say(share);
  say(put);
  while (link_->poll()) continue;
  EXPECT_TRUE(link_->state());
  LinkRecord::Encoded head{};
  ASSERT_EQ(::recv(raw_.get(), head.data(), head.size(), 0), 96);
  const auto done = LinkRecord::decode(head);
  ASSERT_TRUE(done);
  EXPECT_EQ(done->kind, Kind::done);
  EXPECT_EQ(done->status, LinkStatus::lost);
  put.source_offset = 1;
  say(put);
  expect_ends();
  connect();
  say(share);
  say(share);
  expect_ends();
}

}  // namespace
}  // namespace gantry
