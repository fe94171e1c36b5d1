#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <gantry/link.hpp>
#include <vector>

#include "base/fd.hpp"

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

}  // namespace
}  // namespace gantry
