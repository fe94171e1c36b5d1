#include <gmock/gmock.h>

#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <functional>
#include <numeric>
#include <random>
#include <thread>

#include "core/base/test_effort.hpp"
#include "core/channel/status/inquiry.hpp"
#include "core/channel/status/status_wire.hpp"
#include "core/channel/test_support.hpp"
#include "core/channel/wire/format.hpp"

// What producers answer, and what hostile ones might: it is shown or refused, and costs nobody
// else anything.
namespace gantry {
namespace {

using testing::HasSubstr;

MetricsReport metrics(std::uint64_t from) {
  MetricsReport report;
  report.opened = true;
  report.messages = from;
  report.bytes = from + 1;
  for (std::size_t i = 0; i < kCopyEngines; ++i) {
    report.copies[i] = from + 10 + i;
    report.copied_bytes[i] = from + 20 + i;
  }
  report.copy_ns = from + 30;
  report.cpu_ns = from + 31;
  report.wait_ns = from + 32;
  report.handoff_p50_ns = from + 33;
  report.handoff_p99_ns = from + 34;
  report.handoff_p999_ns = from + 35;
  report.handoff_total_ns = from + 36;
  report.idle_ns = from + 37;
  return report;
}

/// Every field of its own value, as many of everything as there can be.
ChannelStatus fullest() {
  ChannelStatus status;
  status.producer_who = {"gpu1.lan", "python3 decode.p", "decode.8", 3, 4};
  status.age = std::chrono::hours(5);
  status.mode = SendMode::streamed;
  status.ended = true;
  status.slots = 64;
  status.slots_held = 63;
  status.slots_charged = 62;
  status.slots_sending = 61;
  status.bytes_in_flight = 60;
  status.bytes_charged = 59;
  status.consumers_limit = 58;
  status.history_limit = 57;
  status.history = 56;
  status.backlog = 55;
  status.slab_bytes = 54;
  status.live_bytes = 53;
  status.budget_bytes = 52;
  status.peak_bytes = 51;
  status.registrations = 50;
  status.refused_registrations = 49;
  status.engine = "policy";
  status.path = {Bytes{1} << 40,      51,           SendMode::pipelined, CopyEngine::dsa,
                 CacheUse::streaming, "because\nso"};
  status.producer = metrics(1000);
  for (int i = 0; i < static_cast<int>(kMaxConsumers); ++i) {
    ConsumerStatus& consumer = status.consumers.emplace_back();
    consumer.pid = 100 + i;
    consumer.who = {"gpu2.lan", "score...", "score.88", static_cast<unsigned>(i), kMaxConsumers};
    consumer.uid = 200;
    consumer.policy = SlowConsumer::drop_newest;
    consumer.depth = 7;
    consumer.unread = 8;
    consumer.dropped = 9;
    consumer.is_cut = i % 2 == 0;
    consumer.holds_up = i % 3 == 0;
    consumer.joined = std::chrono::seconds(10 + i);
    consumer.idle = std::chrono::seconds(i);
    for (std::uint64_t slot = 0; slot < kMaxSlots; ++slot)
      consumer.held.push_back({slot, slot * 2, std::chrono::nanoseconds(slot * 3), slot % 2 == 0});
    consumer.metrics = metrics(static_cast<std::uint64_t>(i));
    std::iota(consumer.handoffs.begin(), consumer.handoffs.end(), i);
  }
  for (int i = 0; i < static_cast<int>(kMaxDeparted); ++i)
    status.departed.push_back({300 + i,
                               ProcessState::unknown,
                               3,
                               4,
                               std::chrono::seconds(5),
                               {"gpu3.lan", "sink....", "sink.888", 0, 1}});
  return status;
}

TEST(StatusWire, CarriesTheFullestAnswer) {
  const ChannelStatus sent = fullest();
  const auto bytes = encode_status(sent);
  EXPECT_LE(bytes.size(), kMaxStatusBytes - 2 * kMaxStatusText);
  ChannelStatus got;
  ASSERT_TRUE(decode_status(bytes, got));
  EXPECT_EQ(encode_status(got), bytes);
  EXPECT_EQ(got.age, sent.age);
  EXPECT_EQ(got.path.why, sent.path.why);
  EXPECT_EQ(got.budget_bytes, 52u);
  EXPECT_EQ(got.peak_bytes, 51u);
  EXPECT_EQ(got.registrations, 50u);
  EXPECT_EQ(got.refused_registrations, 49u);
  EXPECT_EQ(got.consumers[31].handoffs, sent.consumers[31].handoffs);
  ASSERT_EQ(got.consumers.size(), kMaxConsumers);
  EXPECT_EQ(got.consumers[31].pid, 131);
  EXPECT_EQ(got.consumers[30].is_cut, true);
  EXPECT_EQ(got.consumers[31].held[63].message, 63u);
  EXPECT_EQ(got.consumers[31].metrics.idle_ns, 68u);
  ASSERT_EQ(got.departed.size(), kMaxDeparted);
  EXPECT_EQ(got.departed[63].pid, 363);
  EXPECT_EQ(got.producer_who, sent.producer_who);
  EXPECT_EQ(got.consumers[31].who.text(), "score.88.31");
  EXPECT_EQ(got.departed[63].who, sent.departed[63].who);
}

TEST(StatusWire, RefusesEveryTruncationAndWhatIsTooLong) {
  ChannelStatus small = fullest();
  small.consumers.resize(2);
  small.consumers[0].held.resize(1);
  small.consumers[1].held.clear();
  small.departed.resize(1);
  auto bytes = encode_status(small);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    ChannelStatus got;
    EXPECT_FALSE(decode_status(std::span(bytes).first(size), got)) << size;
  }
  bytes.push_back(std::byte{0});
  ChannelStatus got;
  EXPECT_FALSE(decode_status(bytes, got)) << "something behind the end";
}

// Each word of an answer turned into the largest number: taken as it is or refused, never used as
// a size.
TEST(StatusWire, AbsurdNumbersAreNoSizes) {
  ChannelStatus small = fullest();
  small.consumers.resize(1);
  small.consumers[0].held.resize(1);
  small.departed.resize(1);
  small.engine = "eight by";  // so that all words lie on eight bytes
  small.path.why = "8 bytes.";
  const auto bytes = encode_status(small);
  std::size_t refused = 0;
  for (std::size_t at = 0; at + 8 <= bytes.size(); at += 8) {
    auto wrong = bytes;
    std::fill_n(wrong.begin() + static_cast<std::ptrdiff_t>(at), 8, std::byte{0xff});
    ChannelStatus got;
    if (!decode_status(wrong, got)) ++refused;
    EXPECT_LE(got.consumers.size(), kMaxConsumers);
    EXPECT_LE(got.departed.size(), kMaxDeparted);
    EXPECT_GE(got.age.count(), 0);
  }
  EXPECT_GT(refused, 20u);
}

TEST(StatusWire, RandomBytesDoNoHarm) {
  const auto good = encode_status(fullest());
  std::mt19937_64 random(test_seed(1));
  for (int round = 0; round < 2000; ++round) {
    auto bytes = good;
    bytes.resize(random() % (bytes.size() + 1));
    for (int i = 0; i < 8 && !bytes.empty(); ++i)
      bytes[random() % std::min<std::size_t>(bytes.size(), 800)] = static_cast<std::byte>(random());
    ChannelStatus got;
    if (decode_status(bytes, got)) static_cast<void>(got.notes());
  }
}

TEST(StatusWire, TextsCannotWriteToATerminal) {
  ChannelStatus sent;
  sent.engine = "\x1b[2Jnothing\r\x9b";
  sent.path.why = "line\nline\x7f";
  sent.producer_who.command = "\x1b]0;rm\n" + std::string(100, 'x');
  ChannelStatus got;
  ASSERT_TRUE(decode_status(encode_status(sent), got));
  EXPECT_EQ(got.engine, "?[2Jnothing??");
  EXPECT_EQ(got.path.why, "line\nline?");
  EXPECT_EQ(got.producer_who.command, "?]0;rm?" + std::string(EndName::kMostBytes - 7, 'x'))
      << "a name is one line";
}

// ---- producers that answer what they like --------------------------------------------------

/// Listens under a name, and hands the caller's socket to `answer`.
class Liar {
 public:
  Liar(const std::string& directory, const std::string& name,
       std::function<void(int socket, const std::atomic<bool>& stop)> answer)
      : claim_(*Claim::take(directory, name)), thread_([this, answer = std::move(answer)] {
          while (!stop_.load()) {
            if (const auto ready = wait_readable(claim_.listener(), Deadline::after(kTurn));
                !ready || !*ready)
              continue;
            const Fd socket(::accept4(claim_.listener(), nullptr, nullptr, SOCK_CLOEXEC));
            if (!socket) continue;
            answer(socket.get(), stop_);
            while (!stop_.load() && !hung_up(socket.get())) continue;
          }
        }) {}
  ~Liar() {
    stop_.store(true);
    thread_.join();
  }
  Liar(const Liar&) = delete;
  Liar& operator=(const Liar&) = delete;

 private:
  static constexpr std::chrono::milliseconds kTurn{5};
  static bool hung_up(int socket) {
    pollfd entry{socket, POLLRDHUP, 0};
    return ::poll(&entry, 1, 5) > 0;
  }
  Claim claim_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

void say_status(int socket, std::uint64_t bytes, std::span<const int> fds = {}) {
  WirePacket packet;
  packet.kind = PacketKind::status;
  packet.bytes = bytes;
  static_cast<void>(send_wire(socket, packet, fds));
}

class HostileAnswers : public testing::Test {
 protected:
  /// What is listed of a channel whose producer answers so, beside an honest one.
  ChannelStatus listed(std::function<void(int, const std::atomic<bool>&)> answer) {
    auto honest = *test::make_producer("honest", test::options_in(directory_));
    const Liar liar(directory_.path(), "liar", std::move(answer));
    const auto all = list_channels(directory_.path());
    EXPECT_TRUE(all);
    EXPECT_EQ(all->size(), 2u);
    EXPECT_TRUE(all->at(0).answered) << all->at(0).silence;
    EXPECT_EQ(all->at(0).name, "honest");
    return all->at(1);
  }
  test::ScratchDirectory directory_;
};

TEST_F(HostileAnswers, AreNotBelieved) {
  const auto answer = encode_status(fullest());
  const std::vector<std::function<void(int, const std::atomic<bool>&)>> lies{
      [](int socket, const auto&) { static_cast<void>(send_packet(socket, test::pattern(64, 1))); },
      [](int socket, const auto&) {
        static_cast<void>(send_packet(socket, test::pattern(4000, 1)));
      },
      [](int socket, const auto&) { say_status(socket, 0); },
      [](int socket, const auto&) { say_status(socket, ~0ull); },
      [](int socket, const auto&) { say_status(socket, kMaxStatusBytes + 1); },
      [](int socket, const auto&) {
        const std::array<int, 2> fds{0, 1};
        say_status(socket, 100, fds);
      },
      [](int socket, const auto&) {
        say_status(socket, 100);
        static_cast<void>(send_packet(socket, test::pattern(101, 2)));
      },
      [](int socket, const auto&) {
        say_status(socket, 4096);
        static_cast<void>(send_packet(socket, test::pattern(4096, 3)));
      },
      [](int socket, const auto&) {
        say_status(socket, 4096);
        static_cast<void>(send_packet(socket, test::pattern(10, 3)));
        ::shutdown(socket, SHUT_RDWR);
      },
      [&answer](int socket, const auto&) {
        say_status(socket, answer.size() - 8);  // whole packets of a longer one
        static_cast<void>(send_packet(socket, std::span(answer).first(kStatusPacketBytes)));
        ::shutdown(socket, SHUT_WR);
      }};
  for (const auto& lie : lies) {
    const ChannelStatus status = listed(lie);
    EXPECT_FALSE(status.answered);
    EXPECT_NE(status.silence, "");
    EXPECT_EQ(status.producer_pid, ::getpid());
    EXPECT_EQ(status.slots, 0u);
    EXPECT_TRUE(status.consumers.empty());
  }
}

TEST_F(HostileAnswers, WhoSaysNothingOrDoesNotStopTalkingIsGivenUp) {
  const ChannelStatus mute = listed([](int, const auto&) {});
  EXPECT_THAT(mute.silence, HasSubstr("no answer in time"));
  const ChannelStatus talker = listed([](int socket, const std::atomic<bool>& stop) {
    say_status(socket, kMaxStatusBytes);
    const std::array<std::byte, 1> drop{};
    while (!stop.load()) {
      const auto sent = send_packet(socket, drop);
      if (!sent && sent.error().code == Code::peer_gone) break;
      std::this_thread::yield();
    }
  });
  EXPECT_FALSE(talker.answered);
}

TEST_F(HostileAnswers, AnHonestOneInPiecesIsPutTogether) {
  const auto answer = encode_status(fullest());
  const ChannelStatus status = listed([&answer](int socket, const auto&) {
    say_status(socket, answer.size());
    for (std::size_t at = 0; at < answer.size(); at += 999)
      while (!send_packet(
          socket, std::span(answer).subspan(at, std::min<std::size_t>(999, answer.size() - at))))
        std::this_thread::yield();
  });
  EXPECT_TRUE(status.answered) << status.silence;
  EXPECT_EQ(status.consumers.size(), kMaxConsumers);
}

}  // namespace
}  // namespace gantry
