// A bridge that strangers call: it serves its honest callers, and nothing of a stranger stays.
#include <gmock/gmock.h>

#include "net/remote/admission.hpp"
#include "net/remote/bridge/test_remote.hpp"

namespace gantry {
namespace {

using test::pattern;
using test::same;
using test::soon;

class AttackedBridge : public test::TwoHosts {
 protected:
  [[nodiscard]] Producer make_out() const {
    ProducerOptions options = there();
    options.consumers = 2;
    return test::make_producer("frames", options).value();
  }
  [[nodiscard]] Fd stranger() const {
    return connect_tcp(parse_host(bridge_->address()).value(), -1, soon()).value();
  }
  [[nodiscard]] std::vector<Fd> strangers(std::size_t count) const {
    std::vector<Fd> all;
    while (all.size() < count) all.push_back(stranger());
    return all;
  }
  /// Waits until the bridge has closed that connection.
  static void await_end_of(const Fd& socket) {
    std::vector<std::byte> hello(36);
    static_cast<void>(receive_exactly(socket.get(), hello, -1, soon()));
    std::array<std::byte, 64> more{};
    const auto got = receive_exactly(socket.get(), more, -1, soon());
    ASSERT_FALSE(got);
    EXPECT_EQ(got.error().code, Code::peer_gone) << to_string(got.error());
  }
  /// A message of another host's consumer, whole.
  void expect_serves(Producer& out, std::uint64_t seed) {
    auto in = consume(name("frames"));
    ASSERT_TRUE(in) << to_string(in.error());
    ASSERT_TRUE(out.send(pattern(200'000, seed), {.deadline = soon()}));
    const auto message = in->receive(soon());
    ASSERT_TRUE(message) << to_string(message.error());
    EXPECT_TRUE(same(message->bytes(), pattern(200'000, seed)));
  }
};

TEST_F(AttackedBridge, ServesAmongTwoHundredThatSayNothing) {
  auto out = make_out();
  const std::vector<Fd> silent = strangers(200);
  expect_serves(out, 1);
  for (std::size_t i = 0; i < 100; ++i) await_end_of(silent[i]);  // the oldest had to go
}

TEST_F(AttackedBridge, ServesAmongThoseThatSayNonsense) {
  auto out = make_out();
  auto in = consume(name("frames")).value();
  for (std::uint64_t i = 0; i < 60; ++i) {
    const Fd one = stranger();
    const auto nonsense = pattern(i % 3 == 0 ? 5000 : i, i);
    static_cast<void>(send_exactly(one.get(), nonsense, soon()));
    if (i % 2 == 0) continue;  // closes at once
    ASSERT_TRUE(out.send(pattern(20'000, i), {.deadline = soon()}));
    const auto message = in.receive(soon());
    ASSERT_TRUE(message) << to_string(message.error());
    EXPECT_TRUE(same(message->bytes(), pattern(20'000, i)));
  }
  expect_serves(out, 1);
}

TEST_F(AttackedBridge, KeepsNothingOfItsCallers) {
  {
    auto out = make_out();
    expect_serves(out, 1);  // what is opened once stays open
    stop_bridge();
  }
  const std::size_t before = test::open_descriptors();
  start_bridge("127.0.0.1:0");
  {
    const std::vector<Fd> silent = strangers(50);
    for (std::uint64_t i = 0; i < 50; ++i) {
      const Fd one = stranger();
      static_cast<void>(send_exactly(one.get(), pattern(i * 5, i), soon()));
    }
    stop_bridge();
    EXPECT_EQ(test::open_descriptors(), before + silent.size());
  }
  EXPECT_EQ(test::open_descriptors(), before);
}

TEST_F(AttackedBridge, TellsAStrangerWithAnotherTokenSo) {
  auto out = make_out();
  ProducerOptions options = here();
  options.remote.token = "another token of 29 character";
  const auto in = open_remote_consumer(name("frames").text(), test::consumer_options(options),
                                       std::make_shared<test::PlainEngine>(), soon());
  ASSERT_FALSE(in);
  EXPECT_EQ(in.error().code, Code::permission_denied) << to_string(in.error());
  EXPECT_TRUE(here_.is_empty());
  expect_serves(out, 1);
}

// A caller with the token asks for sessions that are another's or none, again and again.
TEST_F(AttackedBridge, HandsNoSessionToWhoDoesNotKnowItsNumber) {
  auto out = make_out();
  auto in = consume(name("frames")).value();
  for (std::uint64_t i = 0; i < 20; ++i) {
    RemoteRequest request;
    request.channel = "frames";
    std::ranges::copy(pattern(request.session.size(), i), request.session.begin());
    const Fd one = stranger();
    const auto answer = call_bridge(one.get(), test::kToken, request, -1, soon());
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().code, Code::permission_denied) << to_string(answer.error());
  }
  ASSERT_TRUE(out.send(pattern(20'000, 1), {.deadline = soon()}));
  const auto message = in.receive(soon());
  ASSERT_TRUE(message) << to_string(message.error());
  EXPECT_TRUE(same(message->bytes(), pattern(20'000, 1)));
}

}  // namespace
}  // namespace gantry
