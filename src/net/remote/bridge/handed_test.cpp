// Connections that a bridge hands to the process whose channel, inbox or service it is.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <filesystem>

#include "core/channel/test_child.hpp"
#include "core/channel/wire/protocol.hpp"
#include "net/remote/bridge/hand_over.hpp"
#include "net/remote/bridge/test_calls.hpp"
#include "net/remote/session/remote_record.hpp"

namespace gantry {
namespace {

using test::CutNetwork;
using test::expect_stream;
using test::pattern;
using test::same;
using test::size_of_some;
using test::soon;
using testing::HasSubstr;

class Handed : public test::RemoteCalls {
 protected:
  void expect_message(Consumer& in, Bytes size, std::uint64_t seed) {
    const auto message = in.receive(soon());
    ASSERT_TRUE(message) << to_string(message.error());
    EXPECT_TRUE(same(message->bytes(), pattern(size, seed))) << size;
  }
  /// A line to the owner of "frames", as a bridge has one.
  [[nodiscard]] Fd line_to_owner() const {
    Fd line = connect_to(there_.path(), "frames.sock").value();
    EXPECT_TRUE(send_hello(line.get(), Purpose::hand));
    return line;
  }
  [[nodiscard]] static HandOffer offer_of(std::uint8_t session) {
    HandOffer offer;
    offer.request.channel = "frames";
    offer.session.fill(std::byte{session});
    offer.patience = offer.stall_limit = std::chrono::milliseconds(1000);
    return offer;
  }
  [[nodiscard]] Fd caller_of_bridge() const {
    return connect_tcp(parse_host(bridge_->address()).value(), -1, soon()).value();
  }
  /// Calls the bridge as a consumer of "frames", and is welcomed.
  [[nodiscard]] Fd welcomed_caller(RemoteAnswer& answer,
                                   std::chrono::milliseconds stall_limit = {}) const {
    Fd caller = caller_of_bridge();
    RemoteRequest request;
    request.channel = "frames";
    request.stall_limit = stall_limit;
    answer = call_bridge(caller.get(), test::kToken, request, -1, soon()).value();
    return caller;
  }
};

TEST_F(Handed, AConsumersSessionOutlivesItsBridge) {
  auto out = test::make_producer("frames", there()).value();
  auto in = consume(name("frames")).value();
  EXPECT_THAT(in.explain().link, HasSubstr("served by the channel's process"));
  stop_bridge();
  for (std::uint64_t i = 0; i < 20; ++i) {
    ASSERT_TRUE(out.send(pattern(7'000 * i, i), {.deadline = soon()}));
    expect_message(in, 7'000 * i, i);
  }
}

TEST_F(Handed, AnInboxsSessionOutlivesItsBridge) {
  InboxOptions options;
  options.channel = test::consumer_options(there());
  auto inbox = Inbox::open("frames", options).value();
  auto out = connect_remote_inbox(name("frames").text(), here(),
                                  std::make_shared<test::PlainEngine>(), soon())
                 .value();
  EXPECT_THAT(out.explain(0).link, HasSubstr("served by the channel's process"));
  stop_bridge();
  for (std::uint64_t i = 0; i < 20; ++i) {
    ASSERT_TRUE(out.send(pattern(7'000 * i, i), {.deadline = soon()}));
    const auto got = inbox.receive(soon());
    ASSERT_TRUE(got) << to_string(got.error());
    EXPECT_TRUE(same(got->message.bytes(), pattern(7'000 * i, i)));
  }
}

TEST_F(Handed, AServicesSessionOutlivesItsBridge) {
  Server server = serve();
  Client client = connect();
  stop_bridge();
  for (std::uint64_t i = 0; i < 20; ++i) {
    auto pending = ask(client, pattern(3'000 * i, i));
    auto request = server.next(soon());
    ASSERT_TRUE(request) << to_string(request.error());
    answer(*request, request->message().bytes());
    expect_answer(pending, pattern(3'000 * i, i));
  }
}

// Its messages wait in the bridge's process, whatever becomes of a reader.
TEST_F(Handed, TheBridgeServesAProducerOfAnotherHost) {
  Producer out =
      open_remote_producer(name("frames").text(), here(), std::make_shared<test::PlainEngine>())
          .value();
  ASSERT_TRUE(out.send(pattern(5'000, 1), {.deadline = soon()}));
  auto in = Consumer::open("frames", test::consumer_options(there()), soon()).value();
  EXPECT_THAT(out.explain(0).link,
              HasSubstr("served by the bridge: it has the name of a producer of another host"));
  expect_message(in, 5'000, 1);
}

// The channel's process hears of the newer connection although nothing ended the older one; or it
// waits until its caller has noticed, too.
TEST_F(Handed, ACutThatOneEndAloneNoticesLosesNothing) {
  patience_ = std::chrono::milliseconds(100);
  stop_bridge();
  start_bridge("127.0.0.1:0");
  stall_limit_ = std::chrono::milliseconds(900);  // of the caller
  patience_ = std::chrono::milliseconds(20'000);
  CutNetwork network(bridge_->address());
  auto out = test::make_producer("frames", there()).value();
  auto in = consume(name("frames", network.address())).value();
  ASSERT_TRUE(out.send(pattern(500, 1), {.deadline = soon()}));
  expect_message(in, 500, 1);
  for (std::uint64_t i = 2; i < 6; ++i) {  // each time over a connection that stands
    i % 2 == 0 ? network.cut_near_half() : network.cut_far_half();
    ASSERT_TRUE(out.send(pattern(40'000, i), {.deadline = soon()}));
    expect_message(in, 40'000, i);
  }
  EXPECT_EQ(network.cuts(), 4);
}

TEST_F(Handed, ABridgeThatComesBackHandsTheNextConnectionToTheSameSession) {
  auto out = test::make_producer("frames", there()).value();
  const std::string address = bridge_->address();
  CutNetwork network(address);
  auto in = consume(name("frames", network.address())).value();
  ASSERT_NO_FATAL_FAILURE(expect_stream(out, in, 40, size_of_some, [&](std::uint64_t i) {
    if (i != 10) return;
    stop_bridge();
    network.cut_after(0);
    start_bridge(address);
  }));
  EXPECT_EQ(network.cuts(), 1);
}

// A session whose process has no place for an offer just now is not given up.
TEST_F(Handed, ASessionComesBackAlthoughItsProcessIsFullOfOffers) {
  auto out = test::make_producer("frames", there()).value();
  CutNetwork network(bridge_->address());
  auto in = consume(name("frames", network.address())).value();
  std::vector<Fd> lines;
  while (lines.size() < 16) {  // which hand nothing over
    lines.push_back(line_to_owner());
    ASSERT_TRUE(send_packet(lines.back().get(), offer_of(9).encode()));
    std::array<std::byte, RemoteAnswer::kMostBytes> buffer{};
    ASSERT_TRUE(receive_packet(lines.back().get(), buffer, soon()));
  }
  network.cut_after(0);
  for (const Deadline limit = soon(); network.cuts() == 0 && !limit.passed();)
    std::this_thread::yield();
  RemoteAnswer answer;
  const Fd other = welcomed_caller(answer);
  EXPECT_THAT(answer.served, HasSubstr("takes no more callers"));
  lines.clear();
  ASSERT_TRUE(out.send(pattern(9'000, 1), {.deadline = soon()}));
  expect_message(in, 9'000, 1);
}

// Each is a thread of its process for a while, of which there are not many.
TEST_F(Handed, LinesThatSayNothingKeepNoBridgeOut) {
  auto out = test::make_producer("frames", there()).value();
  std::vector<Fd> lines;
  while (lines.size() < 40) lines.push_back(line_to_owner());
  std::array<std::byte, 8> buffer{};
  EXPECT_FALSE(receive_packet(lines[23].get(), buffer, soon()).value().size);  // in their order
  EXPECT_EQ(receive_packet(lines[24].get(), buffer, Deadline::now()).error().code, Code::timed_out);
  auto in = consume(name("frames")).value();
  EXPECT_THAT(in.explain().link, HasSubstr("served by the channel's process"));
}

TEST_F(Handed, CallersLeaveTheProcessHalfOfItsDescriptors) {
  ProducerOptions options = there();
  options.consumers = 16;
  auto out = test::make_producer("frames", options).value();
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit few{320, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  std::vector<Fd> callers;
  for (RemoteAnswer answer; callers.size() < 11;) {
    callers.push_back(welcomed_caller(answer));
    EXPECT_TRUE(out.wait_for_consumer(soon(), static_cast<unsigned>(callers.size())));
    EXPECT_THAT(answer.served, HasSubstr(callers.size() < 11 ? "served by the channel's process"
                                                             : "descriptors for no more"));
  }
  ::setrlimit(RLIMIT_NOFILE, &before);
}

// Its process has no descriptor just now, or never knew of the session.
TEST_F(Handed, OnlyAnOwnerThatServesNobodyHasItsSessionsForgotten) {
  const Fd owner = listen_at(there_.path(), "frames.sock").value();
  const auto answer_to = [&](Code reason) {
    Fd line;
    std::jthread refuses([&] {
      pollfd entry{owner.get(), POLLIN, 0};
      ::poll(&entry, 1, 60'000);
      line.reset(::accept4(owner.get(), nullptr, nullptr, SOCK_CLOEXEC));
      refuse(line.get(), reason);
    });
    RemoteRequest again;
    again.channel = "frames";
    again.session.fill(std::byte{7});
    const Fd caller = caller_of_bridge();
    return call_bridge(caller.get(), test::kToken, again, -1, soon()).error().code;
  };
  EXPECT_EQ(answer_to(Code::system), Code::busy);
  EXPECT_EQ(answer_to(Code::unsupported), Code::permission_denied);
}

// It is given up after the bridge's patience and stall limit.
TEST_F(Handed, ACallerThatGivesItselfMuchTimeDoesNotHoldUpTheCloseOfTheOwner) {
  patience_ = stall_limit_ = std::chrono::milliseconds(100);
  stop_bridge();
  start_bridge("127.0.0.1:0");
  for (const unsigned messages : {0, 3, 12}) {  // on their way, or behind those
    ProducerOptions options = there();
    options.slots = 16;
    auto out = test::make_producer("frames", options).value();
    RemoteAnswer answer;
    Fd caller = welcomed_caller(answer, RemoteRequest::kLongestStallLimit);
    ASSERT_TRUE(out.wait_for_consumer(soon(), 1));
    if (messages > 3) caller.reset();
    for (unsigned i = 0; i < messages; ++i) ASSERT_TRUE(out.send(pattern(100, i)));
    caller.reset();
    const auto closed = out.close(soon());
    if (messages == 0)
      EXPECT_TRUE(closed) << to_string(closed.error());
    else
      EXPECT_EQ(closed.error().code, Code::peer_gone) << to_string(closed.error());
  }
}

// It is given up while close() waits for a reader of this host.
TEST_F(Handed, ACallerThatIsGivenUpBesideASlowReaderIsToldByClose) {
  patience_ = stall_limit_ = std::chrono::milliseconds(100);
  stop_bridge();
  start_bridge("127.0.0.1:0");
  ProducerOptions options = there();
  options.consumers = 2;
  auto out = test::make_producer("frames", options).value();
  RemoteAnswer answer;
  Fd caller = welcomed_caller(answer, RemoteRequest::kLongestStallLimit);
  auto in = Consumer::open("frames", test::consumer_options(there()), soon()).value();
  ASSERT_TRUE(out.wait_for_consumer(soon(), 2));
  for (unsigned i = 0; i < 3; ++i) ASSERT_TRUE(out.send(pattern(100, i)));
  caller.reset();
  std::jthread reads([&] {
    const auto readers = [&] { return list_channels(there_.path())->at(0).consumers.size(); };
    for (const Deadline late = soon(); readers() > 1 && !late.passed();) std::this_thread::yield();
    for (unsigned i = 0; i < 3; ++i) expect_message(in, 100, i);
  });
  const auto closed = out.close(soon());
  EXPECT_EQ(closed.error().code, Code::peer_gone) << to_string(closed.error());
}

// The end of the stream is a trip behind its last message.
TEST_F(Handed, AnInboxThatLeavesWithTheLastMessageLetsItsSenderClose) {
  for (int i = 0; i < 10; ++i) {
    InboxOptions options;
    options.channel = test::consumer_options(there());
    std::optional<Inbox> inbox = Inbox::open("frames", options).value();
    auto out = connect_remote_inbox(name("frames").text(), here(),
                                    std::make_shared<test::PlainEngine>(), soon())
                   .value();
    std::jthread sends([&] {
      ASSERT_TRUE(out.send(pattern(500, 1), {.deadline = soon()}));
      const auto closed = out.close(soon());
      EXPECT_TRUE(closed) << to_string(closed.error());
    });
    EXPECT_TRUE(inbox->receive(soon()));
    inbox.reset();
  }
}

TEST_F(Handed, ASessionOfTheBridgeSaysWhereItIsServedAfterABreak) {
  CutNetwork network(bridge_->address());
  ProducerOptions options = here();
  options.consumers = 2;
  Producer out = open_remote_producer(name("frames", network.address()).text(), options,
                                      std::make_shared<test::PlainEngine>())
                     .value();
  network.cut_after(0);
  for (const Deadline limit = soon(); network.cuts() == 0 && !limit.passed();)
    std::this_thread::yield();
  ASSERT_TRUE(out.send(pattern(5'000, 1), {.deadline = soon()}));
  auto in = Consumer::open("frames", test::consumer_options(there()), soon()).value();
  expect_message(in, 5'000, 1);
  EXPECT_THAT(out.explain(0).link, HasSubstr("served by the bridge: "));
}

// A bridge that has a caller call again and again costs it one connection at a time.
TEST_F(Handed, ABridgeThatAlwaysSaysAgainHoldsOneConnectionOfItsCaller) {
  const Fd listener = listen_tcp(parse_host("127.0.0.1:0").value()).value();
  std::jthread caller([&] {
    const auto in = consume(name("frames", own_address(listener.get())));
    EXPECT_EQ(in.error().code, Code::closed) << to_string(in.error());
  });
  std::vector<Fd> sockets;
  std::vector<std::unique_ptr<Link>> links;  // nothing ends at this end
  for (int i = 0; i < 8; ++i) {
    pollfd entry{listener.get(), POLLIN, 0};
    ASSERT_EQ(::poll(&entry, 1, 60'000), 1);
    Fd socket(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    ASSERT_TRUE(socket);
    for (const Fd& former : sockets) {
      pollfd end{former.get(), POLLRDHUP, 0};
      EXPECT_EQ(::poll(&end, 1, 0), 1) << "it has not ended";
    }
    Admission admission(socket.get(), test::kToken);
    ASSERT_TRUE(admission.hear(soon()));
    ASSERT_TRUE(admission.answer({}, soon()));
    sockets.emplace_back(::fcntl(socket.get(), F_DUPFD_CLOEXEC, 0));
    links.push_back(link_over(RemotePath::stream, std::move(socket),
                              std::make_shared<test::PlainEngine>(),
                              {"the caller", std::chrono::seconds(60)})
                        .value());
    const auto record = i < 7 ? say_number(RemoteKind::again, 0)
                              : say_error(RemoteKind::stopped, {Code::closed, "enough", {}});
    ASSERT_TRUE(links.back()->send_control(record, soon()));
  }
}

TEST_F(Handed, OnlyTheLastOfTwoCallersOfASessionGoesOnWithIt) {
  auto out = test::make_producer("frames", there()).value();
  RemoteAnswer first;
  Fd caller = welcomed_caller(first);
  caller.reset();  // its connection broke
  RemoteRequest again;
  again.channel = "frames";
  again.session = first.session;
  std::vector<Fd> callers;
  while (callers.size() < 2) {
    Fd one = connect_tcp(parse_host(bridge_->address()).value(), -1, soon()).value();
    const auto answer = call_bridge(one.get(), test::kToken, again, -1, soon());
    // It may not have noticed yet, or the first of both has the session by now.
    if (answer) callers.push_back(std::move(one));
  }
  const auto has_ended = [](const Fd& socket) {
    std::byte byte{};
    return ::recv(socket.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
  };
  const Deadline limit = soon();
  while (!has_ended(callers[0]) && !limit.passed()) std::this_thread::yield();
  EXPECT_TRUE(has_ended(callers[0]));
  EXPECT_FALSE(has_ended(callers[1]));
}

TEST_F(Handed, ACallerThatSpeaksNonsenseAfterItsAdmissionEndsItsSessionAlone) {
  ProducerOptions options = there();
  options.consumers = 2;
  auto out = test::make_producer("frames", options).value();
  auto in = consume(name("frames")).value();
  RemoteAnswer answer;
  const Fd caller = welcomed_caller(answer);
  ASSERT_TRUE(send_exactly(caller.get(), pattern(4'000, 3), soon()));
  std::byte byte{};
  Result<void> heard;
  while (heard) heard = receive_exactly(caller.get(), {&byte, 1}, -1, soon());
  EXPECT_EQ(heard.error().code, Code::peer_gone) << to_string(heard.error());
  ASSERT_TRUE(out.send(pattern(9'000, 1), {.deadline = soon()}));
  expect_message(in, 9'000, 1);
}

TEST_F(Handed, WhatIsNoConnectionIsNotTaken) {
  auto out = test::make_producer("frames", there()).value();
  const HandOffer offer = offer_of(7);
  const Fd memory(::memfd_create("gantry-test", MFD_CLOEXEC));
  const Fd datagrams(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const Fd unconnected(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  for (const Fd* given : {&memory, &datagrams, &unconnected}) {
    const Fd line = line_to_owner();
    ASSERT_TRUE(send_packet(line.get(), offer.encode()));
    std::array<std::byte, 4096> buffer{};
    const auto answered = receive_packet(line.get(), buffer, soon());
    ASSERT_TRUE(answered);
    ASSERT_TRUE(RemoteAnswer::decode(std::span(buffer).first(answered->size)));
    const std::byte said{1};
    const int descriptor = given->get();
    ASSERT_TRUE(send_packet(line.get(), {&said, 1}, {&descriptor, 1}));
    EXPECT_EQ(receive_packet(line.get(), buffer, soon()).value().size, 0u) << "it hangs up";
  }
  auto in = consume(name("frames")).value();
  ASSERT_TRUE(out.send(pattern(9'000, 1), {.deadline = soon()}));
  expect_message(in, 9'000, 1);
}

TEST_F(Handed, NonsenseOverABridgesLineEndsTheLineAlone) {
  auto out = test::make_producer("frames", there()).value();
  for (std::uint64_t i = 1; i < 40; ++i) {
    const Fd line = line_to_owner();
    static_cast<void>(send_packet(line.get(), pattern(i * 11, i)));
    std::array<std::byte, 4096> buffer{};
    const auto answered = receive_packet(line.get(), buffer, soon());
    EXPECT_TRUE(!answered || answered->size == 0);
  }
  auto in = consume(name("frames")).value();
  ASSERT_TRUE(out.send(pattern(9'000, 1), {.deadline = soon()}));
  expect_message(in, 9'000, 1);
}

// Somebody has the name who does not answer: others are served meanwhile.
TEST_F(Handed, AnOwnerThatDoesNotAnswerHoldsNobodyElseUp) {
  const Fd stopped = listen_at(there_.path(), "stopped.sock").value();
  auto out = test::make_producer("frames", there()).value();
  std::jthread waits([&] {
    const auto none = consume(name("stopped"), Deadline::after(std::chrono::seconds(3)));
    EXPECT_FALSE(none);
  });
  while (!has_said("consumes 'stopped'")) std::this_thread::yield();
  auto in = consume(name("frames")).value();
  EXPECT_THAT(in.explain().link, HasSubstr("served by the channel's process"));
  ASSERT_TRUE(out.send(pattern(9'000, 1), {.deadline = soon()}));
  expect_message(in, 9'000, 1);
}

TEST_F(Handed, AnOwnerMayCloseAtAnyTimeOfAHandOver) {
  std::atomic<bool> is_over{false};
  std::jthread calls([&] {
    while (!is_over)
      static_cast<void>(consume(name("frames"), Deadline::after(std::chrono::milliseconds(20))));
  });
  for (int i = 0; i < 200; ++i) {
    auto out = test::make_producer("frames", there());
    ASSERT_TRUE(out) << to_string(out.error());
    static_cast<void>(out->send(pattern(100, 1), {.deadline = Deadline::now()}));
    if (i % 4 == 0)
      static_cast<void>(out->wait_for_consumer(Deadline::after(std::chrono::milliseconds(5)), 1));
  }
  is_over = true;
}

// Those who come when the stream has ended hear so at once, again and again.
TEST_F(Handed, CallersThatKeepComingDoNotHoldUpTheCloseOfTheOwner) {
  ProducerOptions options = there();
  options.consumers = 8;
  auto out = test::make_producer("frames", options).value();
  std::atomic<bool> is_over{false};
  std::vector<std::jthread> callers;
  for (int i = 0; i < 6; ++i)
    callers.emplace_back([&] {
      while (!is_over) {
        auto in = consume(name("frames"), Deadline::after(std::chrono::seconds(1)));
        if (!in) continue;
        EXPECT_EQ(in->receive(soon()).error().code, Code::closed);
      }
    });
  EXPECT_TRUE(out.wait_for_consumer(soon(), 6));
  const auto closed = out.close(soon());
  EXPECT_TRUE(closed) << to_string(closed.error());
  is_over = true;
}

TEST_F(Handed, AForkOfTheOwnerDoesNotTouchTheConnection) {
  std::optional<Producer> out = test::make_producer("frames", there()).value();
  auto in = consume(name("frames")).value();
  InboxOptions options;
  options.channel = test::consumer_options(there());
  std::optional<Inbox> inbox = Inbox::open("work", options).value();
  auto worker = connect_remote_inbox(name("work").text(), here(),
                                     std::make_shared<test::PlainEngine>(), soon())
                    .value();
  test::Child child([&](const test::Child&) {
    out.reset();
    inbox.reset();
  });
  EXPECT_EQ(child.wait(), 0);
  for (std::uint64_t i = 0; i < 3; ++i) {
    ASSERT_TRUE(out->send(pattern(9'000, i), {.deadline = soon()}));
    expect_message(in, 9'000, i);
    ASSERT_TRUE(worker.send(pattern(7'000, i), {.deadline = soon()}));
    const auto got = inbox->receive(soon());
    ASSERT_TRUE(got) << to_string(got.error());
    EXPECT_TRUE(same(got->message.bytes(), pattern(7'000, i)));
  }
}

/// The channel is a process's of its own.
class HandedToProcess : public Handed {
 protected:
  /// Forks before there are threads.
  void SetUp() override {
    if (auto able = check_token(test::kToken); !able) GTEST_SKIP() << to_string(able.error());
    child_ = ::fork();
    if (child_ == 0) {
      produce();
      std::exit(0);
    }
    start_bridge("127.0.0.1:0");
  }
  void TearDown() override {
    if (child_ > 0) ::kill(child_, SIGKILL);
    if (child_ > 0) ::waitpid(child_, nullptr, 0);
    test::RemoteCalls::TearDown();
  }
  void produce() {
    Producer out = make();
    if (!out.wait_for_consumer(soon(), 1)) std::exit(1);
    for (std::uint64_t i = 0; i < kMessages; ++i)
      if (!out.send(pattern(kBytes, i), {.deadline = soon()})) std::exit(2);
    end(out);
  }
  [[nodiscard]] virtual Producer make() const {
    return test::make_producer("frames", there()).value();
  }
  virtual void end(Producer& out) const {
    if (!out.close(soon())) std::exit(3);
  }
  static constexpr std::uint64_t kMessages = 100;
  static constexpr Bytes kBytes = 100'000;
  pid_t child_ = -1;
};

TEST_F(HandedToProcess, WhatItSentArrivesAlthoughItExits) {
  auto in = consume(name("frames")).value();
  EXPECT_THAT(in.explain().link, HasSubstr("served by the channel's process"));
  for (std::uint64_t i = 0; i < kMessages; ++i) expect_message(in, kBytes, i);
  EXPECT_EQ(in.receive(soon()).error().code, Code::closed);
  int status = -1;
  const pid_t child = std::exchange(child_, -1);
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

class DroppedByProcess : public HandedToProcess {
  void end(Producer&) const override {}
};

// The end of the process waits for what the dropped producer had sent.
TEST_F(DroppedByProcess, WhatItSentArrivesAlthoughItExits) {
  auto in = consume(name("frames")).value();
  for (std::uint64_t i = 0; i < kMessages; ++i) expect_message(in, kBytes, i);
  EXPECT_EQ(in.receive(soon()).error().code, Code::peer_gone);
}

class ExitsInTheMiddle : public HandedToProcess {
  void end(Producer&) const override { std::exit(0); }
};

// A producer that was not even dropped.
TEST_F(ExitsInTheMiddle, WhatItSentArrives) {
  auto in = consume(name("frames")).value();
  for (std::uint64_t i = 0; i < kMessages; ++i) expect_message(in, kBytes, i);
  EXPECT_EQ(in.receive(soon()).error().code, Code::peer_gone);
}

class OfARelativeFolder : public HandedToProcess {
  [[nodiscard]] Producer make() const override {
    ProducerOptions options = there();
    const std::filesystem::path folder = options.directory;
    if (::chdir(folder.parent_path().c_str()) != 0) std::exit(4);
    options.directory = folder.filename();
    auto out = test::make_producer("frames", options).value();
    if (::chdir("/") != 0) std::exit(4);
    return out;
  }
};

TEST_F(OfARelativeFolder, ItsProcessServesCallersAlthoughItWentElsewhere) {
  auto in = consume(name("frames")).value();
  EXPECT_THAT(in.explain().link, HasSubstr("served by the channel's process"));
  for (std::uint64_t i = 0; i < kMessages; ++i) expect_message(in, kBytes, i);
  EXPECT_EQ(in.receive(soon()).error().code, Code::closed);
}

TEST_F(HandedToProcess, ItsDeathIsHeardAtOnce) {
  auto in = consume(name("frames")).value();
  expect_message(in, kBytes, 0);
  ::kill(child_, SIGKILL);
  Result<Message> last;
  for (;;) {
    last = in.receive(soon());
    if (!last) break;
  }
  EXPECT_EQ(last.error().code, Code::peer_gone) << to_string(last.error());
  EXPECT_THAT(last.error().message, HasSubstr("its process ended it, or is gone"));
}

// Bridges made offers while it did not run, and have given up.
TEST_F(HandedToProcess, AnOfferThatComesLateDoesNotCutItsSession) {
  RemoteAnswer answer;
  Fd caller;
  while (answer.served.find("served by the channel's process") == std::string::npos)
    caller = welcomed_caller(answer);  // it may not have the name yet
  std::byte byte{};
  ASSERT_TRUE(receive_exactly(caller.get(), {&byte, 1}, -1, soon()));
  ASSERT_EQ(::kill(child_, SIGSTOP), 0);
  ASSERT_EQ(::waitpid(child_, nullptr, WUNTRACED), child_);
  HandOffer offer = offer_of(1);
  offer.request.session = answer.session;
  const Fd line = line_to_owner();
  ASSERT_TRUE(send_packet(line.get(), offer.encode()));
  ::shutdown(line.get(), SHUT_WR);
  ASSERT_EQ(::kill(child_, SIGCONT), 0);
  std::array<std::byte, 4096> buffer{};
  const auto answered = receive_packet(line.get(), buffer, soon());
  EXPECT_TRUE(!answered || answered->size == 0);
  pollfd end{caller.get(), POLLRDHUP, 0};
  EXPECT_EQ(::poll(&end, 1, 0), 0) << "its connection was cut";
}

}  // namespace
}  // namespace gantry
