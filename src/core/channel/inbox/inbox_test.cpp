#include <gmock/gmock.h>
#include <sys/stat.h>

#include <gantry/call.hpp>
#include <gantry/runtime.hpp>

#include <set>
#include <thread>

#include "core/base/event.hpp"
#include "core/base/os/socket.hpp"
#include "core/channel/test_child.hpp"
#include "core/channel/test_support.hpp"
#include "core/channel/wire/protocol.hpp"

// One inbox and its producers in one process: what arrives, from whom, in which turn, and who left.
namespace gantry {
namespace {

using test::consumer_options;
using test::make_producer;
using test::options_in;
using test::pattern;
using test::same;
using test::soon;

class ManyToOne : public testing::Test {
 protected:
  ManyToOne() {
    options_.channel = consumer_options(channel_);
    options_.on_departure = [this](const Departure& one) { departed_.push_back(one); };
  }
  [[nodiscard]] Result<Producer> connect(Deadline deadline = soon()) const {
    return Producer::connect("in", channel_, std::make_shared<test::PlainEngine>(), deadline);
  }
  Inbox open() {
    auto inbox = Inbox::open("in", options_);
    EXPECT_TRUE(inbox) << inbox.error().message;
    return std::move(*inbox);
  }
  static Code code_now(Inbox& inbox) {
    const auto got = inbox.receive(Deadline::now());
    return got ? Code::already_exists : got.error().code;
  }

  test::ScratchDirectory directory_;
  ProducerOptions channel_ = options_in(directory_);
  InboxOptions options_;
  std::vector<Departure> departed_;
};

TEST_F(ManyToOne, EverythingArrivesWhole) {
  constexpr std::uint64_t kProducers = 8, kEach = 12;
  Inbox inbox = open();
  std::vector<std::thread> threads;
  std::atomic<unsigned> failures{0};
  for (std::uint64_t p = 0; p < kProducers; ++p)
    threads.emplace_back([&, p] {
      auto out = connect();
      for (std::uint64_t i = 0; out && i < kEach; ++i) {
        const SendOptions options{.deadline = soon(), .user = p, .correlation = i + 1};
        if (!out->send(pattern(i * 20'000, p * 100 + i), options)) ++failures;
      }
      if (!out || !out->close(soon())) ++failures;
    });
  std::vector<std::uint64_t> next(kProducers);
  std::map<std::uint64_t, std::uint64_t> whose;
  for (std::uint64_t i = 0; i < kProducers * kEach; ++i) {
    const auto got = inbox.receive(soon());
    ASSERT_TRUE(got) << got.error().message;
    const std::uint64_t p = got->message.info().user;
    ASSERT_LT(p, kProducers);
    EXPECT_EQ(got->message.info().correlation, ++next[p]) << "in the order of its sender";
    EXPECT_TRUE(same(got->message.bytes(), pattern((next[p] - 1) * 20'000, p * 100 + next[p] - 1)));
    EXPECT_EQ(whose.try_emplace(p, got->sender.id).first->second, got->sender.id);
    EXPECT_EQ(got->sender.pid, ::getpid());
    EXPECT_EQ(got->sender.uid, ::getuid());
  }
  while (departed_.size() < kProducers) ASSERT_EQ(code_now(inbox), Code::timed_out);
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(failures, 0u);
  std::set<std::uint64_t> ids;
  for (const Departure& one : departed_) {
    EXPECT_EQ(one.why.code, Code::closed) << one.why.message;
    EXPECT_TRUE(ids.insert(one.sender.id).second) << "told twice";
  }
  EXPECT_TRUE(inbox.senders().empty());
  EXPECT_EQ(inbox.metrics().messages, kProducers * kEach);
}

TEST_F(ManyToOne, TheyTakeTurns) {
  Inbox inbox = open();
  auto many = *connect();
  auto one = *connect();
  while (inbox.senders().size() < 2) ASSERT_EQ(code_now(inbox), Code::timed_out);
  for (int i = 0; i < 8; ++i)
    ASSERT_TRUE(many.send(pattern(10, 1), {.deadline = soon(), .user = 1}));
  ASSERT_TRUE(one.send(pattern(10, 2), {.deadline = soon(), .user = 2}));
  std::vector<std::uint64_t> order;
  for (int i = 0; i < 9; ++i) order.push_back(inbox.receive(soon())->message.info().user);
  EXPECT_THAT(std::vector(order.begin(), order.begin() + 2), testing::Contains(2u));
}

// Some sleep while others always have something.
TEST_F(ManyToOne, WhoSleptIsNotForgottenByTheBusy) {
  Inbox inbox = open();
  auto busy = *connect();
  auto quiet = *connect();
  while (inbox.senders().size() < 2) ASSERT_EQ(code_now(inbox), Code::timed_out);
  ASSERT_EQ(code_now(inbox), Code::timed_out);  // all asleep now
  ASSERT_TRUE(quiet.send(pattern(10, 2), {.deadline = soon(), .user = 2}));
  bool heard = false;
  for (int i = 0; i < 100 && !heard; ++i) {
    ASSERT_TRUE(busy.send(pattern(10, 1), {.deadline = soon(), .user = 1}));
    heard = inbox.receive(soon())->message.info().user == 2;
  }
  EXPECT_TRUE(heard);
}

TEST_F(ManyToOne, WhoLeavesIsToldOfOnceAndAfterItsLastMessage) {
  Inbox inbox = open();
  {
    auto broken_off = *connect();
    ASSERT_TRUE(broken_off.send(pattern(kMiB, 1), soon()));
  }
  const auto last = inbox.receive(soon());
  ASSERT_TRUE(last) << last.error().message;
  EXPECT_TRUE(departed_.empty());
  EXPECT_EQ(inbox.receive(Deadline::now()).error().code, Code::timed_out);
  while (departed_.empty()) ASSERT_EQ(code_now(inbox), Code::timed_out);
  EXPECT_EQ(departed_[0].why.code, Code::peer_gone);
  EXPECT_EQ(departed_[0].sender.id, last->sender.id);
  EXPECT_TRUE(same(last->message.bytes(), pattern(kMiB, 1))) << "what is held stays valid";
  EXPECT_EQ(code_now(inbox), Code::timed_out);
  EXPECT_EQ(departed_.size(), 1u);
}

TEST_F(ManyToOne, ItsEventCoversAllAndIsQuietWhenNothingComes) {
  Inbox inbox = open();
  std::vector<Producer> out;
  for (int i = 0; i < 3; ++i) out.push_back(*connect());
  const int event = *inbox.event_descriptor();
  while (inbox.senders().size() < 3) ASSERT_EQ(code_now(inbox), Code::timed_out);
  ASSERT_EQ(code_now(inbox), Code::timed_out);
  EXPECT_FALSE(*wait_readable(event, Deadline::now()));
  for (auto& producer : out) {
    ASSERT_TRUE(producer.send(pattern(1000, 1), soon()));
    EXPECT_TRUE(*wait_readable(event, soon()));
    EXPECT_TRUE(inbox.receive(Deadline::now()));
    EXPECT_EQ(code_now(inbox), Code::timed_out);
  }
  EXPECT_FALSE(*wait_readable(event, Deadline::now()));
  out.pop_back();
  EXPECT_TRUE(*wait_readable(event, soon())) << "a departure is news";
  while (departed_.empty()) ASSERT_EQ(code_now(inbox), Code::timed_out);
  out.push_back(*connect());
  EXPECT_TRUE(*wait_readable(event, soon())) << "a newcomer is news";
}

TEST_F(ManyToOne, WhoHoldsAllThatASenderMayHaveOutHearsIt) {
  Inbox inbox = open();
  auto out = connect();
  std::vector<Message> held;
  for (std::uint64_t i = 0; i < channel_.slots; ++i) {
    ASSERT_TRUE(out->send(pattern(100'000, i), soon()));
    auto delivery = inbox.receive(soon());
    ASSERT_TRUE(delivery);
    held.push_back(std::move(delivery->message));
  }
  const auto nothing = inbox.receive(Deadline::after(std::chrono::milliseconds(20)));
  ASSERT_FALSE(nothing);
  EXPECT_EQ(nothing.error().code, Code::timed_out);
  EXPECT_THAT(nothing.error().message,
              testing::HasSubstr("it holds all that a sender may have out"));
  EXPECT_THAT(nothing.error().hint, testing::HasSubstr("let go of messages"));
}

TEST_F(ManyToOne, ASleepingInboxIsWoken) {
  channel_.spin = options_.channel.spin = std::chrono::nanoseconds(0);
  Inbox inbox = open();
  constexpr int kRounds = 300;
  std::thread sender([this] {
    auto out = connect();
    for (int i = 0; out && i < kRounds; ++i) {
      EXPECT_TRUE(out->send(pattern(8, 1), soon()));
      std::this_thread::yield();
    }
    EXPECT_TRUE(out && out->close(soon()));
  });
  for (int i = 0; i < kRounds; ++i) ASSERT_TRUE(inbox.receive(soon()));
  while (departed_.empty()) ASSERT_EQ(code_now(inbox), Code::timed_out);
  sender.join();
}

TEST_F(ManyToOne, ThereAreNoMoreThanItTakes) {
  options_.producers = 1;
  Inbox inbox = open();
  {
    const auto first = connect();
    ASSERT_TRUE(first);
    const auto second = connect();
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code, Code::busy) << second.error().message;
  }
  while (departed_.empty()) ASSERT_EQ(code_now(inbox), Code::timed_out);
  EXPECT_TRUE(connect()) << "the place is free again";
}

TEST_F(ManyToOne, NamesOfTheOtherKindAreToldApart) {
  Inbox inbox = open();
  const auto consumer = Consumer::open("in", consumer_options(channel_), soon());
  ASSERT_FALSE(consumer);
  EXPECT_EQ(consumer.error().code, Code::invalid_argument);
  EXPECT_EQ(consumer.error().message, "channel 'in': the name's owner is of another kind: inbox");
  EXPECT_THAT(consumer.error().hint, testing::HasSubstr("Producer::connect() for an inbox"));
  const auto out = make_producer("out", channel_);
  ASSERT_TRUE(out);
  const auto producer =
      Producer::connect("out", channel_, std::make_shared<test::PlainEngine>(), soon());
  ASSERT_FALSE(producer);
  EXPECT_EQ(producer.error().code, Code::invalid_argument);
  EXPECT_EQ(producer.error().message,
            "channel 'out': the name's owner is of another kind: producer");
  EXPECT_EQ(Inbox::open("out", options_).error().code, Code::already_exists);
  EXPECT_TRUE(connect()) << "neither took a place";
  const auto server = Server::open("service", test::server_options(channel_),
                                   std::make_shared<test::PlainEngine>());
  ASSERT_TRUE(server);
  EXPECT_EQ(Consumer::open("service", consumer_options(channel_), soon()).error().message,
            "channel 'service': the name's owner is of another kind: server");
}

TEST(Refusals, OfAnOlderBuildSayNoKind) {
  for (const std::uint32_t purpose : {0u, 77u}) {
    Received received;
    received.packet.kind = PacketKind::refused;
    received.packet.reason = static_cast<std::uint32_t>(Code::invalid_argument);
    received.packet.purpose = static_cast<Purpose>(purpose);
    EXPECT_EQ(expect(std::move(received), PacketKind::welcome, 3).error().message,
              "the name's owner is of another kind: unknown");
  }
}

TEST_F(ManyToOne, NobodyListens) {
  const auto producer = connect(Deadline::now());
  ASSERT_FALSE(producer);
  EXPECT_EQ(producer.error().code, Code::timed_out);
  EXPECT_EQ(producer.error().message, "channel 'in': no inbox appeared in time");
  EXPECT_EQ(producer.error().hint, "start the inbox, or check the name and GANTRY_DIR: in " +
                                       directory_.path() + " there is no other channel");
}

TEST_F(ManyToOne, AListShowsIt) {
  Inbox inbox = open();
  auto out = connect();
  ASSERT_TRUE(out->send(pattern(1000, 1), soon()));
  ASSERT_TRUE(inbox.receive(soon()));
  const auto list = list_channels(directory_.path());
  ASSERT_TRUE(list && list->size() == 1);
  const ChannelStatus& status = list->front();
  EXPECT_TRUE(status.answered) << status.silence;
  EXPECT_EQ(status.name, "in");
  EXPECT_TRUE(status.is_inbox);
  EXPECT_FALSE(status.is_server);
  EXPECT_EQ(status.consumers.at(0).who, own_end_name());
  EXPECT_EQ(status.producer_pid, 0);
  ASSERT_EQ(status.consumers.size(), 1u);
  EXPECT_EQ(status.consumers[0].pid, ::getpid());
  EXPECT_EQ(status.consumers[0].state, ProcessState::running);
  EXPECT_EQ(status.consumers[0].metrics.messages, 1u);
  EXPECT_EQ(status.senders_limit, options_.producers);
  ASSERT_EQ(status.senders.size(), 1u);
  EXPECT_EQ(status.senders[0].pid, ::getpid());
  EXPECT_EQ(status.senders[0].state, ProcessState::running);
  EXPECT_EQ(status.senders[0].messages, 1u);
  EXPECT_EQ(status.senders[0].bytes, 1000u);
  EXPECT_LE(status.senders[0].idle, status.senders[0].joined);
  EXPECT_TRUE(status.notes().empty());
}

TEST_F(ManyToOne, TheTokenIsAsked) {
  options_.channel.access.token = "sesame";
  Inbox inbox = open();
  for (const char* wrong : {"", "Sesame", "sesame2"}) {
    channel_.access.token = wrong;
    const auto refused = connect();
    ASSERT_FALSE(refused) << wrong;
    EXPECT_EQ(refused.error().code, Code::permission_denied) << refused.error().message;
  }
  channel_.access.token = "sesame";
  const auto out = connect();
  EXPECT_TRUE(out) << out.error().message;
}

TEST_F(ManyToOne, ItsSocketHasTheModeAskedFor) {
  options_.channel.access.socket_mode = 0666;
  const Inbox inbox = open();
  struct stat facts{};
  ASSERT_EQ(::stat((directory_.path() + "/in.sock").c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777u, 0666u);
}

TEST_F(ManyToOne, AProducerFindsTheSuccessorWhichGetsWhatWasLeft) {
  std::optional<Inbox> inbox(open());
  auto out = *connect();
  ASSERT_TRUE(out.send(pattern(kMiB, 1), soon()));
  ASSERT_TRUE(out.send(pattern(10, 2), soon()));
  EXPECT_TRUE(inbox->receive(soon()));
  inbox.reset();
  Result<void> sent;
  while (sent || sent.error().code == Code::timed_out)  // full, and not yet told
    sent = out.send(pattern(10, 3), Deadline::now());
  EXPECT_EQ(sent.error().code, Code::peer_gone);
  EXPECT_EQ(out.wait_for_consumer(Deadline::now()).error().code, Code::timed_out);
  EXPECT_TRUE(directory_.is_empty());
  inbox.emplace(open());
  ASSERT_TRUE(out.wait_for_consumer(soon()));
  std::thread sender([&] { EXPECT_TRUE(out.send(pattern(10, 4), soon())); });
  EXPECT_TRUE(same(inbox->receive(soon())->message.bytes(), pattern(10, 2)));
  Result<Inbox::Delivery> last = inbox->receive(soon());
  while (last && same(last->message.bytes(), pattern(10, 3))) last = inbox->receive(soon());
  sender.join();
  ASSERT_TRUE(last);
  EXPECT_TRUE(same(last->message.bytes(), pattern(10, 4)));
}

TEST_F(ManyToOne, ItsEndIsToldAsAnInboxes) {
  std::optional<Inbox> inbox(open());
  Producer out = *connect();
  inbox.reset();
  Result<void> sent = out.send(pattern(10, 1), soon());
  for (; sent; sent = out.send(pattern(10, 1), soon())) std::this_thread::yield();
  EXPECT_EQ(sent.error().code, Code::peer_gone);
  EXPECT_EQ(sent.error().message,
            "channel 'in': the inbox (process " + std::to_string(::getpid()) + ") is gone");
}

TEST_F(ManyToOne, AThousandComeAndGoAndLeaveNothing) {
  Inbox inbox = open();
  {
    const auto warm = connect();
  }
  while (departed_.empty()) static_cast<void>(inbox.receive(Deadline::now()));
  const std::size_t before = test::descriptors_at_rest();
  for (int i = 0; i < 1000; ++i) {
    auto out = connect();
    ASSERT_TRUE(out) << out.error().message;
    ASSERT_TRUE(out->send(pattern(8, 1), soon()));
    ASSERT_TRUE(inbox.receive(soon()));
  }
  while (departed_.size() < 1001) ASSERT_EQ(code_now(inbox), Code::timed_out);
  EXPECT_EQ(test::descriptors_at_rest(), before);
}

TEST_F(ManyToOne, ASenderThatWaitsIsShownWithItsCredits) {
  Inbox inbox = open();
  auto out = connect();
  while (inbox.senders().empty()) ASSERT_EQ(code_now(inbox), Code::timed_out);
  std::vector<Message> held;
  for (std::uint64_t i = 0; i < channel_.slots; ++i) ASSERT_TRUE(out->send(pattern(100'000, i)));
  const auto shown = [this] { return list_channels(directory_.path())->at(0).senders.at(0); };
  SenderStatus sender = shown();
  EXPECT_EQ(sender.credits, channel_.slots);
  EXPECT_EQ(sender.unread, channel_.slots);
  EXPECT_EQ(sender.held, 0u);
  EXPECT_FALSE(sender.waits);
  for (unsigned i = 0; i < channel_.slots; ++i)
    held.push_back(std::move(inbox.receive(soon())->message));
  std::thread waiting([&] { EXPECT_TRUE(out->send(pattern(100'000, 1), soon())); });
  for (const Deadline hung = soon(); !(sender = shown()).waits && !hung.passed();)
    std::this_thread::yield();
  EXPECT_TRUE(sender.waits);
  EXPECT_EQ(sender.held, channel_.slots);
  EXPECT_EQ(sender.unread, 0u);
  held.clear();
  waiting.join();
}

TEST(SenderNotes, SayWhatASenderHasWaitedForLong) {
  ChannelStatus status;
  status.answered = true;
  status.senders.push_back({.pid = 7,
                            .idle = std::chrono::seconds(5),
                            .credits = 8,
                            .unread = 3,
                            .held = 5,
                            .waits = true});
  EXPECT_THAT(
      status.notes(),
      testing::ElementsAre(
          "sender 7 waits: the receiver holds 5 of its 8 messages, has 3 unread, and took its "
          "last message 5.0 s ago"));
  status.senders[0].idle = std::chrono::seconds(1);
  EXPECT_THAT(status.notes(), testing::IsEmpty());
}

TEST_F(ManyToOne, DroppedItLeavesNothing) {
  const std::size_t before = test::open_descriptors();
  {
    Inbox inbox = open();
    std::vector<Producer> out;
    for (int i = 0; i < 20; ++i) out.push_back(*connect());
    static_cast<void>(inbox.receive(Deadline::now()));
    out.push_back(*connect());  // it has joined, and nobody has asked for it
  }
  EXPECT_EQ(test::open_descriptors(), before);
  EXPECT_TRUE(directory_.is_empty());
}

TEST_F(ManyToOne, AnInterruptEndsItsWaiting) {
  const Fd interrupt = *make_event();
  options_.channel.interrupt_descriptor = interrupt.get();
  Inbox inbox = open();
  ring(interrupt.get());
  EXPECT_EQ(inbox.receive(soon()).error().code, Code::interrupted);
}

}  // namespace
}  // namespace gantry
