// Channels between hosts over TLS: what arrives, what shows on the way, who is turned away.
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>

#include "core/base/test_fork.hpp"
#include "net/remote/admission.hpp"
#include "net/remote/bridge/test_remote.hpp"
#include "net/remote/tls.hpp"

namespace gantry {
namespace {

using test::CutNetwork;
using test::expect_stream;
using test::kMiB;
using test::pattern;
using test::same;
using test::size_of_some;
using test::soon;
using testing::HasSubstr;

class RemoteTls : public test::TwoHosts {
 protected:
  void SetUp() override {
    if (auto able = check_tls(); !able) GTEST_SKIP() << to_string(able.error());
    if (auto able = check_token(test::kToken); !able) GTEST_SKIP() << to_string(able.error());
    start_bridge("tls:127.0.0.1:0");
  }
  /// The bridge's address without TLS.
  [[nodiscard]] std::string plain_address() const { return bridge_->address().substr(4); }
  [[nodiscard]] RemoteName through(const CutNetwork& network) const {
    return name("frames", "tls:" + network.address());
  }
  [[nodiscard]] Result<Producer> produce(const RemoteName& to) const {
    return open_remote_producer(to.text(), here(), std::make_shared<test::PlainEngine>());
  }
};

std::ptrdiff_t threads() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
}

TEST_F(RemoteTls, EachByteArrivesInBothDirections) {
  const std::vector<Bytes> sizes{0,     1,       64,       4000,     4034,
                                 65536, 131'073, kMiB - 1, kMiB + 1, 9 * kMiB + 7};
  auto out = test::make_producer("frames", there()).value();
  auto in = consume(name("frames")).value();
  auto back = produce(name("back")).value();
  auto home = Consumer::open("back", test::consumer_options(there()), soon()).value();
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    ASSERT_TRUE(out.send(pattern(sizes[i], i), {.deadline = soon()}));
    const auto message = in.receive(soon());
    ASSERT_TRUE(message) << to_string(message.error());
    ASSERT_TRUE(same(message->bytes(), pattern(sizes[i], i))) << sizes[i];
    ASSERT_TRUE(back.send(message->bytes(), {.deadline = soon()}));
    const auto returned = home.receive(soon());
    ASSERT_TRUE(returned) << to_string(returned.error());
    ASSERT_TRUE(same(returned->bytes(), pattern(sizes[i], i))) << sizes[i];
  }
  EXPECT_TRUE(out.close(soon()));
  EXPECT_EQ(in.receive(soon()).error().code, Code::closed);
  EXPECT_TRUE(back.close(soon()));
  EXPECT_EQ(home.receive(soon()).error().code, Code::closed);
  EXPECT_THAT(bridge_->address(), testing::StartsWith("tls:127.0.0.1:"));
  EXPECT_FALSE(has_said("without a word"));
}

// Many in flight, larger than all buffers on the way.
TEST_F(RemoteTls, AStreamArrivesInOrder) {
  auto out = produce(name("frames")).value();
  auto in = Consumer::open("frames", test::consumer_options(there()), soon()).value();
  const auto size = [](std::uint64_t i) { return Bytes{700'000} + 13 * i; };
  ASSERT_NO_FATAL_FAILURE(expect_stream(out, in, 60, size, [](std::uint64_t) {}));
}

TEST_F(RemoteTls, NothingOfAMessageShowsOnTheWay) {
  const std::string secret = "what nobody on the way may read";
  const auto shows = [&](const std::string& address, const std::string& before) {
    CutNetwork network(address);
    network.see();
    auto out = test::make_producer("frames", there()).value();
    {
      auto in = consume(name("frames", before + network.address())).value();
      EXPECT_TRUE(out.send(std::as_bytes(std::span(secret)), {.deadline = soon()}));
      EXPECT_TRUE(same(in.receive(soon())->bytes(), std::as_bytes(std::span(secret))));
      EXPECT_TRUE(out.close(soon()));
    }
    const auto& seen = network.seen();
    const auto words = std::as_bytes(std::span(secret));
    return std::search(seen.begin(), seen.end(), words.begin(), words.end()) != seen.end();
  };
  EXPECT_FALSE(shows(plain_address(), "tls:"));
  stop_bridge();
  start_bridge("127.0.0.1:0");
  EXPECT_TRUE(shows(bridge_->address(), "")) << "the search finds nothing";
}

// Wherever a bit is changed: the connection ends, and the next one brings what is missing.
TEST_F(RemoteTls, AChangedByteIsNeverDelivered) {
  CutNetwork network(plain_address());
  auto out = test::make_producer("frames", there()).value();
  auto in = consume(through(network)).value();
  ASSERT_NO_FATAL_FAILURE(expect_stream(out, in, 60, size_of_some, [&](std::uint64_t i) {
    if (i % 6 == 0) network.change_after(static_cast<std::int64_t>(1 + 7919 * i % 50'000));
  }));
  EXPECT_GT(network.changes(), 3);
  EXPECT_TRUE(has_said("a connection broke"));
  EXPECT_TRUE(has_said(": is back again, after "));
}

TEST_F(RemoteTls, AConsumerGoesOnWhereTheConnectionBroke) {
  CutNetwork network(plain_address());
  auto out = test::make_producer("frames", there()).value();
  auto in = consume(through(network)).value();
  ASSERT_NO_FATAL_FAILURE(expect_stream(out, in, 60, size_of_some, [&](std::uint64_t i) {
    if (i % 6 == 0) network.cut_after(static_cast<std::int64_t>(1 + 7919 * i % 100'000));
  }));
  EXPECT_GT(network.cuts(), 3);
}

// A child that was forked has copies of all sockets.
TEST_F(RemoteTls, ADeadPeerIsNoticedBesideAFork) {
  if (const char* const why = no_busy_fork()) GTEST_SKIP() << why;
  CutNetwork network(plain_address());
  patience_ = std::chrono::milliseconds(300);
  auto out = test::make_producer("frames", there()).value();
  auto in = consume(through(network)).value();
  ASSERT_TRUE(out.send(pattern(100, 1), {.deadline = soon()}));
  ASSERT_TRUE(in.receive(soon()));
  const pid_t child = ::fork();
  while (child == 0) ::pause();
  network.refuse(true);
  network.cut_after(0);
  const auto gone = in.receive(Deadline::after(std::chrono::seconds(20)));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  ASSERT_FALSE(gone);
  EXPECT_EQ(gone.error().code, Code::peer_gone) << "within the stall limit of 60 s";
}

// While it calls again, too: what looks like another token may be a changed byte.
TEST_F(RemoteTls, AChangedHandshakeIsTriedAgain) {
  CutNetwork network(plain_address());
  auto out = test::make_producer("frames", there()).value();
  auto in = consume(through(network)).value();
  for (std::uint64_t i = 0; i < 8; ++i) {
    network.change_after(static_cast<std::int64_t>(i * 41));  // of the next handshake
    network.cut_after(0);
    ASSERT_TRUE(out.send(pattern(5000, i), {.deadline = soon()}));
    const auto message = in.receive(soon());
    ASSERT_TRUE(message) << i << ": " << to_string(message.error());
    EXPECT_TRUE(same(message->bytes(), pattern(5000, i))) << i;
  }
  EXPECT_GT(network.changes(), 5);
}

// It knows no sessions: its callers hear so at once, however long their patience is.
TEST_F(RemoteTls, ABridgeThatWasStartedAgainEndsItsCallersSessions) {
  const std::string address = bridge_->address();
  CutNetwork network(plain_address());
  auto out = test::make_producer("frames", there()).value();
  ProducerOptions options = here();
  options.remote.patience = std::chrono::hours(1);
  auto in = open_remote_consumer(through(network).text(), test::consumer_options(options),
                                 std::make_shared<test::PlainEngine>(), soon())
                .value();
  ASSERT_TRUE(out.send(pattern(100, 1), {.deadline = soon()}));
  ASSERT_TRUE(in.receive(soon()));
  network.refuse(true);
  network.cut_after(0);
  while (network.cuts() == 0) std::this_thread::yield();  // the bridge can say no last word
  stop_bridge();
  start_bridge(address);
  network.refuse(false);
  const auto gone = in.receive(soon());
  ASSERT_FALSE(gone);
  EXPECT_EQ(gone.error().code, Code::peer_gone) << to_string(gone.error());
  EXPECT_THAT(gone.error().hint, HasSubstr("started anew"));
}

TEST_F(RemoteTls, WhoHasAnotherTokenIsTurnedAway) {
  auto out = test::make_producer("frames", there()).value();
  ProducerOptions options = here();
  options.remote.token = "another token of 30 characters";
  const auto in = open_remote_consumer(name("frames").text(), test::consumer_options(options),
                                       std::make_shared<test::PlainEngine>(), soon());
  ASSERT_FALSE(in);
  EXPECT_EQ(in.error().code, Code::permission_denied) << to_string(in.error());
  EXPECT_THAT(in.error().message, HasSubstr("another token"));
  EXPECT_THAT(in.error().hint, HasSubstr("--token-file"));
  EXPECT_TRUE(consume(name("frames"))) << "the bridge serves on";
  EXPECT_TRUE(has_said("a caller with another token"));
}

TEST_F(RemoteTls, AnEndThatDoesNotEncryptIsToldSo) {
  auto out = test::make_producer("frames", there()).value();
  const auto in = consume(name("frames", plain_address()));
  ASSERT_FALSE(in);
  EXPECT_THAT(in.error().message, HasSubstr("the bridge there encrypts"));
  EXPECT_THAT(in.error().hint, HasSubstr("NAME@tls:HOST"));
  EXPECT_TRUE(consume(name("frames")));
  EXPECT_TRUE(has_said("a caller that does not encrypt"));
  stop_bridge();
  start_bridge("127.0.0.1:0");
  const auto other = consume(name("frames", "tls:" + bridge_->address()));
  ASSERT_FALSE(other);
  EXPECT_THAT(other.error().message, HasSubstr("does not encrypt"));
  EXPECT_THAT(other.error().hint, HasSubstr("tls:"));
  EXPECT_TRUE(consume(name("frames")));
  EXPECT_TRUE(has_said("a caller that encrypts"));
}

TEST_F(RemoteTls, PayloadTakesNoOtherWay) {
  auto out = test::make_producer("frames", there()).value();
  for (const RemotePath path : {RemotePath::shared, RemotePath::fabric}) {
    ProducerOptions options = here();
    options.remote.path = path;
    const auto in = open_remote_consumer(name("frames").text(), test::consumer_options(options),
                                         std::make_shared<test::PlainEngine>(), soon());
    ASSERT_FALSE(in);
    EXPECT_EQ(in.error().code, Code::unsupported);
    EXPECT_THAT(in.error().message, HasSubstr("beside what is encrypted"));
  }
  // Who asks by hand for memory that is shared over the bridge's socket gets none.
  const HostPort where = parse_host(bridge_->address()).value();
  Fd tcp = connect_tcp(where, -1, soon()).value();
  auto session = TlsSession::as_caller(tcp.get(), test::kToken, -1, soon()).value();
  const Fd socket =
      std::move(session).carry(std::move(tcp), std::make_shared<DetachedThreads>()).value();
  RemoteRequest request;
  request.channel = "frames";
  request.paths = bit_of(RemotePath::shared) | bit_of(RemotePath::fabric);
  const auto answer = call_bridge(socket.get(), test::kToken, request, -1, soon());
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Code::unsupported) << to_string(answer.error());
}

TEST_F(RemoteTls, WhatIsNoTlsEndsThatConnectionAlone) {
  auto out = test::make_producer("frames", there()).value();
  auto in = consume(name("frames")).value();
  const HostPort where = parse_host(plain_address()).value();
  for (std::uint64_t i = 0; i < 20; ++i) {
    const Fd socket = connect_tcp(where, -1, soon()).value();
    ASSERT_TRUE(send_exactly(socket.get(), pattern(1 + 77 * i, i), soon()));
    ::shutdown(socket.get(), SHUT_WR);
    std::array<std::byte, 256> heard{};
    while (::recv(socket.get(), heard.data(), heard.size(), 0) > 0) continue;
  }
  ASSERT_TRUE(out.send(pattern(5000, 1), {.deadline = soon()}));
  EXPECT_TRUE(same(in.receive(soon())->bytes(), pattern(5000, 1)));
}

TEST_F(RemoteTls, ThreadsAndDescriptorsEndWithTheirConnections) {
  auto out = test::make_producer("frames", there()).value();
  const auto open = [&] { static_cast<void>(consume(name("frames")).value()); };
  open();
  const auto descriptors = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
  };
  const auto settles = [](auto count, std::ptrdiff_t most) {
    for (const Deadline deadline = soon(); count() > most; std::this_thread::yield())
      if (deadline.passed()) return false;
    return true;
  };
  ASSERT_TRUE(settles(threads, threads()));
  const auto threads_before = threads();
  const auto descriptors_before = descriptors();
  for (int i = 0; i < 10; ++i) open();
  EXPECT_TRUE(settles(threads, threads_before)) << threads() << " of " << threads_before;
  EXPECT_TRUE(settles(descriptors, descriptors_before)) << descriptors();
}

// What it says last would wait a second for an answer.
TEST_F(RemoteTls, WhoDropsAnEndWhoseHostIsSilentDoesNotWait) {
  const auto out = test::make_producer("frames", there()).value();
  CutNetwork network(plain_address());
  auto in = std::make_optional(consume(through(network)).value());
  network.freeze();
  const auto begin = std::chrono::steady_clock::now();
  in.reset();
  constexpr std::chrono::milliseconds kLastWords{1000};  // TlsCarrier's
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kLastWords / 2);
}

}  // namespace
}  // namespace gantry
