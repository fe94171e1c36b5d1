// The paths that payload of a channel between hosts may take: each byte, what is asked for and not
// there, and connections that break.
#include "net/remote/admission.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/remote/bridge/test_remote.hpp"

namespace gantry {
namespace {

using test::CutNetwork;
using test::pattern;
using test::same;
using test::soon;
using testing::HasSubstr;

constexpr Bytes kPiece = kLinkPieceBytes;

/// Counts what it copies.
class CountingEngine final : public test::PlainEngine {
 public:
  [[nodiscard]] Result<std::unique_ptr<Lane>> open_lane(const LaneOptions& options) override {
    auto plain = test::PlainEngine::open_lane(options);
    if (!plain) return plain;
    return std::make_unique<CountingLane>(copied_);
  }
  [[nodiscard]] Bytes copied() const { return *copied_; }

 private:
  using Sum = std::shared_ptr<std::atomic<Bytes>>;
  class CountingLane final : public test::PlainLane {
   public:
    explicit CountingLane(Sum sum) : sum_(std::move(sum)) {}
    using Lane::submit;
    Result<Ticket> submit(std::span<const Move> batch, SubmitMode mode) override {
      for (const Move& move : batch) *sum_ += move.bytes;
      return PlainLane::submit(batch, mode);
    }

   private:
    const Sum sum_;
  };
  const Sum copied_ = std::make_shared<std::atomic<Bytes>>(0);
};

class RemotePathTest : public test::TwoHosts {
 protected:
  [[nodiscard]] ProducerOptions by(RemotePath path) const {
    ProducerOptions options = here();
    options.remote.path = path;
    return options;
  }
  [[nodiscard]] Result<Consumer> consume_by(RemotePath path, const RemoteName& from) const {
    return open_remote_consumer(from.text(), test::consumer_options(by(path)),
                                std::make_shared<test::PlainEngine>(), soon());
  }
  [[nodiscard]] Result<Producer> produce_by(RemotePath path, const RemoteName& to) const {
    return open_remote_producer(to.text(), by(path), std::make_shared<test::PlainEngine>());
  }
};

/// Cuts the connections of the bridge at a Unix socket. Returns how many there were.
int cut_at(const std::string& path) {
  int cuts = 0;
  for (int socket = 0; socket < 1024; ++socket) {
    int listens = 1;
    socklen_t size = sizeof listens;
    if (::getsockopt(socket, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 || listens != 0 ||
        own_address(socket) != path)
      continue;
    if (::shutdown(socket, SHUT_RDWR) == 0) ++cuts;
  }
  return cuts;
}

/// Those that are in this build; the shared one over a Unix socket.
class EachPath : public RemotePathTest, public testing::WithParamInterface<RemotePath> {
 protected:
  void SetUp() override {
    RemotePathTest::SetUp();
    if (IsSkipped()) return;
    if (GetParam() == RemotePath::shared) {
      stop_bridge();
      start_bridge("unix:" + there_.path() + "/.bridge");
    }
    const Fd socket = connect_bridge(parse_host(bridge_->address()).value(), test::kToken,
                                     std::make_shared<DetachedThreads>(), -1, soon())
                          .value();
    if (auto able = paths_to_offer(GetParam(), {socket.get()}); !able)
      GTEST_SKIP() << to_string(able.error());
  }
  /// Sends messages of one part, of several, and with rows, and compares each byte.
  static void expect_all_arrives(Producer& out, Consumer& in) {
    std::jthread sender([&] {
      for (std::size_t i = 0; i < kSizes.size(); ++i)
        ASSERT_TRUE(out.send(pattern(kSizes[i], i), {.deadline = soon()}));
      for (const Bytes size : kSizes) ASSERT_TRUE(out.send(parts(size), {.deadline = soon()}));
      const auto closed = out.close(soon());
      EXPECT_TRUE(closed) << to_string(closed.error());
    });
    for (std::size_t i = 0; i < kSizes.size(); ++i) {
      const auto message = in.receive(soon());
      ASSERT_TRUE(message) << to_string(message.error());
      ASSERT_TRUE(same(message->bytes(), pattern(kSizes[i], i))) << kSizes[i];
    }
    for (const Bytes size : kSizes) {
      const auto message = in.receive(soon());
      ASSERT_TRUE(message) << to_string(message.error());
      ASSERT_EQ(message->segments(), 4u);
      ASSERT_TRUE(same(message->segment(0).bytes, pattern(size, 1))) << size;
      ASSERT_TRUE(message->segment(1).bytes.empty());
      ASSERT_TRUE(same(message->segment(2).bytes, pattern(480, 2))) << size;
      ASSERT_EQ(message->segment(2).tensor, rows());
      ASSERT_TRUE(same(message->segment(3).bytes, pattern(2 * size, 3))) << size;
    }
    EXPECT_EQ(in.receive(soon()).error().code, Code::closed);
  }
  /// Messages of up to 140 KB, while the connection is cut again and again.
  template <class Cut>
  static void expect_survives(Producer& out, Consumer& in, Cut cut) {
    constexpr std::uint64_t kMessages = 60;
    const auto size_of = [](std::uint64_t i) { return i % 5 == 0 ? 50 : 35'011 * (i % 5); };
    std::jthread sender([&] {
      for (std::uint64_t i = 0; i < kMessages; ++i)
        ASSERT_TRUE(out.send(pattern(size_of(i), i), {.deadline = soon()}));
      const auto closed = out.close(soon());
      EXPECT_TRUE(closed) << to_string(closed.error());
    });
    for (std::uint64_t i = 0; i < kMessages; ++i) {
      if (i % 6 == 0) cut(i);
      const auto message = in.receive(soon());
      ASSERT_TRUE(message) << i << ": " << to_string(message.error());
      ASSERT_TRUE(same(message->bytes(), pattern(size_of(i), i))) << i;
    }
    EXPECT_EQ(in.receive(soon()).error().code, Code::closed);
  }

  static Tensor rows() {  // with gaps between them
    Tensor tensor = Tensor::dense({}, std::array<std::int64_t, 2>{8, 50});
    tensor.strides[0] = 60;
    return tensor;
  }
  static Draft parts(Bytes size) {
    static std::map<Bytes, std::array<std::vector<std::byte>, 3>> kept;
    auto [found, is_new] = kept.try_emplace(size);
    if (is_new) found->second = {pattern(size, 1), pattern(480, 2), pattern(2 * size, 3)};
    const auto& [first, second, third] = found->second;
    return Draft().copy(first).copy({}).copy(second, rows()).copy(third);
  }

  static inline const std::vector<Bytes> kSizes{
      0, 1, 64, 65, 4000, 4033, 4096, 65536, kPiece, kPiece + 1, 3 * kPiece + 7};
};

TEST_P(EachPath, AConsumerGetsEachByteOfEachSizeAndPart) {
  auto out = test::make_producer("frames", there()).value();
  auto in = consume_by(GetParam(), name("frames"));
  ASSERT_TRUE(in) << to_string(in.error());
  EXPECT_THAT(in->explain().text(), HasSubstr(std::string(to_string(GetParam())) + ": it was"));
  expect_all_arrives(out, *in);
}

TEST_P(EachPath, AProducerSendsEachByteOfEachSizeAndPart) {
  auto out = produce_by(GetParam(), name("frames"));
  ASSERT_TRUE(out) << to_string(out.error());
  EXPECT_THAT(out->explain().text(), HasSubstr(std::string(to_string(GetParam())) + ": it was"));
  auto in = Consumer::open("frames", test::consumer_options(there()), soon()).value();
  expect_all_arrives(*out, in);
}

TEST_P(EachPath, GoesOnWhereTheConnectionBroke) {
  std::optional<CutNetwork> network;
  if (GetParam() != RemotePath::shared) network.emplace(bridge_->address());
  const std::string at = network ? network->address() : bridge_->address();
  auto out = test::make_producer("frames", there()).value();
  auto in = consume_by(GetParam(), name("frames", at));
  ASSERT_TRUE(in) << to_string(in.error());
  int cuts = 0;
  expect_survives(out, *in, [&](std::uint64_t i) {
    if (network)
      network->cut_after(static_cast<std::int64_t>(1 + 131 * i % 700));
    else
      cuts += cut_at(at);
  });
  EXPECT_GT(network ? network->cuts() : cuts, 3);
  EXPECT_THAT(in->explain().text(), HasSubstr(std::string(to_string(GetParam())) + ": it was"));
}

INSTANTIATE_TEST_SUITE_P(RemotePath, EachPath,
                         testing::Values(RemotePath::stream, RemotePath::fabric,
                                         RemotePath::shared),
                         [](const auto& path) { return std::string(to_string(path.param)); });

class FabricPath : public EachPath {};
INSTANTIATE_TEST_SUITE_P(RemotePath, FabricPath, testing::Values(RemotePath::fabric));

TEST_P(FabricPath, PayloadPassesByTheConnection) {
  CutNetwork network(bridge_->address());
  auto out = test::make_producer("frames", there()).value();
  auto in = consume_by(GetParam(), name("frames", network.address())).value();
  for (std::uint64_t i = 0; i < 10; ++i) {
    ASSERT_TRUE(out.send(pattern(kPiece, i), {.deadline = soon()}));
    const auto message = in.receive(soon());
    ASSERT_TRUE(message) << to_string(message.error());
    ASSERT_TRUE(same(message->bytes(), pattern(kPiece, i)));
  }
  EXPECT_LT(network.passed(), kPiece);
}

class SharedPath : public EachPath {};
INSTANTIATE_TEST_SUITE_P(RemotePath, SharedPath, testing::Values(RemotePath::shared));

TEST_P(SharedPath, AnEngineCopiesPayloadOnceAndTheSocketCarriesNone) {
  const auto engine = std::make_shared<CountingEngine>();
  auto out = test::make_producer("frames", there()).value();
  auto in = open_remote_consumer(name("frames").text(), test::consumer_options(by(GetParam())),
                                 engine, soon())
                .value();
  Bytes sent = 0;
  for (const Bytes size : {Bytes{5000}, 10 * kPiece, kPiece + 7, kPiece, Bytes{70'000}}) {
    ASSERT_TRUE(out.send(pattern(size, size), {.deadline = soon()}));
    const auto message = in.receive(soon());
    ASSERT_TRUE(message) << to_string(message.error());
    ASSERT_TRUE(same(message->bytes(), pattern(size, size)));
    sent += size;
  }
  ASSERT_TRUE(out.send(parts(kPiece), {.deadline = soon()}));
  ASSERT_TRUE(in.receive(soon()));
  EXPECT_EQ(engine->copied(), sent + 3 * kPiece + 480);
}

TEST_P(SharedPath, CallsAndAnswersPassByTheSocketToo) {
  const auto engine = std::make_shared<CountingEngine>();
  auto server =
      Server::open("squares", test::server_options(there()), std::make_shared<test::PlainEngine>())
          .value();
  std::jthread serving([&] {
    auto request = server.next(soon());
    ASSERT_TRUE(request) << to_string(request.error());
    EXPECT_TRUE(same(request->message().bytes(), pattern(2 * kPiece, 1)));
    EXPECT_TRUE(request->reply(pattern(3 * kPiece, 2), {soon()}));
  });
  auto client = open_remote_client(name("squares").text(), test::client_options(by(GetParam())),
                                   engine, soon());
  ASSERT_TRUE(client) << to_string(client.error());
  CallOptions options;
  options.deadline = soon();
  const auto reply = client->call(pattern(2 * kPiece, 1), options);
  ASSERT_TRUE(reply) << to_string(reply.error());
  EXPECT_TRUE(same(reply->bytes(), pattern(3 * kPiece, 2)));
  // Here: the request into the memory of the relay's channel, and the answer out of the other's.
  EXPECT_EQ(engine->copied(), 5 * kPiece);
}

// ---- what is not there ---------------------------------------------------------------------

TEST_F(RemotePathTest, WithoutAWishItIsTheStreamBetweenHosts) {
  auto out = test::make_producer("frames", there()).value();
  auto in = consume(name("frames")).value();
  EXPECT_THAT(in.explain().text(), HasSubstr("stream: the hosts are joined by a network"));
  EXPECT_EQ(out.explain().link, "");
}

TEST_F(RemotePathTest, SharingOverTcpIsRefusedAtOnce) {
  auto out = test::make_producer("frames", there()).value();
  const auto in = consume_by(RemotePath::shared, name("frames"));
  ASSERT_FALSE(in);
  EXPECT_EQ(in.error().code, Code::unsupported);
  EXPECT_THAT(in.error().message, HasSubstr("path shared: the connection is no Unix socket"));
  EXPECT_THAT(in.error().hint, HasSubstr("unix:/PATH"));
}

TEST_F(RemotePathTest, FabricOverIPv6IsRefusedAtOnce) {
  stop_bridge();
  if (!listen_tcp(parse_host("[::1]:0").value())) GTEST_SKIP() << "no IPv6 here";
  start_bridge("[::1]:0");
  const auto out = produce_by(RemotePath::fabric, name("frames"));
  ASSERT_FALSE(out);
  EXPECT_EQ(out.error().code, Code::unsupported);
  EXPECT_THAT(out.error().message, HasSubstr("path fabric: libfabric needs a connection of IPv4"));
  EXPECT_FALSE(out.error().hint.empty());
}

// ---- a bridge at a Unix socket -------------------------------------------------------------

TEST_F(RemotePathTest, AtAUnixSocketMemoryIsSharedWithoutAWish) {
  stop_bridge();
  const std::string path = there_.path() + "/.bridge";
  start_bridge("unix:" + path);
  EXPECT_EQ(bridge_->address(), "unix:" + path);
  auto out = test::make_producer("frames", there()).value();
  auto in = consume(name("frames")).value();
  EXPECT_THAT(in.explain().text(), HasSubstr("shared: both ends are on one kernel"));
  const auto listed = list_remote_channels(bridge_->address(), here().remote, soon());
  ASSERT_TRUE(listed) << to_string(listed.error());
  EXPECT_EQ(listed->size(), 1u);
  EXPECT_EQ(produce_by(RemotePath::fabric, name("other")).error().code, Code::unsupported);
  stop_bridge();
  EXPECT_NE(::access(path.c_str(), F_OK), 0) << "its file is still there";
  const auto gone = consume(name("frames", "unix:" + path));
  ASSERT_FALSE(gone);
  EXPECT_EQ(gone.error().code, Code::not_found);
  EXPECT_THAT(gone.error().hint, HasSubstr("gantry bridge --listen unix:" + path));
}

TEST_F(RemotePathTest, AUnixSocketThatNobodyListensAtIsReplaced) {
  const HostPort where = parse_host("unix:" + there_.path() + "/.bridge").value();
  {
    const BridgeListener first = BridgeListener::open(where).value();
    const auto second = BridgeListener::open(where);
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code, Code::already_exists);
    ASSERT_EQ(::link(where.path.c_str(), (where.path + "2").c_str()), 0);
  }
  ASSERT_EQ(::rename((where.path + "2").c_str(), where.path.c_str()), 0);  // as after kill -9
  EXPECT_EQ(connect_bridge(where, test::kToken, std::make_shared<DetachedThreads>(), -1, soon())
                .error()
                .code,
            Code::not_found);
  const BridgeListener next = BridgeListener::open(where).value();
  EXPECT_TRUE(connect_bridge(where, test::kToken, std::make_shared<DetachedThreads>(), -1, soon()));
}

TEST_F(RemotePathTest, AFileThatIsNoSocketStays) {
  const std::string path = there_.path() + "/.file";
  const Fd file(::open(path.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  const auto listener = BridgeListener::open(parse_host("unix:" + path).value());
  ASSERT_FALSE(listener);
  EXPECT_EQ(listener.error().code, Code::already_exists);
  EXPECT_EQ(::access(path.c_str(), F_OK), 0);
}

// A caller of another build may offer what the bridge has not.
TEST_F(RemotePathTest, ABridgeRefusesWhatItHasNotWithItsReason) {
  const Fd socket = connect_tcp(parse_host(bridge_->address()).value(), -1, soon()).value();
  RemoteRequest request;
  request.channel = "frames";
  request.paths = bit_of(RemotePath::shared);
  const auto answer = call_bridge(socket.get(), test::kToken, request, -1, soon());
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Code::unsupported);
  EXPECT_THAT(answer.error().message, HasSubstr("bridge: path shared: "));
}

}  // namespace
}  // namespace gantry
