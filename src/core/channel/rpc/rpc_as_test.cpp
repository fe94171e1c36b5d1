#include <thread>

#include "core/base/half_float.hpp"
#include "core/channel/rpc/test_rpc.hpp"

// Calls whose payloads become another type on their way: they alone do, and what the two ends tell
// each other besides is as without it.
namespace gantry {
namespace {

using test::client_options;
using test::same;
using test::server_options;
using test::soon;

constexpr std::size_t kMostAsked = 300'000;

class ConvertedCalls : public test::Calls {
 protected:
  ConvertedCalls() {
    for (std::size_t i = 0; i < kMostAsked; ++i)
      floats_.push_back(static_cast<float>(i % 1'000) / 7 - 50);
  }
  [[nodiscard]] ConstByteSpan asked(std::size_t count) const {
    return std::as_bytes(std::span(floats_).first(count));
  }
  [[nodiscard]] std::vector<std::uint16_t> as_bf16(std::size_t count) const {
    std::vector<std::uint16_t> made;
    for (std::size_t i = 0; i < count; ++i) made.push_back(bf16_of_float(floats_[i]));
    return made;
  }
  [[nodiscard]] std::vector<double> as_f64(std::size_t count) const {
    return {floats_.begin(), floats_.begin() + static_cast<std::ptrdiff_t>(count)};
  }
  template <class T>
  static ConstByteSpan raw(const std::vector<T>& values) {
    return std::as_bytes(std::span(values));
  }
  Server serve() {
    ServerOptions options = server_options(channel_);
    options.replies.as = *As::parse("f32 -> bf16");
    return *Server::open("service", options, std::make_shared<test::PlainEngine>());
  }
  Client ask() {
    ClientOptions options = client_options(channel_);
    options.as = *As::parse("f32 -> f64");
    return *Client::connect("service", options, std::make_shared<test::PlainEngine>(), soon());
  }
  void expect_reply(PendingReply& pending, std::size_t count) {
    const auto reply = pending.wait(soon());
    ASSERT_TRUE(reply) << reply.error().message;
    EXPECT_TRUE(same(reply->bytes(), raw(as_bf16(count)))) << count;
  }

  std::vector<float> floats_;
};

TEST_F(ConvertedCalls, QuestionsAndAnswersBecomeWhatTheirEndsSay) {
  Server server = serve();
  Client client = ask();
  for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{1'000}, kMostAsked}) {
    auto pending = *client.call_async(asked(count), {.deadline = soon()});
    auto request = *server.next(soon());
    EXPECT_TRUE(same(request.message().bytes(), raw(as_f64(count))));
    ASSERT_TRUE(request.reply(asked(count)));
    expect_reply(pending, count);
    if (count == 0) continue;
    auto asked_with = *client.loan(4 * count, soon());
    std::ranges::copy(asked(count), asked_with.bytes().begin());
    pending = *client.call_async(std::move(asked_with), {.deadline = soon()});
    request = *server.next(soon());
    EXPECT_TRUE(same(request.message().bytes(), raw(as_f64(count))));
    auto answer = *request.loan(4 * count, soon());
    std::ranges::copy(asked(count), answer.bytes().begin());
    ASSERT_TRUE(request.reply(std::move(answer)));
    expect_reply(pending, count);
  }
}

// Of texts of every length, most of which are no whole number of f32.
TEST_F(ConvertedCalls, RefusalsAreToldAsTheyAre) {
  Server server = serve();
  Client client = ask();
  for (std::size_t length = 0; length < 200; ++length) {
    const std::string why(length, 'x');
    auto pending = *client.call_async(asked(5), {.deadline = soon()});
    auto request = *server.next(soon());
    const auto refused = request.refuse({Code::not_found, why, "ask for less"});
    ASSERT_TRUE(refused) << refused.error().message;
    const auto reply = pending.wait(soon());
    ASSERT_FALSE(reply);
    EXPECT_EQ(reply.error().code, Code::not_found);
    EXPECT_EQ(reply.error().message, to_string(Error{Code::not_found, why, "ask for less"}));
  }
}

TEST_F(ConvertedCalls, DroppedRequestsAndDroppedCallsAreToldToo) {
  Server server = serve();
  Client client = ask();
  auto dropped = *client.call_async(asked(5), {.deadline = soon()});
  *server.next(soon());
  EXPECT_EQ(outcome(dropped), Code::aborted);
  std::optional<PendingReply> unwanted(*client.call_async(asked(5), {.deadline = soon()}));
  auto request = *server.next(soon());
  unwanted.reset();
  while (!request.is_cancelled()) std::this_thread::yield();
  auto pending = *client.call_async(asked(9), {.deadline = soon()});
  ASSERT_TRUE(server.next(soon())->reply(asked(9)));
  expect_reply(pending, 9);
}

// An answer that cannot be converted is the server's error, and can be followed by another.
TEST_F(ConvertedCalls, AnAnswerThatIsNoneCanBeRefused) {
  Server server = serve();
  Client client = ask();
  auto pending = *client.call_async(asked(5), {.deadline = soon()});
  auto request = *server.next(soon());
  const auto replied = request.reply(asked(5).first(19));
  ASSERT_FALSE(replied);
  EXPECT_NE(replied.error().message.find("19 bytes are no whole number of f32"), std::string::npos);
  ASSERT_TRUE(request.refuse({Code::invalid_argument, "there is none", ""}));
  EXPECT_EQ(outcome(pending), Code::invalid_argument);
}

}  // namespace
}  // namespace gantry
