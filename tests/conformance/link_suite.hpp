#pragma once  // link_suite.hpp: what the suite's files share: two ends in one process.

#include <algorithm>
#include <cstring>
#include <vector>

#include "core/base/test_bytes.hpp"
#include "links.hpp"

namespace gantry {

inline constexpr Bytes kMiB = Bytes{1} << 20;

// A guard against hanging, not a measure: no test depends on how long anything takes.
inline Deadline patience() {
  return Deadline::after(std::chrono::seconds(60));
}

inline std::vector<std::byte> some_bytes(Bytes size, std::uint64_t seed) {
  return test::random_bytes(size, seed);
}

inline ByteSpan bytes_of(const Region& region) {
  return {region.data(), region.size()};
}
inline void fill(ByteSpan to, std::uint64_t seed) {
  const auto bytes = some_bytes(std::min<Bytes>(to.size(), 65536 + 13), seed);
  for (Bytes at = 0; at < to.size(); at += bytes.size())
    std::memcpy(to.data() + at, bytes.data(), std::min(bytes.size(), to.size() - at));
}
inline bool are_equal(ConstByteSpan one, ConstByteSpan other) {
  return test::same(one, other);
}

class LinkConformance : public testing::TestWithParam<LinkCase> {
 protected:
  void SetUp() override { connect({}); }

  void connect(const LinkOptions& options) {
    SocketPair sockets = GetParam().connect();
    auto one = GetParam().make(sockets[0].release(), options);
    auto other = GetParam().make(sockets[1].release(), options);
    ASSERT_TRUE(one) << to_string(one.error());
    ASSERT_TRUE(other) << to_string(other.error());
    a_ = *std::move(one);
    b_ = *std::move(other);
    const auto is_ready = [](const Link& link) {  // payload takes its own way
      return link.explain({}).text().find("not connected yet") == std::string::npos;
    };
    ASSERT_TRUE(pump_until([&] { return is_ready(*a_) && is_ready(*b_); }));
  }

  /// Both ends get on, in turns and in one thread, until it is so.
  template <class IsSo>
  [[nodiscard]] bool pump_until(IsSo is_so) {
    for (const Deadline deadline = patience(); !is_so();) {
      a_->poll();
      b_->poll();
      if (deadline.passed()) return false;
    }
    return true;
  }
  [[nodiscard]] Result<void> finish(Link& link, Ticket ticket) {
    EXPECT_TRUE(pump_until([&] { return link.outcome(ticket) != Outcome::pending; }));
    return link.wait(ticket, Deadline::now());
  }
  [[nodiscard]] Result<void> put(const Transfer& transfer) {
    const auto ticket = a_->put(transfer);
    if (!ticket) return tl::unexpected(ticket.error());
    return finish(*a_, *ticket);
  }
  [[nodiscard]] Result<void> get(const Transfer& transfer) {
    const auto ticket = a_->get(transfer);
    if (!ticket) return tl::unexpected(ticket.error());
    return finish(*a_, *ticket);
  }
  /// After it the other end knows all that was done before.
  void settle() {
    const std::byte word{7};
    std::array<std::byte, 8> into{};
    for (Link* const from : {a_.get(), b_.get()}) {
      Link& to = from == a_.get() ? *b_ : *a_;
      ASSERT_TRUE(from->send_control({&word, 1}, patience()));
      ASSERT_TRUE(to.receive_control(into, patience()));
    }
  }
  static Code code_of(const Result<Ticket>& result) {
    return result ? Code::closed : result.error().code;
  }

  static Region region(Bytes size) { return *Region::create(size, "link-test", {PageKind::plain}); }

  std::unique_ptr<Link> a_, b_;
};

inline std::string name_of(const testing::TestParamInfo<LinkCase>& info) {
  return info.param.name;
}

}  // namespace gantry
