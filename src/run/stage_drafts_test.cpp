// Drafts that stages send, over every transport: whole, with what is said of them, or refused.
#include <algorithm>
#include <gantry/memory.hpp>
#include <gantry/stage.hpp>

#include "run/stage_rig_test.hpp"

namespace gantry {
namespace {

using namespace test::verdicts;  // NOLINT: its names alone
using test::Child;
using test::Payload;
using test::Rig;

class StageDrafts : public ::testing::TestWithParam<Transport> {};

Verdict send_drafts() {
  auto output = stage_output("data");
  if (!output) return report(kOpenFailed, output.error());
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    std::vector<std::byte> first(Payload(seed).size()), second(100);
    Payload(seed).fill(first);
    SendOptions options;
    options.type = seed;
    options.user = 1000 + seed;
    const auto sent = output->send(Draft().copy(first).copy(second), options);
    if (!sent) return report(kSendFailed, sent.error());
  }
  const auto closed = output->close();
  return closed ? kGood : report(kWrongEnd, closed.error());
}

Verdict receive_drafts(Transport transport) {
  auto input = stage_input("data");
  if (!input) return report(kOpenFailed, input.error());
  for (;;) {
    const auto message = input->receive();
    if (!message && message.error().code == Code::closed) return kGood;
    if (!message) return report(kReceiveFailed, message.error());
    const std::uint32_t seed = message->info().type;
    std::vector<std::byte> all;
    for (std::size_t i = 0; i < message->segments(); ++i) {
      const ConstByteSpan bytes = message->segment(i).bytes;
      all.insert(all.end(), bytes.begin(), bytes.end());
    }
    const bool is_whole = all.size() == Payload(seed).size() + 100 &&
                          Payload(seed).matches(std::span(all).first(all.size() - 100));
    const std::size_t segments = transport == Transport::gantry ? 2 : 1;
    if (!is_whole || message->info().user != 1000 + seed || message->segments() != segments)
      return kWrongBytes;
  }
}

// Two receivers: a draft that one link has no room for goes whole to the other.
TEST_P(StageDrafts, DraftsAndWhatIsSaidOfThemArrive) {
  Rig rig(GetParam(), 1, 2);
  const auto receive = [&](std::size_t number) {
    return [&rig, number] {
      rig.become_receiver(number);
      return receive_drafts(GetParam());
    };
  };
  Child first(receive(0));
  Child second(receive(1));
  Child sender([&] {
    rig.become_sender(0);
    return send_drafts();
  });
  rig.close_pipes();
  EXPECT_EQ(sender.wait(), kGood);
  EXPECT_EQ(first.wait(), kGood);
  EXPECT_EQ(second.wait(), kGood);
  std::uint64_t messages = 0;
  for (const auto& received : rig.received()) messages += received.messages;
  EXPECT_EQ(messages, 20u);
  for (const auto& report : rig.sent()) EXPECT_TRUE(report.ended && !report.broken);
  for (const auto& report : rig.received()) EXPECT_TRUE(report.ended && !report.broken);
}

/// A container in a pool: the channel's, or where there is none one of the stage's own.
Verdict send_a_container(Transport transport) {
  auto output = stage_output("data");
  auto pool = !output ? tl::unexpected(output.error())
                      : (transport == Transport::gantry ? output->pool() : Pool::create());
  if (!pool) return report(kOpenFailed, pool.error());
  PoolResource resource(*pool);
  std::pmr::vector<std::byte> values(5000, std::byte{7}, &resource);
  values.resize(1000);
  const auto block = [&] { return pool->find(values.data()).value(); };
  const auto refusal = [&](Draft draft) {
    const auto sent = output->send(std::move(draft));
    return sent ? Code::closed : sent.error().code;
  };
  Draft many;
  for (std::size_t i = 0; i <= kMaxSegments; ++i) many.copy({});
  if (refusal(Draft().move(block())) != Code::invalid_argument) return kWrongEnd;
  if (refusal(Draft().move(block(), 5001)) != Code::invalid_argument) return kWrongEnd;
  if (refusal(Draft().copy({static_cast<std::byte*>(nullptr), 10})) != Code::invalid_argument)
    return kWrongEnd;
  if (refusal(std::move(many)) != Code::too_large) return kWrongEnd;
  if (output->send({static_cast<std::byte*>(nullptr), 10})) return kWrongEnd;
  if (output->send(values, {.mode = static_cast<SendMode>(99)})) return kWrongEnd;
  auto sent = output->send(Draft().move(block(), values.size()));
  if (!sent) return report(kSendFailed, sent.error());
  StageOutput moved = std::move(*output);
  if (output->send(values) || output->close()) return kWrongEnd;
  const auto closed = moved.close();
  return closed ? kGood : report(kWrongEnd, closed.error());
}

// What a channel refuses is refused over every transport, and nothing of it arrives.
TEST_P(StageDrafts, WhatCannotBeRightIsRefused) {
  Rig rig(GetParam(), 1, 1);
  Child sender([&] {
    rig.become_sender(0);
    return send_a_container(GetParam());
  });
  Child receiver([&] {
    rig.become_receiver(0);
    auto input = stage_input("data");
    if (!input) return report(kOpenFailed, input.error());
    const auto message = input->receive();
    if (!message) return report(kReceiveFailed, message.error());
    const std::vector<std::byte> expected(1000, std::byte{7});
    if (!std::ranges::equal(message->bytes(), expected)) return kWrongBytes;
    const auto last = input->receive();
    return !last && last.error().code == Code::closed ? kGood : kWrongEnd;
  });
  rig.close_pipes();
  EXPECT_EQ(sender.wait(), kGood);
  EXPECT_EQ(receiver.wait(), kGood);
}

INSTANTIATE_TEST_SUITE_P(Transports, StageDrafts,
                         ::testing::Values(Transport::gantry, Transport::pipe),
                         [](const auto& param) { return std::string(to_string(param.param)); });

}  // namespace
}  // namespace gantry
