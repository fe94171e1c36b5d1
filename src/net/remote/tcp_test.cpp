// Hosts with several addresses, and names that nobody resolves. What a name means is said by a name
// service of this test; the addresses are those of the loopback network.
#include "net/remote/tcp.hpp"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <latch>
#include <thread>

#include "core/base/event.hpp"
#include "core/channel/test_support.hpp"

namespace gantry {
namespace {

using test::soon;
using testing::HasSubstr;

Deadline a_moment() {
  return Deadline::after(std::chrono::milliseconds(60));
}

/// What the names of this test mean, and how long they take.
struct Names {
  std::vector<std::string> addresses;
  std::latch* answers_after = nullptr;
  std::atomic<int> asked = 0;
};
Names* names = nullptr;
std::atomic<int> answered = 0;

int resolve(const char* /*host*/, const char* port, const addrinfo* wanted, addrinfo** found) {
  ++names->asked;
  if (names->answers_after != nullptr) names->answers_after->wait();
  *found = nullptr;
  for (auto one = names->addresses.rbegin(); one != names->addresses.rend(); ++one) {
    addrinfo* next = nullptr;
    EXPECT_EQ(::getaddrinfo(one->c_str(), port, wanted, &next), 0);
    next->ai_next = *found;
    *found = next;
  }
  const bool is_known = *found != nullptr;
  ++answered;  // from here on its test may end
  answered.notify_all();
  return is_known ? 0 : EAI_NONAME;
}

/// A listener whose queue is full: whoever calls it waits, as for a host that is down.
class DeafAddress {
 public:
  DeafAddress(const char* address, std::uint16_t port) {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_port = htons(port);
    ::inet_pton(AF_INET, address, &at.sin_addr);
    auto* const words = reinterpret_cast<sockaddr*>(&at);
    EXPECT_EQ(::bind(listener_.get(), words, sizeof at), 0);
    EXPECT_EQ(::listen(listener_.get(), 0), 0);
    for (Fd& caller : callers_) {
      caller.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      static_cast<void>(::connect(caller.get(), words, sizeof at));
    }
  }

 private:
  const Fd listener_{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  std::array<Fd, 4> callers_;
};

class TcpAddresses : public testing::Test {
 protected:
  void SetUp() override { names = &names_; }

  [[nodiscard]] static Result<Fd> call(const std::string& host, Deadline deadline,
                                       int interrupt = -1) {
    return connect_tcp(parse_host(host).value(), interrupt, deadline, &resolve);
  }
  /// A host whose addresses are all asked at the listener's port.
  [[nodiscard]] std::string host_with(std::vector<std::string> addresses) {
    names_.addresses = std::move(addresses);
    return fmt::format("some.host:{}", port_);
  }

  Names names_;
  const Fd listener_ = listen_tcp(parse_host("127.0.0.1:0").value()).value();
  const std::string listens_at_ = own_address(listener_.get());
  const std::uint16_t port_ =
      static_cast<std::uint16_t>(std::stoi(listens_at_.substr(listens_at_.rfind(':') + 1)));
};

TEST_F(TcpAddresses, ADeadFirstAddressLeavesTimeForTheNext) {
  const DeafAddress first("127.0.0.2", port_), second("127.0.0.3", port_);
  const auto socket = call(host_with({"127.0.0.2", "127.0.0.3", "127.0.0.1"}), soon());
  ASSERT_TRUE(socket) << to_string(socket.error());
  EXPECT_EQ(peer_address(socket->get()), listens_at_);
}

TEST_F(TcpAddresses, AnAddressThatRefusesIsFollowedByTheNext) {
  const auto socket = call(host_with({"127.0.0.4", "127.0.0.1"}), soon());
  ASSERT_TRUE(socket) << to_string(socket.error());
  EXPECT_EQ(peer_address(socket->get()), listens_at_);
}

TEST_F(TcpAddresses, WhereNoneAnswersTheDeadlineHolds) {
  const DeafAddress first("127.0.0.2", port_);
  const Deadline deadline = a_moment();
  const auto none = call(host_with({"127.0.0.4", "127.0.0.2"}), deadline);
  ASSERT_FALSE(none);
  EXPECT_TRUE(deadline.passed());
  EXPECT_EQ(none.error().code, Code::timed_out) << to_string(none.error());
  EXPECT_THAT(none.error().message, HasSubstr("some.host"));
}

TEST_F(TcpAddresses, WhereAllRefuseThatIsSaidAtOnce) {
  const auto none = call(host_with({"127.0.0.4", "127.0.0.5"}), Deadline::never());
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Code::not_found) << to_string(none.error());
  EXPECT_THAT(none.error().message, HasSubstr("refused"));
  EXPECT_THAT(none.error().hint, HasSubstr("start a bridge there"));
}

TEST_F(TcpAddresses, WhereNoNetworkLeadsNoBridgeIsToBeStarted) {
  const auto none = call(host_with({"255.255.255.255"}), Deadline::never());  // none for TCP
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Code::not_found) << to_string(none.error());
  EXPECT_THAT(none.error().hint, HasSubstr("see whether the address is right"));
}

TEST_F(TcpAddresses, ANameThatDoesNotExistIsSaid) {
  const auto none = call(host_with({}), Deadline::never());
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Code::not_found) << to_string(none.error());
}

// All of these come back while the name service has not answered; one thread has asked it.
TEST_F(TcpAddresses, ANameServiceThatHangsIsLeftBehind) {
  const int before = answered;
  std::latch answers(1);
  names_.answers_after = &answers;
  const std::string host = host_with({"127.0.0.1"});
  const Deadline deadline = a_moment();
  const auto late = call(host, deadline);
  ASSERT_FALSE(late);
  EXPECT_TRUE(deadline.passed());
  EXPECT_EQ(late.error().code, Code::timed_out) << to_string(late.error());
  EXPECT_THAT(late.error().message, HasSubstr("'some.host'"));

  const Fd interrupt = make_event().value();
  ring(interrupt.get());
  EXPECT_EQ(call(host, Deadline::never(), interrupt.get()).error().code, Code::interrupted);
  EXPECT_EQ(names_.asked, 1);

  answers.count_down();
  answered.wait(before);
  const auto socket = call(host, soon());
  EXPECT_TRUE(socket) << to_string(socket.error());
}

TEST_F(TcpAddresses, AnAddressNeedsNoNameService) {
  EXPECT_TRUE(call(listens_at_, soon()));
  EXPECT_EQ(names_.asked, 0);
}

}  // namespace
}  // namespace gantry
