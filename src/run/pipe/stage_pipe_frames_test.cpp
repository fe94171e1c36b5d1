#include "run/pipe/stage_pipe_frames.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <array>
#include <cstring>
#include <thread>

#include "core/base/os/socket.hpp"

namespace gantry {
namespace {

using State = FrameReader::State;

class PipeFrames : public ::testing::Test {
 protected:
  static constexpr Bytes kLargest = Bytes{8} << 20;

  PipeFrames() {
    std::array<int, 2> ends{};
    EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
    Fd read_end(ends[0]);
    Fd write_end(ends[1]);
    EXPECT_TRUE(prepare_pipe(read_end, "pipe"));
    EXPECT_TRUE(prepare_pipe(write_end, "pipe"));
    raw_ = ends[1];
    reader_.emplace("pipe", std::move(read_end), kLargest);
    writer_.emplace("pipe", std::move(write_end), -1);
  }

  void write_raw(const void* bytes, std::size_t size) {
    ASSERT_EQ(::write(raw_, bytes, size), static_cast<ssize_t>(size));
  }
  Result<void> send(ConstByteSpan payload) {
    return writer_->write(FrameHeader::Kind::data, payload, waited_);
  }
  Code error_of_next() {
    const auto state = reader_->advance(store_);
    return state ? Code::closed : state.error().code;
  }
  void expect_refusal(std::string_view words) {
    const auto state = reader_->advance(store_);
    ASSERT_FALSE(state);
    EXPECT_EQ(state.error().code, Code::peer_misbehaved);
    EXPECT_THAT(state.error().message, ::testing::HasSubstr(words));
  }

  std::optional<FrameReader> reader_;
  std::optional<FrameWriter> writer_;
  BufferStore store_{kLargest};
  WaitTicks waited_;
  int raw_ = -1;
};

TEST_F(PipeFrames, APayloadArrives) {
  const std::array<std::byte, 3> payload{std::byte{1}, std::byte{2}, std::byte{3}};
  ASSERT_TRUE(send(payload));
  ASSERT_EQ(reader_->advance(store_).value(), State::complete);
  const auto frame = reader_->take_frame();
  ASSERT_TRUE(frame.buffer);
  ASSERT_EQ(frame.buffer->bytes.size(), payload.size());
  EXPECT_EQ(std::memcmp(frame.buffer->bytes.data(), payload.data(), payload.size()), 0);
  EXPECT_EQ(reader_->advance(store_).value(), State::starved);
}

TEST_F(PipeFrames, AnEmptyPayloadArrivesWithoutABuffer) {
  ASSERT_TRUE(send({}));
  ASSERT_EQ(reader_->advance(store_).value(), State::complete);
  EXPECT_FALSE(reader_->take_frame().buffer);
}

TEST_F(PipeFrames, GoesOnWhereItStopped) {
  FrameHeader header;
  header.length = 10;
  const auto* bytes = reinterpret_cast<const char*>(&header);
  for (std::size_t i = 0; i < sizeof header; ++i) {
    EXPECT_EQ(reader_->advance(store_).value(), State::starved);
    write_raw(bytes + i, 1);
  }
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(reader_->advance(store_).value(), State::starved);
    write_raw("x", 1);
  }
  EXPECT_EQ(reader_->advance(store_).value(), State::complete);
}

TEST_F(PipeFrames, TheEndIsToldApartFromBreakingOff) {
  ASSERT_TRUE(writer_->write(FrameHeader::Kind::end, {}, waited_));
  EXPECT_EQ(reader_->advance(store_).value(), State::ended);
  EXPECT_TRUE(reader_->ended());
}

TEST_F(PipeFrames, BreakingOffBetweenFramesIsSeen) {
  writer_.reset();
  EXPECT_EQ(error_of_next(), Code::peer_gone);
}

TEST_F(PipeFrames, BreakingOffInsideAFrameIsSeen) {
  FrameHeader header;
  header.length = 1000;
  write_raw(&header, sizeof header);
  write_raw("some", 4);
  writer_.reset();
  EXPECT_EQ(error_of_next(), Code::peer_gone);
}

TEST_F(PipeFrames, GarbageIsRefused) {
  write_raw("GET / HTTP/1.1\r\nHost: example\r\n\r\n", 33);
  expect_refusal("what came is not a message");
}

TEST_F(PipeFrames, AnUnknownKindIsRefused) {
  FrameHeader header;
  header.kind = static_cast<FrameHeader::Kind>(99);
  write_raw(&header, sizeof header);
  expect_refusal("what came is not a message");
}

TEST_F(PipeFrames, MoreThanTheMachineHoldsIsRefused) {
  FrameHeader header;
  header.length = kLargest + 1;
  write_raw(&header, sizeof header);
  expect_refusal("announced 8388609 bytes, more than this machine's memory");
}

// SIGPIPE would end this test program.
TEST_F(PipeFrames, AReaderThatLeftIsAnErrorAndNoSignal) {
  reader_.reset();
  const auto sent = send(std::array<std::byte, 1>{});
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().code, Code::peer_gone);
  sigset_t pending;
  ::sigpending(&pending);
  EXPECT_EQ(::sigismember(&pending, SIGPIPE), 0);
}

TEST_F(PipeFrames, AReaderThatLeavesInsideAFrameIsSeen) {
  const std::vector<std::byte> payload(kLargest);  // more than a pipe holds
  std::thread leaver([&] {
    EXPECT_TRUE(wait_readable(reader_->descriptor(), Deadline::never()).value());
    reader_.reset();
  });
  const auto sent = send(payload);
  leaver.join();
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().code, Code::peer_gone);
  EXPECT_EQ(send({}).error().code, Code::peer_gone);  // half a frame cannot be taken back
}

TEST_F(PipeFrames, DrainedMeansRead) {
  ASSERT_TRUE(send(std::array<std::byte, 100>{}));
  const auto early = writer_->wait_drained(Deadline::now());
  ASSERT_FALSE(early);
  EXPECT_EQ(early.error().code, Code::timed_out);
  ASSERT_EQ(reader_->advance(store_).value(), State::complete);
  EXPECT_TRUE(writer_->wait_drained(Deadline::never()));
}

TEST_F(PipeFrames, OnlyAPipeIsTaken) {
  const Fd file(::open("/dev/zero", O_RDWR | O_CLOEXEC));
  EXPECT_EQ(prepare_pipe(file, "zero").error().code, Code::invalid_argument);
}

}  // namespace
}  // namespace gantry
