#include "net/remote/admission.hpp"

#include <gmock/gmock.h>
#include <sys/socket.h>

#include <functional>
#include <gantry/channel.hpp>
#include <thread>

#include "core/base/event.hpp"
#include "core/channel/test_support.hpp"
#include "net/remote/tcp.hpp"

// Both parts of an admission, each against the other one and against whoever speaks by hand.
namespace gantry {
namespace {

using test::soon;

constexpr std::string_view kRight = "the right token of 33 characters.";
constexpr std::string_view kOther = "the wrong token of 33 characters.";
constexpr std::size_t kHelloBytes = 36;       // magic, nonce
constexpr std::size_t kCallerHeadBytes = 72;  // magic, nonce, proof, size
constexpr std::size_t kProofAt = 36;          // in it
constexpr std::size_t kCallerSizeAt = 68;
using Bytestring = std::vector<std::byte>;

// Of a bridge whose nonce is all nines.
Bytestring some_hello() {
  Bytestring hello(kHelloBytes, std::byte{9});
  store_number(hello.data(), 0x39'52'42'47, 4);
  return hello;
}

Deadline shortly() {
  return Deadline::after(std::chrono::milliseconds(30));
}

RemoteRequest some_request() {
  RemoteRequest request;
  request.role = RemoteRole::deliver;
  request.session[3] = std::byte{4};
  request.channel = "frames.7";
  request.who = {"gpu2", "python3 score.py", "score", 1, 4};
  request.when_slow = SlowConsumer::drop_oldest;
  request.depth = 3;
  request.slots = 64;
  request.consumers = 32;
  request.received = std::uint64_t{1} << 40;
  request.paths = bit_of(RemotePath::stream) | bit_of(RemotePath::shared);
  request.stall_limit = std::chrono::milliseconds(12'345);
  return request;
}

void expect_equal(const RemoteRequest& left, const RemoteRequest& right) {
  EXPECT_EQ(left.role, right.role);
  EXPECT_EQ(left.session, right.session);
  EXPECT_EQ(left.channel, right.channel);
  EXPECT_EQ(left.who, right.who);
  EXPECT_EQ(left.when_slow, right.when_slow);
  EXPECT_EQ(left.depth, right.depth);
  EXPECT_EQ(left.slots, right.slots);
  EXPECT_EQ(left.consumers, right.consumers);
  EXPECT_EQ(left.received, right.received);
  EXPECT_EQ(left.paths, right.paths);
  EXPECT_EQ(left.stall_limit, right.stall_limit);
}

class RemoteAdmission : public ::testing::Test {
 protected:
  void SetUp() override {
    if (auto able = check_token(kRight); !able) GTEST_SKIP() << to_string(able.error());
    connect();
  }
  void connect() {
    std::array<int, 2> ends{};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
    bridge_.reset(ends[0]);
    caller_.reset(ends[1]);
  }
  [[nodiscard]] Result<RemoteAnswer> call(std::string_view token, Deadline deadline = soon()) {
    return call_bridge(caller_.get(), token, some_request(), -1, deadline);
  }
  static Bytestring receive(const Fd& socket, std::size_t size) {
    Bytestring bytes(size);
    EXPECT_TRUE(receive_exactly(socket.get(), bytes, -1, soon()));
    return bytes;
  }
  static void send(const Fd& socket, ConstByteSpan bytes) {
    EXPECT_TRUE(send_exactly(socket.get(), bytes, soon()));
  }
  /// What a caller with the right token said to a bridge's hello.
  [[nodiscard]] Bytestring recorded_call() {
    connect();
    std::jthread caller([this] { static_cast<void>(call(kRight)); });
    send(bridge_, some_hello());
    auto said = receive(bridge_, kCallerHeadBytes + some_request().encode().size());
    ::shutdown(bridge_.get(), SHUT_RDWR);
    return said;
  }
  /// What a bridge with the right token makes of these words of a caller. They are sent at once;
  /// nothing follows.
  [[nodiscard]] Error error_of_hearing(ConstByteSpan words, Deadline deadline = soon()) {
    connect();
    send(caller_, words);
    ::shutdown(caller_.get(), SHUT_WR);
    const auto heard = Admission(bridge_.get(), kRight).hear(deadline);
    EXPECT_FALSE(heard);
    return heard ? Error{} : heard.error();
  }
  /// What a caller with the right token makes of a bridge that answers so.
  [[nodiscard]] Error error_of_calling(const std::function<Bytestring(ConstByteSpan)>& answer) {
    connect();
    std::jthread bridge([&] {
      send(bridge_, some_hello());
      send(bridge_, answer(receive(bridge_, kCallerHeadBytes + some_request().encode().size())));
      ::shutdown(bridge_.get(), SHUT_WR);
    });
    const auto answered = call(kRight);
    EXPECT_FALSE(answered);
    return answered ? Error{} : answered.error();
  }

  Fd bridge_;
  Fd caller_;
};

TEST_F(RemoteAdmission, WithTheRightTokenBothLearnWhatTheOtherSays) {
  Result<RemoteAnswer> answered;
  std::jthread caller([&] { answered = call(kRight); });
  Admission admission(bridge_.get(), kRight);
  const auto request = admission.hear(soon());
  ASSERT_TRUE(request) << to_string(request.error());
  expect_equal(*request, some_request());
  RemoteAnswer answer;
  answer.session[15] = std::byte{1};
  answer.received = 99;
  answer.path = RemotePath::shared;
  EXPECT_TRUE(admission.answer(answer, soon()));
  caller.join();
  ASSERT_TRUE(answered) << to_string(answered.error());
  EXPECT_EQ(answered->session, answer.session);
  EXPECT_EQ(answered->received, 99u);
  EXPECT_EQ(answered->path, RemotePath::shared);
}

TEST_F(RemoteAdmission, APathThatWasNotOfferedIsNoAnswer) {
  for (const RemotePath path : {RemotePath::automatic, RemotePath::fabric}) {
    connect();
    Result<RemoteAnswer> answered;
    std::jthread caller([&] { answered = call(kRight); });
    Admission admission(bridge_.get(), kRight);
    ASSERT_TRUE(admission.hear(soon()));
    RemoteAnswer answer;
    answer.path = path;
    EXPECT_TRUE(admission.answer(answer, soon()));
    caller.join();
    ASSERT_FALSE(answered);
    EXPECT_EQ(answered.error().code, Code::peer_misbehaved);
  }
}

TEST_F(RemoteAdmission, ARefusalIsTheCallersError) {
  Result<RemoteAnswer> answered;
  std::jthread caller([&] { answered = call(kRight); });
  Admission admission(bridge_.get(), kRight);
  ASSERT_TRUE(admission.hear(soon()));
  RemoteAnswer answer;
  answer.refusal = Error{Code::busy, "it has 256 sessions", "start it with more"};
  EXPECT_TRUE(admission.answer(answer, soon()));
  caller.join();
  ASSERT_FALSE(answered);
  EXPECT_EQ(answered.error().code, Code::busy);
  EXPECT_EQ(to_string(answered.error()), "bridge: it has 256 sessions; start it with more");
}

TEST_F(RemoteAdmission, AnotherTokenIsToldToBoth) {
  Result<RemoteAnswer> answered;
  std::jthread caller([&] { answered = call(kOther); });
  const auto heard = Admission(bridge_.get(), kRight).hear(soon());
  caller.join();
  ASSERT_FALSE(heard);
  EXPECT_EQ(heard.error().code, Code::permission_denied);
  ASSERT_FALSE(answered);
  EXPECT_EQ(answered.error().code, Code::permission_denied);
  EXPECT_FALSE(answered.error().hint.empty());
}

// ---- who speaks by hand --------------------------------------------------------------------

TEST_F(RemoteAdmission, ABridgeThatSendsTheCallersOwnProofBackIsRefused) {
  const Error error = error_of_calling([](ConstByteSpan said) {
    WordWriter out;
    out.bytes(said.subspan(kCallerSizeAt, 4));
    out.bytes(said.subspan(kProofAt, sizeof(Proof)));
    out.bytes(said.subspan(kCallerHeadBytes));
    return out.take();
  });
  EXPECT_EQ(error.code, Code::permission_denied) << to_string(error);
}

TEST_F(RemoteAdmission, ABridgeThatDoesNotKnowTheTokenIsRefused) {
  const Nonce bridges = [] {
    Nonce nonce;
    nonce.fill(std::byte{9});
    return nonce;
  }();
  for (const std::string_view token : {kOther, kRight})
    for (const unsigned flipped : {0u, 1u}) {
      if (token == kRight && flipped == 0) continue;  // that one is a bridge
      const Error error = error_of_calling([&](ConstByteSpan said) {
        Nonce callers;
        std::ranges::copy(said.subspan(4, sizeof callers), callers.begin());
        auto words = RemoteAnswer{}.encode();
        const Proof proof = prove(token, "gantry bridge", bridges, callers, words);
        words.back() ^= static_cast<std::byte>(flipped);  // changed on its way
        WordWriter out;
        out.number(words.size(), 4);
        out.bytes(proof);
        out.bytes(words);
        return out.take();
      });
      EXPECT_EQ(error.code, Code::permission_denied) << to_string(error);
    }
}

TEST_F(RemoteAdmission, ACallThatIsPlayedBackIsRefused) {
  const Bytestring said = recorded_call();
  EXPECT_EQ(error_of_hearing(said).code, Code::permission_denied);
}

TEST_F(RemoteAdmission, ACallThatIsChangedOnItsWayIsRefused) {
  for (std::size_t at = 0; at < kCallerHeadBytes + some_request().encode().size(); ++at) {
    connect();
    std::jthread caller([this] { static_cast<void>(call(kRight)); });
    std::array<int, 2> ends{};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
    const Fd near(ends[0]);
    Fd far(ends[1]);
    std::jthread between([&] {
      send(bridge_, receive(near, kHelloBytes));
      auto said = receive(bridge_, kCallerHeadBytes + some_request().encode().size());
      said[at] ^= std::byte{1};
      send(near, said);
      ::shutdown(near.get(), SHUT_WR);
    });
    const auto heard = Admission(far.get(), kRight).hear(soon());
    between.join();
    ::shutdown(bridge_.get(), SHUT_RDWR);
    caller.join();
    ASSERT_FALSE(heard) << at;
    const bool is_framing = at < 4 || (at >= kCallerSizeAt && at < kCallerHeadBytes);
    const Code code = heard.error().code;
    EXPECT_TRUE(code == Code::permission_denied ||
                (is_framing && (code == Code::peer_misbehaved || code == Code::peer_gone)))
        << at << ": " << to_string(heard.error());
  }
}

TEST_F(RemoteAdmission, SilenceEndsAtTheDeadline) {
  EXPECT_EQ(call(kRight, shortly()).error().code, Code::timed_out);  // no hello
  EXPECT_EQ(Admission(bridge_.get(), kRight).hear(shortly()).error().code, Code::timed_out);
  EXPECT_EQ(call(kRight, shortly()).error().code, Code::timed_out);  // a hello, no answer
  const Fd event = *make_event();
  ring(event.get());
  connect();
  EXPECT_EQ(call_bridge(caller_.get(), kRight, some_request(), event.get(), soon()).error().code,
            Code::interrupted);
}

TEST_F(RemoteAdmission, HalfAMessageIsNone) {
  const Bytestring said = recorded_call();
  for (std::size_t size = 0; size < said.size(); ++size) {
    const Error error = error_of_hearing(ConstByteSpan(said).first(size));
    EXPECT_EQ(error.code, Code::peer_gone) << size << ": " << to_string(error);
  }
  connect();
  send(caller_, ConstByteSpan(said).first(kCallerHeadBytes + 1));  // and nobody closes
  EXPECT_EQ(Admission(bridge_.get(), kRight).hear(shortly()).error().code, Code::timed_out);
  for (const std::size_t size : {0u, 1u, 4u, 5u, 36u, 37u}) {
    const Error error = error_of_calling([&](ConstByteSpan) {
      Bytestring answer(size);
      if (size > 0) answer[0] = std::byte{17};
      return answer;
    });
    EXPECT_EQ(error.code, Code::peer_gone) << size << ": " << to_string(error);
  }
}

TEST_F(RemoteAdmission, GarbageAndHugeSizesAreNoMessage) {
  EXPECT_EQ(error_of_hearing(test::pattern(5000, 1)).code, Code::peer_misbehaved);
  EXPECT_EQ(
      error_of_hearing(std::as_bytes(std::span("GET / HTTP/1.1\r\nHost: camera\r\n"
                                               "User-Agent: one that has never been ours\r\n\r\n")))
          .code,
      Code::peer_misbehaved);
  Bytestring said = recorded_call();
  for (const std::uint64_t size : {std::uint64_t{RemoteRequest::kMostBytes} + 1,
                                   std::uint64_t{0x7fff'ffff}, std::uint64_t{0xffff'ffff}}) {
    store_number(&said[kCallerSizeAt], size, 4);
    EXPECT_EQ(error_of_hearing(said).code, Code::peer_misbehaved) << size;
    if (size == 0xffff'ffff) continue;  // in an answer: another token
    const Error error = error_of_calling([&](ConstByteSpan) {
      WordWriter answer;
      answer.number(std::max<std::uint64_t>(size, RemoteAnswer::kMostBytes + 1), 4);
      answer.bytes(Bytestring(3000));
      return answer.take();
    });
    EXPECT_EQ(error.code, Code::peer_misbehaved) << size;
  }
  connect();
  send(bridge_, test::pattern(5000, 2));
  EXPECT_EQ(call(kRight).error().code, Code::peer_misbehaved);
}

// ---- requests and answers ------------------------------------------------------------------

TEST(RemoteRequest, ComesBackOrIsRefused) {
  const auto words = some_request().encode();
  EXPECT_LE(words.size(), RemoteRequest::kMostBytes);
  expect_equal(RemoteRequest::decode(words).value(), some_request());
  for (std::size_t size = 0; size < words.size(); ++size)
    EXPECT_EQ(RemoteRequest::decode(ConstByteSpan(words).first(size)).error().code,
              Code::peer_misbehaved);
  for (std::size_t at = 0; at < words.size(); ++at)
    for (unsigned value = 0; value < 256; ++value) {
      auto changed = words;
      changed[at] = static_cast<std::byte>(value);
      const auto request = RemoteRequest::decode(changed);
      if (request) {
        EXPECT_TRUE(request->role >= RemoteRole::consume && request->role <= RemoteRole::call);
        EXPECT_LE(request->when_slow, SlowConsumer::drop_oldest);
        EXPECT_TRUE(check_channel_name(request->channel));
        EXPECT_LE(request->slots, PayloadOptions::kMaxSlots);
        EXPECT_LE(request->depth, PayloadOptions::kMaxSlots);
        EXPECT_LE(request->consumers, ProducerOptions::kMaxConsumers);
        auto told = changed;  // whose end it is goes to terminals
        if (request->encode() != told && (value < 0x20 || value >= 0x7f)) told[at] = std::byte{'?'};
        EXPECT_EQ(request->encode(), told);
      } else {
        EXPECT_EQ(request.error().code, Code::peer_misbehaved);
      }
    }
  auto longer = words;
  longer.push_back({});
  EXPECT_FALSE(RemoteRequest::decode(longer));
}

TEST(RemoteAnswer, ComesBackOrIsRefused) {
  RemoteAnswer refusal;
  refusal.refusal = Error{Code::busy, "message", "hint"};
  for (const RemoteAnswer& answer :
       {RemoteAnswer{{}, {std::byte{1}}, 77, RemotePath::shared}, refusal}) {
    auto words = answer.encode();
    const auto back = RemoteAnswer::decode(words).value();
    EXPECT_EQ(back.encode(), words);
    for (std::size_t size = 0; size < words.size(); ++size)
      EXPECT_EQ(RemoteAnswer::decode(ConstByteSpan(words).first(size)).error().code,
                Code::peer_misbehaved);
    words.push_back({});
    EXPECT_FALSE(RemoteAnswer::decode(words));
  }
  refusal.refusal = Error{Code::build_failed, std::string(9999, 'm'), std::string(9999, 'h')};
  EXPECT_LE(refusal.encode().size(), RemoteAnswer::kMostBytes);
  EXPECT_TRUE(RemoteAnswer::decode(refusal.encode()));
}

}  // namespace
}  // namespace gantry
