#include <gmock/gmock.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <array>
#include <gantry/call.hpp>
#include <gantry/runtime.hpp>
#include <optional>
#include <thread>

#include "core/base/os/fd.hpp"
#include "core/base/test_fork.hpp"
#include "core/channel/consumer/received_slabs.hpp"
#include "core/channel/test_support.hpp"
#include "core/memory/fake_registrar_test.hpp"

// What devices know of received memory: each slab once, for reading, as long as it is mapped.
namespace gantry {
namespace {

using test::consumer_options;
using test::make_producer;
using test::options_in;
using test::pattern;
using test::same;
using test::soon;
using testing::HasSubstr;

class Registered : public testing::Test {
 protected:
  ConsumerOptions reading() {
    ConsumerOptions options = consumer_options(options_);
    options.registrars = {first_, second_};
    return options;
  }
  Producer producer(const char* name = "frames") { return *make_producer(name, options_); }
  Consumer consumer() { return *Consumer::open("frames", reading(), soon()); }

  /// A message of `size` bytes that lies in a slab of its own.
  static Message exchange(Producer& out, Consumer& in, Bytes size, std::uint64_t seed) {
    EXPECT_TRUE(out.send(pattern(size, seed), soon()));
    auto message = in.receive(soon());
    EXPECT_TRUE(message) << message.error().message;
    return message ? std::move(*message) : Message();
  }
  /// What the device sees by the message's key is what was sent.
  static bool device_sees(const FakeRegistrar& registrar, const Message& message,
                          ConstByteSpan sent, std::size_t segment = 0) {
    const auto key = message.key_for(registrar, segment);
    if (!key || !*key) return false;
    const auto seen = registrar.look(**key, sent.size());
    return seen && same(*seen, sent) && seen->data() == message.segment(segment).bytes.data();
  }
  void expect_nothing_left() const {
    for (const auto& registrar : {first_, second_}) {
      EXPECT_EQ(registrar->live(), 0u);
      EXPECT_EQ(registrar->wrong(), 0u);
    }
  }

  test::ScratchDirectory directory_;
  ProducerOptions options_ = options_in(directory_);
  std::shared_ptr<FakeRegistrar> first_ = FakeRegistrar::create({.name = "first"});
  std::shared_ptr<FakeRegistrar> second_ = FakeRegistrar::create({.name = "second"});
};

// The second slab is refused.
TEST_F(Registered, AListSaysWhatAPoolHasRegistered) {
  options_.pool.slab_bytes = kMiB;
  options_.pool.registrars = {first_};
  first_->fail_at(2, Code::out_of_memory);
  Producer out = producer();
  std::vector<Loan> loans;
  for (int i = 0; i < 2; ++i) loans.push_back(*out.loan(900'000));
  loans.clear();
  const auto listed = list_channels(directory_.path());
  ASSERT_TRUE(listed);
  ASSERT_EQ(listed->size(), 1u);
  EXPECT_EQ(listed->front().peak_bytes, 1'800'000u);
  EXPECT_EQ(listed->front().registrations, 1u);
  EXPECT_EQ(listed->front().refused_registrations, 1u);
  EXPECT_THAT(out.explain().text(), HasSubstr("1 registration, 1 refused\n"));
}

TEST_F(Registered, AKeyLeadsTheDeviceToTheMessage) {
  Producer out = producer();
  Consumer in = consumer();
  for (std::uint64_t i = 0; i < 200; ++i) {
    const Bytes size = i % 5 == 0 ? 300'000 : 5000 + i;
    const Message message = exchange(out, in, size, i);
    ASSERT_TRUE(device_sees(*first_, message, pattern(size, i))) << i;
    ASSERT_TRUE(device_sees(*second_, message, pattern(size, i))) << i;
  }
  EXPECT_EQ(first_->report().made, out.pool().report().slabs) << "each slab once";
  EXPECT_EQ(first_->report().reused, 0u);
  EXPECT_EQ(first_->live_for_reading(), first_->live());
}

TEST_F(Registered, WhatWasCopiedOutHasNoKey) {
  Producer out = producer();
  Consumer in = consumer();
  for (const Bytes size : {Bytes{0}, Bytes{1}, Message::kInlineBytes}) {
    const Message message = exchange(out, in, size, 1);
    const auto key = message.key_for(*first_);
    ASSERT_TRUE(key);
    EXPECT_FALSE(*key) << size;
  }
  const auto payload = pattern(400'000, 2);
  std::thread sending(
      [&] { EXPECT_TRUE(out.send(payload, {.deadline = soon(), .mode = SendMode::streamed})); });
  const auto streamed = in.receive(soon());
  sending.join();
  ASSERT_TRUE(streamed && same(streamed->bytes(), payload));
  const auto key = streamed->key_for(*first_);
  ASSERT_TRUE(key);
  EXPECT_FALSE(*key);
}

TEST_F(Registered, AMessageThatLandsIsKnownAsWell) {
  Producer out = producer();
  Consumer in = consumer();
  const auto payload = pattern(900'000, 3);
  ASSERT_TRUE(out.send(payload, {.deadline = soon(), .mode = SendMode::pipelined}));
  auto incoming = in.receive_early(soon());
  ASSERT_TRUE(incoming);
  const auto message = incoming->whole(soon());
  ASSERT_TRUE(message);
  EXPECT_TRUE(device_sees(*first_, *message, payload));
}

TEST_F(Registered, SegmentsHaveTheKeysOfTheirSlabs) {
  Producer out = producer();
  Consumer in = consumer();
  Pool pool = out.pool();
  Draft draft;
  for (std::uint64_t i = 0; i < 3; ++i) {
    Block block = *pool.allocate(700'000);
    const auto bytes = pattern(700'000, i);
    std::copy(bytes.begin(), bytes.end(), block.bytes().begin());
    draft.move(std::move(block));
  }
  draft.copy({});  // and one of nothing
  ASSERT_TRUE(out.send(std::move(draft), {.deadline = soon()}));
  const auto message = in.receive(soon());
  ASSERT_TRUE(message);
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_TRUE(device_sees(*first_, *message, pattern(700'000, i), i)) << i;
  EXPECT_NE((**message->key_for(*first_, 0)).key, (**message->key_for(*first_, 1)).key);
  EXPECT_FALSE(*message->key_for(*first_, 3));
}

TEST_F(Registered, ManySlabsComeAndGo) {
  options_.pool.slab_bytes = 64 << 10;
  options_.slots = 16;
  Producer out = producer();
  std::optional<Consumer> in(consumer());
  std::vector<Message> held;
  for (std::uint64_t i = 0; i < 16; ++i) held.push_back(exchange(out, *in, 60'000, i));
  EXPECT_EQ(first_->live(), 16u);
  for (std::uint64_t i = 0; i < 16; ++i)
    EXPECT_TRUE(device_sees(*second_, held[i], pattern(60'000, i))) << i;
  held.clear();
  Pool pool = out.pool();
  ASSERT_TRUE(out.loan(100, soon()));  // looks at what was given back
  ASSERT_NE(pool.trim(), 0u);
  const Message next = exchange(out, *in, 60'000, 99);  // hears what is gone
  EXPECT_TRUE(device_sees(*first_, next, pattern(60'000, 99)));
  EXPECT_LT(first_->live(), 16u);
  EXPECT_EQ(first_->wrong(), 0u);
  in.reset();
  EXPECT_TRUE(device_sees(*first_, next, pattern(60'000, 99))) << "the message keeps it";
}

TEST_F(Registered, NothingIsLeftAfterConsumerAndMessages) {
  Producer out = producer();
  {
    std::optional<Consumer> in(consumer());
    const Message message = exchange(out, *in, 5000, 1);
    in.reset();
    EXPECT_EQ(first_->live(), 1u);
    EXPECT_TRUE(device_sees(*first_, message, pattern(5000, 1)));
  }
  expect_nothing_left();
}

TEST_F(Registered, ARefusalCostsOnlyTheKey) {
  first_->fail_at(1, Code::out_of_memory);
  Producer out = producer();
  Consumer in = consumer();
  const Message message = exchange(out, in, 5000, 1);
  EXPECT_TRUE(same(message.bytes(), pattern(5000, 1)));
  const auto refused = message.key_for(*first_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::out_of_memory);
  EXPECT_THAT(refused.error().message, HasSubstr("channel 'frames': first: registering"));
  EXPECT_EQ(refused.error().hint, "change the script");
  EXPECT_TRUE(device_sees(*second_, message, pattern(5000, 1)));
  const ConsumerExplanation told = in.explain();
  ASSERT_EQ(told.registrars.size(), 2u);
  EXPECT_EQ(told.registrars[0].slabs, 0u);
  EXPECT_EQ(told.registrars[0].refused, 1u);
  EXPECT_EQ(told.registrars[1].slabs, 1u);
  EXPECT_EQ(told.registrars[1].bytes, kMiB);
  EXPECT_THAT(told.text(),
              HasSubstr("registrar 'first' knows none of it; it refused 1 slab: first: "));
  EXPECT_THAT(told.text(), HasSubstr("registrar 'second' knows 1 slab of it (1 MiB)\n"));
  EXPECT_EQ(first_->report().failed, 1u) << "it is not asked again for each message";
}

TEST_F(Registered, ARegistrarWithoutAWayToReadSaysSo) {
  first_ = FakeRegistrar::create({.name = "first", .takes_reading = false});
  Producer out = producer();
  Consumer in = consumer();
  const Message message = exchange(out, in, 5000, 1);
  const auto refused = message.key_for(*first_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::unsupported);
  EXPECT_THAT(in.explain().text(), HasSubstr("no way to register for reading alone"));
}

TEST_F(Registered, WhoWasNotNamedIsRefused) {
  const auto other = FakeRegistrar::create({.name = "other"});
  Producer out = producer();
  Consumer in = consumer();
  const Message message = exchange(out, in, 5000, 1);
  const auto refused = message.key_for(*other);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::invalid_argument);
  EXPECT_THAT(refused.error().hint, HasSubstr("ConsumerOptions::registrars"));
  EXPECT_EQ(in_child([&] { return message.key_for(*first_) ? 1 : 0; }), 0) << "a fork's copy";
  const auto of_copy = exchange(out, in, 10, 2).key_for(*other);
  ASSERT_TRUE(of_copy) << "a private copy knows no registrars";
  EXPECT_FALSE(*of_copy);
}

TEST_F(Registered, WithoutRegistrarsNothingIsRegistered) {
  Producer out = producer();
  Consumer in = *Consumer::open("frames", consumer_options(options_), soon());
  const Message message = exchange(out, in, 5000, 1);
  ASSERT_FALSE(message.key_for(*first_));
  EXPECT_EQ(message.key_for(*first_).error().code, Code::invalid_argument);
  EXPECT_TRUE(in.explain().registrars.empty());
  EXPECT_EQ(first_->report().made, 0u);
}

TEST_F(Registered, ListsThatMakeNoSenseAreRefused) {
  using List = std::vector<std::shared_ptr<Registrar>>;
  for (const List& list : {List{nullptr}, List{first_, second_, first_}, List(9, first_)}) {
    ConsumerOptions options = consumer_options(options_);
    options.registrars = list;
    const auto refused = Consumer::open("frames", options, Deadline::now());
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::invalid_argument);
    const auto inbox = Inbox::open("in", {.channel = options});
    ASSERT_FALSE(inbox);
    EXPECT_EQ(inbox.error().code, Code::invalid_argument);
  }
}

TEST_F(Registered, TwoConsumersHaveKeysOfTheirOwn) {
  options_.consumers = 2;
  Producer out = producer();
  std::optional<Consumer> one(consumer()), other(consumer());
  const auto payload = pattern(5000, 1);
  ASSERT_TRUE(out.send(payload, soon()));
  auto ones = *one->receive(soon());
  const auto others = *other->receive(soon());
  EXPECT_TRUE(device_sees(*first_, ones, payload));
  EXPECT_TRUE(device_sees(*first_, others, payload));
  EXPECT_NE((**ones.key_for(*first_)).key, (**others.key_for(*first_)).key);
  ones.release();
  one.reset();
  EXPECT_EQ(first_->live(), 1u);
  EXPECT_TRUE(device_sees(*first_, others, payload));
}

TEST_F(Registered, APassedOnMessageIsKnownAtBothEnds) {
  Producer origin = producer();
  Consumer relay_in = consumer();
  Producer relay_out = producer("relayed");
  Consumer last = *Consumer::open("relayed", reading(), soon());
  const auto payload = pattern(5000, 1);
  Message message = exchange(origin, relay_in, 5000, 1);
  const DeviceKey at_relay = **message.key_for(*first_);
  ASSERT_TRUE(relay_out.send(Draft().forward(std::move(message)), {.deadline = soon()}));
  const auto passed_on = last.receive(soon());
  ASSERT_TRUE(passed_on) << passed_on.error().message;
  EXPECT_TRUE(device_sees(*first_, *passed_on, payload));
  EXPECT_NE((**passed_on->key_for(*first_)).key, at_relay.key);
  EXPECT_TRUE(first_->look(at_relay, 5000)) << "it is still held there";
}

TEST_F(Registered, TheNextProducersMemoryIsKnownAfterRejoining) {
  std::optional<Producer> out(producer());
  std::optional<Consumer> in(consumer());
  std::optional<Message> old(exchange(*out, *in, 5000, 1));
  out.reset();
  ASSERT_FALSE(in->receive(soon()));
  out.emplace(producer());
  ASSERT_TRUE(in->rejoin(soon()));
  const Message fresh = exchange(*out, *in, 5000, 2);
  EXPECT_TRUE(device_sees(*first_, *old, pattern(5000, 1)));
  EXPECT_TRUE(device_sees(*first_, fresh, pattern(5000, 2)));
  EXPECT_EQ(first_->live(), 2u);
  old.reset();
  EXPECT_EQ(first_->live(), 1u) << "nobody has the old producer's memory";
}

TEST_F(Registered, AnInboxKnowsTheMemoryOfEachOfItsSenders) {
  {
    auto inbox = *Inbox::open("in", {.channel = reading()});
    std::vector<Producer> senders;
    std::vector<Message> held;
    for (std::uint64_t i = 0; i < 3; ++i) {
      senders.push_back(
          *Producer::connect("in", options_, std::make_shared<test::PlainEngine>(), soon()));
      ASSERT_TRUE(senders.back().send(pattern(5000, i), soon()));
      held.push_back(std::move(inbox.receive(soon())->message));
      EXPECT_TRUE(device_sees(*first_, held.back(), pattern(5000, i)));
    }
    EXPECT_EQ(first_->live(), 3u);
    senders.clear();
    EXPECT_EQ(inbox.receive(Deadline::now()).error().code, Code::timed_out);
    EXPECT_TRUE(device_sees(*first_, held.front(), pattern(5000, 0)));
  }
  expect_nothing_left();
}

// Registering makes pages: what one sender may have of that is bounded, and the message comes.
TEST_F(Registered, SlabsBeyondTheLimitAreReceivedAndNotRegistered) {
  Producer out = producer();
  ConsumerOptions options = reading();
  options.receive.registered_bytes = kMiB;
  Consumer in = *Consumer::open("frames", options, soon());
  const Message one = exchange(out, in, 700'000, 1);
  const Message two = exchange(out, in, 700'000, 2);
  EXPECT_TRUE(device_sees(*first_, one, pattern(700'000, 1)));
  EXPECT_TRUE(same(two.bytes(), pattern(700'000, 2)));
  const auto refused = two.key_for(*first_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::too_large);
  EXPECT_THAT(refused.error().hint, HasSubstr("ReceiveLimits::registered_bytes"));
  EXPECT_THAT(in.explain().text(), HasSubstr("refused 1 slab"));
}

// A slab of holes, of which one page is written: to lock it would make all the others.
TEST_F(Registered, HolesBeyondTheLimitAreNotFilled) {
  const std::shared_ptr<Registrar> locks = *make_page_lock_registrar();
  auto holes = *Region::create(64 * kMiB, "x");
  ASSERT_TRUE(holes.touch(0, 4096));
  std::array<int, 2> ends{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
  const Fd ours(ends[0]), theirs(ends[1]);
  WirePacket packet;
  packet.kind = PacketKind::slab;
  packet.slab = 1;
  packet.bytes = holes.size();
  const int descriptor = holes.descriptor();
  ASSERT_TRUE(send_wire(theirs.get(), packet, std::span(&descriptor, 1)));
  ReceivedSlabs slabs(
      std::make_shared<SenderQuota>(ReceiveQuota::make({.registered_bytes = kMiB}, {}, 1)),
      std::span(&locks, 1));
  const auto slab = slabs.find(1, ours.get(), soon());
  ASSERT_TRUE(slab) << slab.error().message;
  ASSERT_TRUE(slabs.make_present(**slab, 0, 4096));
  EXPECT_EQ((*slab)->registrations.key_for(*locks).error().code, Code::too_large);
  struct stat facts{};
  ASSERT_EQ(::fstat(descriptor, &facts), 0);
  EXPECT_LE(static_cast<Bytes>(facts.st_blocks) * 512, ReceivedSlabs::kMostHoles);
}

}  // namespace
}  // namespace gantry
