// Recording from a program: what the events of each way of sending say.
#include <gmock/gmock.h>

#include <gantry/runtime.hpp>

#include "support/subprocess.hpp"

namespace gantry::test {
namespace {

/// The only event of that kind of the message.
const trace::Event* event_of(const trace::Trace& trace, trace::EventKind kind,
                             std::uint64_t sequence) {
  const trace::Event* found = nullptr;
  for (const trace::Track& track : trace.tracks)
    for (const trace::Event& event : track.events) {
      if (event.kind != kind || event.message.sequence != sequence) continue;
      EXPECT_EQ(found, nullptr) << sequence;
      found = &event;
    }
  return found;
}

// Each way of sending, one message each; what is copied says by what and in how many chunks.
TEST(TraceLibrary, EachWayOfSendingIsSeen) {
  using trace::EventKind;
  const ScratchDirectory scratch;
  auto recording = trace::Recording::start({scratch.path()});
  ASSERT_TRUE(recording) << recording.error().message;
  {
    auto runtime = Runtime::create({.directory = scratch.path()});
    ASSERT_TRUE(runtime);
    auto out = runtime->producer("c");
    auto in = runtime->consumer("c", {}, Deadline::after(Subprocess::kLong));
    ASSERT_TRUE(out && in && out->wait_for_consumer(Deadline::never(), 1));
    const std::vector<std::byte> bytes(1'000'000);
    const ConstByteSpan all(bytes);
    const auto receive = [&in] { EXPECT_TRUE(in->receive(Deadline::after(Subprocess::kLong))); };
    const std::array<ConstByteSpan, 2> two{all.first(8), all.first(8)};
    ASSERT_EQ(out->send_batch(two).value_or(0), 2u);  // 1, 2
    receive(), receive();
    ASSERT_TRUE(out->send(all.first(1000)));  // 3
    receive();
    ASSERT_TRUE(out->send(all, {.mode = SendMode::pipelined}));  // 4
    receive();
    ASSERT_TRUE(out->send(all, {.mode = SendMode::immutable}));  // 5
    receive();
    auto loan = out->loan(5000);
    ASSERT_TRUE(loan && out->publish(std::move(*loan)));  // 6
    receive();
    auto ticket = out->send_async(all);  // 7
    ASSERT_TRUE(ticket && out->wait(*ticket));
    receive();
  }
  const auto trace = recording->finish();
  ASSERT_TRUE(trace) << trace.error().message;
  EXPECT_THAT(trace->notes, ::testing::IsEmpty());
  const std::array<Bytes, 7> sizes{8, 8, 1000, 1'000'000, 1'000'000, 5000, 1'000'000};
  for (std::uint64_t number = 1; number <= sizes.size(); ++number) {
    const auto* const sent = event_of(*trace, EventKind::send, number);
    const auto* const received = event_of(*trace, EventKind::receive, number);
    ASSERT_TRUE(sent != nullptr && received != nullptr) << number;
    EXPECT_EQ(sent->message, received->message);
    EXPECT_EQ(sent->bytes, sizes[number - 1]) << number;
    EXPECT_EQ(received->bytes, sizes[number - 1]) << number;
    EXPECT_LE(sent->begin_ns, received->begin_ns + received->duration_ns) << number;
    const auto* const copy = event_of(*trace, EventKind::copy, number);
    const bool is_copied = number >= 3 && number != 6;
    EXPECT_EQ(copy != nullptr, is_copied) << number;
    EXPECT_EQ(copy != nullptr ? copy->bytes : sizes[number - 1], sizes[number - 1]) << number;
    const bool has_slot = number >= 4;
    EXPECT_EQ(event_of(*trace, EventKind::release, number) != nullptr, has_slot) << number;
  }
  EXPECT_GT(event_of(*trace, EventKind::copy, 4)->chunks, 1u);
  for (const trace::Track& track : trace->tracks) EXPECT_TRUE(track.is_closed);
}

}  // namespace
}  // namespace gantry::test
