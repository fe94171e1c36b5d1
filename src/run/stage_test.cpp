// Stages in processes of their own, over every transport: what is sent arrives, once, whole and
// in order, and every way to end is told apart from every other.
#include <gantry/stage.hpp>
#include <numeric>

#include "core/base/event.hpp"
#include "run/stage_rig_test.hpp"

namespace gantry {
namespace {

using namespace test::verdicts;  // NOLINT: its names alone
using test::Child;
using test::Payload;
using test::Rig;

constexpr std::uint32_t kMessages = 200;

// By loan and by send, in turn.
Result<void> send_one(StageOutput& output, std::uint32_t seed) {
  Payload payload(seed);
  if (seed % 2 == 0) {
    GANTRY_ASSIGN(auto loan, output.loan(payload.size()));
    payload.fill(loan.bytes());
    return output.publish(std::move(loan));
  }
  std::vector<std::byte> bytes(payload.size());
  payload.fill(bytes);
  return output.send(bytes);
}

Verdict send_range(std::uint32_t first, std::uint32_t count) {
  auto output = stage_output("data");
  if (!output) return report(kOpenFailed, output.error());
  for (std::uint32_t seed = first; seed < first + count; ++seed)
    if (const auto sent = send_one(*output, seed); !sent) return report(kSendFailed, sent.error());
  const auto closed = output->close();
  return closed ? kGood : report(kWrongEnd, closed.error());
}

Verdict receive_in_order(std::uint32_t count, Code end) {
  auto input = stage_input("data");
  if (!input) return report(kOpenFailed, input.error());
  for (std::uint32_t seed = 0; seed < count; ++seed) {
    const auto message = input->receive();
    if (!message) return report(kReceiveFailed, message.error());
    if (message->sequence() != seed + 1) return kWrongBytes;
    if (!Payload(seed).matches(message->bytes())) return kWrongBytes;
  }
  const auto last = input->receive();
  if (last) return kWrongEnd;
  return last.error().code == end ? kGood : report(kWrongEnd, last.error());
}

std::uint64_t total(const std::vector<MetricsReport>& reports,
                    std::uint64_t MetricsReport::* counter) {
  return std::accumulate(reports.begin(), reports.end(), std::uint64_t{0},
                         [&](auto sum, const auto& report) { return sum + report.*counter; });
}

std::uint64_t all_bytes(std::uint32_t count) {
  std::uint64_t bytes = 0;
  for (std::uint32_t seed = 0; seed < count; ++seed) bytes += Payload(seed).size();
  return bytes;
}

class Stages : public ::testing::TestWithParam<Transport> {};

TEST_P(Stages, EveryByteArrivesInOrderThenTheEnd) {
  Rig rig(GetParam(), 1, 1);
  Child receiver([&] {
    rig.become_receiver(0);
    return receive_in_order(kMessages, Code::closed);
  });
  Child sender([&] {
    rig.become_sender(0);
    return send_range(0, kMessages);
  });
  rig.close_pipes();
  EXPECT_EQ(sender.wait(), kGood);
  EXPECT_EQ(receiver.wait(), kGood);
}

TEST_P(Stages, BothEndsCountWhatTravelled) {
  Rig rig(GetParam(), 1, 1);
  Child receiver([&] {
    rig.become_receiver(0);
    return receive_in_order(20, Code::closed);
  });
  Child sender([&] {
    rig.become_sender(0);
    return send_range(0, 20);
  });
  rig.close_pipes();
  ASSERT_EQ(sender.wait(), kGood);
  ASSERT_EQ(receiver.wait(), kGood);
  for (const auto& report : {rig.sent().front(), rig.received().front()}) {
    EXPECT_TRUE(report.opened);
    EXPECT_TRUE(report.connected);
    EXPECT_EQ(report.messages, 20u);
    EXPECT_EQ(report.bytes, all_bytes(20));
    EXPECT_GT(report.cpu_ns, 0u);
  }
  const auto kernel = static_cast<std::size_t>(CopyEngine::kernel);
  const auto kernel_bytes = GetParam() == Transport::gantry ? 0 : all_bytes(20);
  EXPECT_EQ(rig.sent().front().copied_bytes[kernel], kernel_bytes);
  EXPECT_EQ(rig.received().front().copied_bytes[kernel], kernel_bytes);
  EXPECT_GT(rig.received().front().handoff_total_ns, 0u);
}

// Each receiver says by its exit status how many it got; together they got every one, once.
Verdict receive_some(std::uint32_t limit) {
  auto input = stage_input("data");
  if (!input) return report(kOpenFailed, input.error());
  for (;;) {
    const auto message = input->receive();
    if (!message && message.error().code == Code::closed) return kGood;
    if (!message) return report(kReceiveFailed, message.error());
    bool known = false;  // which of the seeds it is, its size and bytes say
    for (std::uint32_t seed = 0; seed < limit && !known; ++seed)
      known = Payload(seed).size() == message->bytes().size() &&
              Payload(seed).matches(message->bytes());
    if (!known) return kWrongBytes;
  }
}

TEST_P(Stages, TwoReceiversShareTheStream) {
  Rig rig(GetParam(), 1, 2);
  const auto receive = [&](std::size_t number) {
    return [&rig, number] {
      rig.become_receiver(number);
      return receive_some(kMessages);
    };
  };
  Child first(receive(0));
  Child second(receive(1));
  Child sender([&] {
    rig.become_sender(0);
    return send_range(0, kMessages);
  });
  rig.close_pipes();
  EXPECT_EQ(sender.wait(), kGood);
  EXPECT_EQ(first.wait(), kGood);
  EXPECT_EQ(second.wait(), kGood);
  EXPECT_EQ(total(rig.received(), &MetricsReport::messages), kMessages);
  EXPECT_EQ(total(rig.received(), &MetricsReport::bytes), all_bytes(kMessages));
  for (const auto& link : rig.sent()) EXPECT_GT(link.messages, 0u);  // neither is left out
}

TEST_P(Stages, TwoSendersAreMerged) {
  Rig rig(GetParam(), 2, 1);
  Child receiver([&] {
    rig.become_receiver(0);
    return receive_some(kMessages);
  });
  const auto send = [&](std::size_t number) {
    return [&rig, number] {
      rig.become_sender(number);
      return send_range(number == 0 ? 0 : kMessages / 2, kMessages / 2);
    };
  };
  Child first(send(0));
  Child second(send(1));
  rig.close_pipes();
  EXPECT_EQ(first.wait(), kGood);
  EXPECT_EQ(second.wait(), kGood);
  EXPECT_EQ(receiver.wait(), kGood);
  EXPECT_EQ(total(rig.received(), &MetricsReport::messages), kMessages);
  EXPECT_EQ(total(rig.received(), &MetricsReport::bytes), all_bytes(kMessages));
}

TEST_P(Stages, AStreamWithoutMessagesEndsToo) {
  Rig rig(GetParam(), 1, 1);
  Child receiver([&] {
    rig.become_receiver(0);
    return receive_in_order(0, Code::closed);
  });
  Child sender([&] {
    rig.become_sender(0);
    return send_range(0, 0);
  });
  rig.close_pipes();
  EXPECT_EQ(sender.wait(), kGood);
  EXPECT_EQ(receiver.wait(), kGood);
}

// The sender dies after the receiver has its first messages, so that both have met.
TEST_P(Stages, ASenderThatIsKilledIsGone) {
  Rig rig(GetParam(), 1, 1);
  std::array<int, 2> met{};
  ASSERT_EQ(::pipe2(met.data(), O_CLOEXEC), 0);
  const Fd met_read(met[0]), met_write(met[1]);
  Child receiver([&] {
    rig.become_receiver(0);
    auto input = stage_input("data");
    if (!input) return report(kOpenFailed, input.error());
    for (std::uint32_t seed = 0; seed < 3; ++seed)
      if (const auto message = input->receive(); !message)
        return report(kReceiveFailed, message.error());
    ring(met_write.get());
    const auto last = input->receive();
    if (last) return kWrongEnd;
    return last.error().code == Code::peer_gone ? kGood : report(kWrongEnd, last.error());
  });
  Child sender([&] {
    rig.become_sender(0);
    auto output = stage_output("data");
    for (std::uint32_t seed = 0; seed < 3; ++seed)
      if (!output || !send_one(*output, seed)) return kSendFailed;
    for (;;) ::pause();
    return kGood;
  });
  rig.close_pipes();
  ASSERT_TRUE(wait_readable(met_read.get(), Deadline::after(std::chrono::minutes(1))).value());
  sender.kill();
  EXPECT_EQ(sender.wait(), Child::kKilled);
  EXPECT_EQ(receiver.wait(), kGood);
}

TEST_P(Stages, AReceiverThatIsKilledIsGone) {
  Rig rig(GetParam(), 1, 1);
  Child receiver([&] {
    rig.become_receiver(0);
    auto input = stage_input("data");
    if (!input || !input->receive()) return kReceiveFailed;
    ::raise(SIGKILL);
    return kGood;
  });
  Child sender([&] {
    rig.become_sender(0);
    auto output = stage_output("data");
    if (!output) return report(kOpenFailed, output.error());
    for (;;)  // until there is neither credit nor receiver
      if (const auto sent = send_one(*output, 6); !sent)
        return sent.error().code == Code::peer_gone ? kGood : report(kWrongEnd, sent.error());
  });
  rig.close_pipes();
  EXPECT_EQ(receiver.wait(), Child::kKilled);
  EXPECT_EQ(sender.wait(), kGood);
  EXPECT_TRUE(rig.sent().front().broken);
  EXPECT_FALSE(rig.received().front().broken || rig.received().front().ended);
}

TEST_P(Stages, WaitingHasADeadlineAndCanBeInterrupted) {
  Rig rig(GetParam(), 1, 1);
  const Fd stop = make_event().value();
  Child sender([&] {
    rig.become_sender(0);
    auto output = stage_output("data");
    if (!output || !send_one(*output, 0)) return kSendFailed;
    for (;;) ::pause();
    return kGood;
  });
  Child receiver([&] {
    rig.become_receiver(0);
    auto input = stage_input("data", {stop.get()});
    if (!input || !input->receive()) return kReceiveFailed;
    const auto late = input->receive(Deadline::after(std::chrono::milliseconds(1)));
    if (late || late.error().code != Code::timed_out) return kWrongEnd;
    ring(stop.get());
    const auto interrupted = input->receive();
    return !interrupted && interrupted.error().code == Code::interrupted ? kGood : kWrongEnd;
  });
  rig.close_pipes();
  EXPECT_EQ(receiver.wait(), kGood);
}

TEST_P(Stages, AnEndIsOpenedOnce) {
  Rig rig(GetParam(), 1, 1);
  Child sender([&] {
    rig.become_sender(0);
    {
      const auto first = stage_output("data");
    }
    const auto second = stage_output("data");
    return !second && second.error().code == Code::already_exists ? kGood : kWrongEnd;
  });
  EXPECT_EQ(sender.wait(), kGood);
}

// Messages may be kept while others come, and hold their bytes.
TEST_P(Stages, KeptMessagesStayAsTheyAre) {
  Rig rig(GetParam(), 1, 1);
  Child receiver([&] {
    rig.become_receiver(0);
    auto input = stage_input("data");
    if (!input) return report(kOpenFailed, input.error());
    std::vector<Message> kept;
    for (std::uint32_t seed = 0; seed < 3; ++seed) {  // fewer than the rig's slots
      auto message = input->receive();
      if (!message) return report(kReceiveFailed, message.error());
      kept.push_back(std::move(*message));
    }
    for (std::uint32_t seed = 0; seed < 3; ++seed)
      if (!Payload(seed).matches(kept[seed].bytes())) return kWrongBytes;
    kept.clear();
    const auto last = input->receive();
    return !last && last.error().code == Code::closed ? kGood : kWrongEnd;
  });
  Child sender([&] {
    rig.become_sender(0);
    return send_range(0, 3);
  });
  rig.close_pipes();
  EXPECT_EQ(sender.wait(), kGood);
  EXPECT_EQ(receiver.wait(), kGood);
}

INSTANTIATE_TEST_SUITE_P(Transports, Stages, ::testing::Values(Transport::gantry, Transport::pipe),
                         [](const auto& param) { return std::string(to_string(param.param)); });

}  // namespace
}  // namespace gantry
