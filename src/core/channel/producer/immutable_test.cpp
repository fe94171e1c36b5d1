#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>

#include "core/channel/test_support.hpp"

// SendMode::immutable: what nobody can change any more, the sender included.
namespace gantry {
namespace {

using test::consumer_options;
using test::make_producer;
using test::options_in;
using test::pattern;
using test::same;
using test::soon;

class Immutable : public testing::Test {
 protected:
  Message pass(Draft draft, SendMode mode = SendMode::immutable) {
    EXPECT_TRUE(out_.send(std::move(draft), {.deadline = soon(), .mode = mode}));
    return std::move(*in_.receive(soon()));
  }
  Message pass(ConstByteSpan payload, SendMode mode = SendMode::immutable) {
    return pass(Draft().copy(payload), mode);
  }
  Code refused(const Result<void>& sent) { return sent ? Code::closed : sent.error().code; }

  test::ScratchDirectory directory_;
  ProducerOptions options_ = options_in(directory_);
  Producer out_ = *make_producer("frames", options_);
  Consumer in_ = *Consumer::open("frames", consumer_options(options_), soon());
};

/// By whatever way this process, which is both ends, has to that memory.
unsigned try_to_change(std::string_view memory) {
  unsigned tried = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    if (std::filesystem::read_symlink(entry.path(), gone).string().find(memory) ==
        std::string::npos)
      continue;
    ++tried;
    const Fd again(::open(entry.path().c_str(), O_RDWR | O_CLOEXEC));
    EXPECT_EQ(::pwrite(again.get(), "x", 1, 0), -1);
    EXPECT_EQ(::mmap(nullptr, 4096, PROT_WRITE, MAP_SHARED, again.get(), 0), MAP_FAILED);
    EXPECT_EQ(::fallocate(again.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), -1);
    EXPECT_EQ(::ftruncate(again.get(), 0), -1);
  }
  return tried;
}

TEST_F(Immutable, NobodyCanChangeIt) {
  for (const Bytes size : {Bytes{65}, Bytes{4096}, Bytes{300'001}}) {
    const auto payload = pattern(size, size);
    const Message message = pass(payload);
    EXPECT_TRUE(message.is_immutable());
    EXPECT_GE(try_to_change("gantry-immutable"), 2u) << "of both ends";
    EXPECT_TRUE(same(message.bytes(), payload));
  }
}

TEST_F(Immutable, OtherMessagesAreNot) {
  const auto payload = pattern(300'001, 1);
  for (const SendMode mode : {SendMode::whole, SendMode::pipelined})
    EXPECT_FALSE(pass(payload, mode).is_immutable());
  EXPECT_TRUE(out_.send(pattern(64, 1), soon()));
  EXPECT_TRUE(in_.receive(soon())->is_immutable()) << "a private copy";
}

TEST_F(Immutable, AllSegmentsAreAndWhatIsPassedOn) {
  const auto first = pattern(5000, 1), second = pattern(70'000, 2);
  Message message = pass(Draft().copy(first).copy({}).copy(second));
  ASSERT_EQ(message.segments(), 3u);
  EXPECT_TRUE(message.is_immutable());
  const Message again = pass(Draft().forward(std::move(message)), SendMode::whole);
  EXPECT_TRUE(again.is_immutable()) << "the same memory";
  Message plain = pass(second, SendMode::whole);
  const Message copied = pass(Draft().forward(std::move(plain)));
  EXPECT_TRUE(copied.is_immutable()) << "a copy, as the sender of the first can still write it";
  EXPECT_TRUE(same(again.segment(0).bytes, first));
  EXPECT_TRUE(same(again.segment(2).bytes, second));
  EXPECT_TRUE(same(copied.bytes(), second));
}

TEST_F(Immutable, WhatStaysWritableIsRefused) {
  const SendOptions immutable{.deadline = soon(), .mode = SendMode::immutable};
  auto loan = *out_.loan(5000, soon());
  EXPECT_EQ(refused(out_.publish(std::move(loan), immutable)), Code::invalid_argument);
  auto block = *out_.pool().allocate(5000);
  EXPECT_EQ(refused(out_.send(std::move(block), immutable)), Code::invalid_argument);
  const test::BrokenPayload broken(100'000, 50'000);
  EXPECT_EQ(refused(out_.send(broken.bytes(), immutable)), Code::invalid_argument);
  const Message next = pass(pattern(5000, 3));
  EXPECT_TRUE(same(next.bytes(), pattern(5000, 3))) << "and it goes on";
}

TEST_F(Immutable, AChannelThatIsSoRefusesWhatStaysWritable) {
  options_.mode = SendMode::immutable;
  Producer out = *make_producer("photos", options_);
  EXPECT_EQ(refused(out.publish(*out.loan(5000, soon()))), Code::invalid_argument);
  EXPECT_EQ(refused(out.send(*out.pool().allocate(5000), {.deadline = soon()})),
            Code::invalid_argument);
}

TEST_F(Immutable, ModesThatThereAreNotAreRefused) {
  const auto none = static_cast<SendMode>(99);
  for (const Bytes size : {Bytes{100}, Bytes{100'000}})
    EXPECT_EQ(refused(out_.send(pattern(size, 1), {.deadline = soon(), .mode = none})),
              Code::invalid_argument);
  options_.mode = none;
  EXPECT_EQ(make_producer("photos", options_).error().code, Code::invalid_argument);
  ConsumerOptions odd = consumer_options(options_);
  odd.when_slow = static_cast<SlowConsumer>(9);
  EXPECT_EQ(Consumer::open("frames", odd, soon()).error().code, Code::invalid_argument);
}

TEST_F(Immutable, ItsMemoryGoesWhenItIsReleased) {
  pass(pattern(5000, 0));
  const std::size_t before = test::open_descriptors();
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    const Message passed = pass(pattern(5000, seed));
    ASSERT_TRUE(same(passed.bytes(), pattern(5000, seed)));
  }
  EXPECT_LE(test::open_descriptors(), before + 2);
}

}  // namespace
}  // namespace gantry
