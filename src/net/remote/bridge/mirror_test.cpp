// A channel of another host under its name here: once across the network, every byte at each
// reader.
#include "net/remote/bridge/test_remote.hpp"
#include "net/remote/tls.hpp"

namespace gantry {
namespace {

using test::pattern;
using test::same;
using test::soon;

class Mirrors : public test::TwoHosts {
 protected:
  void TearDown() override {
    stop_mirror();
    TwoHosts::TearDown();
  }

  [[nodiscard]] MirrorOptions options(const std::string& host = {}) {
    MirrorOptions options;
    options.name = name("frames", host).text();
    options.there = test::consumer_options(here());
    options.here = here();
    options.here.consumers = 4;
    options.interrupt_descriptor = interrupt_mirror_.get();
    options.on_event = [this](const std::string& line) {
      const std::lock_guard lock(mutex_);
      said_ += line + '\n';
    };
    return options;
  }
  void start_mirror(const MirrorOptions& with) {
    mirror_.emplace(Mirror::open(with, std::make_shared<test::PlainEngine>()).value());
    mirroring_ = std::thread([this] { ended_ = mirror_->serve(); });
  }
  void stop_mirror() {
    if (!mirroring_.joinable()) return;
    ring(interrupt_mirror_.get());
    join_mirror();
  }
  void join_mirror() {
    mirroring_.join();
    mirror_.reset();
    drain(interrupt_mirror_.get());
  }
  [[nodiscard]] Consumer reader(SlowConsumer when_slow = SlowConsumer::block) {
    ConsumerOptions options = test::consumer_options(here());
    options.when_slow = when_slow;
    return Consumer::open("frames", options, soon()).value();
  }
  static void expect_next(Consumer& in, Bytes size, std::uint64_t seed) {
    const auto message = in.receive(soon());
    ASSERT_TRUE(message) << to_string(message.error());
    EXPECT_TRUE(same(message->bytes(), pattern(size, seed))) << size;
    EXPECT_EQ(message->info().user, seed);
  }
  static Result<void> send(Producer& out, Bytes size, std::uint64_t seed) {
    return out.send(pattern(size, seed), {.deadline = soon(), .type = 3, .user = seed});
  }

  const Fd interrupt_mirror_ = make_event().value();
  std::optional<Mirror> mirror_;
  std::thread mirroring_;
  Result<void> ended_;
};

TEST_F(Mirrors, EachMessageCrossesTheNetworkOnceForAllReaders) {
  test::CutNetwork network(bridge_->address());
  auto out = test::make_producer("frames", there()).value();
  start_mirror(options(network.address()));
  std::vector<Consumer> readers;
  for (int i = 0; i < 4; ++i) readers.push_back(reader());
  const std::vector<Bytes> sizes{0, 64, 65, 4000, 4096, 65'536, 1 << 20, (3 << 20) + 7};
  Bytes all = 0;
  for (std::uint64_t i = 0; i < sizes.size(); ++i) {
    ASSERT_TRUE(send(out, sizes[i], i));
    for (Consumer& in : readers) expect_next(in, sizes[i], i);
    all += sizes[i];
  }
  EXPECT_GE(network.passed(), all);
  EXPECT_LT(network.passed(), all + all / 10);
  EXPECT_TRUE(out.close(soon()));
  for (Consumer& in : readers) EXPECT_EQ(in.receive(soon()).error().code, Code::closed);
}

TEST_F(Mirrors, SegmentsAndTensorsPass) {
  auto out = test::make_producer("frames", there()).value();
  start_mirror(options());
  Consumer in = reader();
  const std::array<std::int64_t, 2> shape{20, 100};
  const Tensor floats = Tensor::dense({DataType::floating, 32, 1}, shape);
  const auto first = pattern(8000, 1);
  const auto second = pattern(70'000, 2);
  ASSERT_TRUE(out.send(Draft().copy(first, floats).copy(second), {.deadline = soon()}));
  const auto message = in.receive(soon());
  ASSERT_TRUE(message) << to_string(message.error());
  ASSERT_EQ(message->segments(), 2u);
  EXPECT_TRUE(same(message->segment(0).bytes, first));
  EXPECT_EQ(message->segment(0).tensor, floats);
  EXPECT_TRUE(same(message->segment(1).bytes, second));
}

TEST_F(Mirrors, AReaderThatBlocksHoldsUpTheSenderAndOneThatDropsDoesNot) {
  auto out = test::make_producer("frames", there()).value();
  start_mirror(options());
  Consumer drops = reader(SlowConsumer::drop_newest);
  for (std::uint64_t i = 0; i < 60; ++i) ASSERT_TRUE(send(out, 100'000, i));
  Consumer blocks = reader();
  std::uint64_t sent = 60;
  while (out.send(pattern(100'000, sent),
                  {.deadline = Deadline::after(std::chrono::seconds(1)), .user = sent}))
    ASSERT_LT(++sent, 160u);
  EXPECT_GE(sent, 60u + 8u);
  auto next = blocks.receive(soon());
  ASSERT_TRUE(next);
  const std::uint64_t first = next->info().user;
  EXPECT_TRUE(same(next->bytes(), pattern(100'000, first)));
  next->release();
  for (std::uint64_t i = first + 1; i < sent; ++i) expect_next(blocks, 100'000, i);
  std::uint64_t last = 0;
  for (bool is_first = true;; is_first = false) {
    const auto message = drops.receive(Deadline::now());
    if (!message) break;
    EXPECT_TRUE(is_first || message->info().user > last);
    last = message->info().user;
    EXPECT_TRUE(same(message->bytes(), pattern(100'000, last)));
  }
}

TEST_F(Mirrors, TheNextProducerThereIsMirroredForReadersThatRejoin) {
  auto out = std::optional(test::make_producer("frames", there()).value());
  start_mirror(options());
  Consumer in = reader();
  ASSERT_TRUE(send(*out, 5000, 1));
  expect_next(in, 5000, 1);
  out.reset();  // without close()
  const auto gone = in.receive(soon());
  ASSERT_FALSE(gone);
  EXPECT_EQ(gone.error().code, Code::peer_gone) << to_string(gone.error());
  out = test::make_producer("frames", there()).value();
  ASSERT_TRUE(in.rejoin(soon()));
  ASSERT_TRUE(send(*out, 90'000, 2));
  expect_next(in, 90'000, 2);
  EXPECT_TRUE(out->close(soon()));
  EXPECT_EQ(in.receive(soon()).error().code, Code::closed);
  out.reset();
  out = test::make_producer("frames", there()).value();
  ASSERT_TRUE(send(*out, 100, 3));
  // A reader may be quicker than the mirror, and find the stream that has ended.
  auto message = in.receive(Deadline::now());
  while (!message && message.error().code == Code::closed) {
    ASSERT_TRUE(in.rejoin(soon()));
    message = in.receive(soon());
  }
  ASSERT_TRUE(message) << to_string(message.error());
  EXPECT_TRUE(same(message->bytes(), pattern(100, 3)));
}

TEST_F(Mirrors, WhenAllReadersHaveLeftTheSenderHearsItAndTheNextOnesAreServed) {
  auto out = test::make_producer("frames", there()).value();
  start_mirror(options());
  {
    Consumer in = reader();
    ASSERT_TRUE(send(out, 5000, 1));
    expect_next(in, 5000, 1);
  }
  Result<void> sent;
  while (sent) sent = send(out, 100'000, 2);
  EXPECT_EQ(sent.error().code, Code::peer_gone) << to_string(sent.error());
  Consumer in = reader();
  ASSERT_TRUE(out.wait_for_consumer(soon(), 1));
  ASSERT_TRUE(send(out, 6000, 3));
  auto message = in.receive(soon());
  if (!message && message.error().code == Code::peer_gone) {  // it met the session that was ending
    in = reader();
    message = in.receive(soon());
  }
  // What was on its way when the readers left may come first.
  while (message && message->info().user == 2) {
    EXPECT_TRUE(same(message->bytes(), pattern(100'000, 2)));
    message->release();
    message = in.receive(soon());
  }
  ASSERT_TRUE(message) << to_string(message.error());
  EXPECT_TRUE(same(message->bytes(), pattern(6000, 3)));
}

TEST_F(Mirrors, OneForOneStreamEndsWithIt) {
  auto out = std::optional(test::make_producer("frames", there()).value());
  MirrorOptions with = options();
  with.is_for_one_stream = true;
  start_mirror(with);
  Consumer in = reader();
  ASSERT_TRUE(send(*out, 5000, 1));
  expect_next(in, 5000, 1);
  EXPECT_TRUE(out->close(soon()));
  EXPECT_EQ(in.receive(soon()).error().code, Code::closed);
  join_mirror();
  EXPECT_TRUE(ended_);

  out.reset();
  out = test::make_producer("frames", there()).value();
  start_mirror(with);
  in = reader();
  ASSERT_TRUE(out->wait_for_consumer(soon(), 1));
  out.reset();
  EXPECT_EQ(in.receive(soon()).error().code, Code::peer_gone);
  join_mirror();
  ASSERT_FALSE(ended_);
  EXPECT_EQ(ended_.error().code, Code::peer_gone);
  EXPECT_NE(ended_.error().message.find("frames@"), std::string::npos) << ended_.error().message;
}

TEST_F(Mirrors, ABrokenConnectionGoesOnWhereItWas) {
  test::CutNetwork network(bridge_->address());
  auto out = test::make_producer("frames", there()).value();
  start_mirror(options(network.address()));
  Consumer one = reader();
  Consumer other = reader();
  constexpr std::uint64_t kMessages = 30;
  std::jthread sender([&] {
    for (std::uint64_t i = 0; i < kMessages; ++i) ASSERT_TRUE(send(out, 30'000 + i, i));
  });
  for (std::uint64_t i = 0; i < kMessages; ++i) {
    if (i % 10 == 5) network.cut_after(20'000);
    expect_next(one, 30'000 + i, i);
    expect_next(other, 30'000 + i, i);
  }
  EXPECT_GE(network.cuts(), 1);
}

TEST_F(Mirrors, ABridgeThatComesBackIsFoundAgain) {
  if (auto able = check_tls(); !able) GTEST_SKIP() << to_string(able.error());
  stop_bridge();
  start_bridge("tls:127.0.0.1:0");  // which it serves itself: one that it hands over goes on
  auto out = test::make_producer("frames", there()).value();
  const std::string address = bridge_->address();
  MirrorOptions with = options(address);
  with.there.remote.patience = std::chrono::milliseconds(0);
  start_mirror(with);
  Consumer in = reader();
  ASSERT_TRUE(send(out, 5000, 1));
  expect_next(in, 5000, 1);
  stop_bridge();
  EXPECT_EQ(in.receive(soon()).error().code, Code::peer_gone);
  start_bridge(address);
  ASSERT_TRUE(in.rejoin(soon()));
  ASSERT_TRUE(out.wait_for_consumer(soon(), 1));
  ASSERT_TRUE(send(out, 6000, 2));
  expect_next(in, 6000, 2);
}

TEST_F(Mirrors, AMirrorOfAMirrorIsOne) {
  auto out = test::make_producer("frames", there()).value();
  start_mirror(options());
  const test::ScratchDirectory third;
  BridgeOptions bridge;
  bridge.listen = "127.0.0.1:0";
  bridge.token = test::kToken;
  bridge.directory = here_.path();
  const Fd stop = make_event().value();
  bridge.interrupt_descriptor = stop.get();
  auto second = Bridge::open(bridge, std::make_shared<test::PlainEngine>()).value();
  std::thread serving([&] { EXPECT_TRUE(second.serve()); });
  MirrorOptions with = options(second.address());
  with.here = test::options_in(third);
  auto mirror = Mirror::open(with, std::make_shared<test::PlainEngine>()).value();
  std::thread mirroring([&] { EXPECT_TRUE(mirror.serve()); });
  auto in =
      Consumer::open("frames", test::consumer_options(test::options_in(third)), soon()).value();
  ASSERT_TRUE(send(out, 200'000, 1));
  expect_next(in, 200'000, 1);
  ring(interrupt_mirror_.get());
  mirroring.join();
  ring(stop.get());
  serving.join();
}

// ---- what cannot be ------------------------------------------------------------------------

TEST_F(Mirrors, NamesAndHostsThatCannotBeAreRefused) {
  const auto engine = std::make_shared<test::PlainEngine>();
  MirrorOptions with = options();
  with.name = "frames";
  EXPECT_EQ(Mirror::open(with, engine).error().code, Code::invalid_argument);
  with = options();
  with.here.mode = SendMode::immutable;
  EXPECT_EQ(Mirror::open(with, engine).error().code, Code::invalid_argument);
  auto taken = test::make_producer("frames", here()).value();
  EXPECT_EQ(Mirror::open(options(), engine).error().code, Code::already_exists);
  static_cast<void>(taken.close(Deadline::now()));
}

TEST_F(Mirrors, WhatItCannotReachItSays) {
  const std::string address = bridge_->address();
  MirrorOptions with = options(address);
  with.there.remote.token = "another token, as long as that";
  auto mirror = std::optional(Mirror::open(with, std::make_shared<test::PlainEngine>()).value());
  EXPECT_EQ(mirror->serve().error().code, Code::permission_denied);
  mirror.reset();
  stop_bridge();
  mirror = Mirror::open(options(address), std::make_shared<test::PlainEngine>()).value();
  const auto unreachable = mirror->serve();
  ASSERT_FALSE(unreachable);
  EXPECT_NE(unreachable.error().message.find(address), std::string::npos)
      << unreachable.error().message;
  start_bridge("127.0.0.1:0");
}

TEST_F(Mirrors, WhatIsAwaitedIsSaid) {
  start_mirror(options());
  const std::string line =
      "channel '" + options().name + "': waiting for its producer; gantry ls @";
  const Deadline hung = soon();
  while (!has_said(line) && !hung.passed()) std::this_thread::yield();
  EXPECT_TRUE(has_said(line));
}

TEST_F(Mirrors, AnInterruptEndsTheWaitForAChannel) {
  start_mirror(options());
  Consumer in = reader();  // waits for a producer that never comes
  EXPECT_EQ(in.receive(Deadline::now()).error().code, Code::timed_out);
  stop_mirror();
  EXPECT_TRUE(ended_) << to_string(ended_.error());
  EXPECT_EQ(in.receive(soon()).error().code, Code::peer_gone);
}

}  // namespace
}  // namespace gantry
