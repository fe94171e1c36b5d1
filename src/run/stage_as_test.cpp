// Outputs that convert: the launcher says what their tensors become, or a send does.
#include <algorithm>
#include <gantry/stage.hpp>
#include <random>

#include "core/base/half_float.hpp"
#include "run/stage_rig_test.hpp"

namespace gantry {
namespace {

using namespace test::verdicts;  // NOLINT: its names alone
using test::Child;
using test::Rig;

constexpr std::uint32_t kTensors = 20;

std::vector<float> numbers(std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> values(1 + 500 * seed);
  for (float& value : values) value = static_cast<float>(random() % 100'000) / 7 - 5'000;
  return values;
}

Tensor row(DataType type, std::size_t count) {
  const auto extent = static_cast<std::int64_t>(count);
  return Tensor::dense(type, {&extent, 1});
}

/// Sends numbers(0) to numbers(kTensors - 1), with the number as type.
using Send = std::function<Result<void>(StageOutput&, ConstByteSpan, const SendOptions&)>;

Verdict send_all(const Send& send) {
  auto output = stage_output("data");
  if (!output) return report(kOpenFailed, output.error());
  for (std::uint32_t seed = 0; seed < kTensors; ++seed) {
    const auto values = numbers(seed);
    SendOptions options;
    options.type = seed;
    const auto sent = send(*output, std::as_bytes(std::span(values)), options);
    if (!sent) return report(kSendFailed, sent.error());
  }
  const auto closed = output->close();
  return closed ? kGood : report(kWrongEnd, closed.error());
}

bool is_bf16_of(const Segment& segment, const std::vector<float>& values) {
  if (segment.tensor != row(types::bf16, values.size())) return false;
  std::vector<std::uint16_t> made(values.size());
  std::ranges::transform(values, made.begin(), [](float value) { return bf16_of_float(value); });
  return std::ranges::equal(segment.bytes, std::as_bytes(std::span(made)));
}

Verdict receive_all(std::uint32_t& count) {
  auto input = stage_input("data");
  if (!input) return report(kOpenFailed, input.error());
  for (;; ++count) {
    const auto message = input->receive();
    if (!message && message.error().code == Code::closed) return kGood;
    if (!message) return report(kReceiveFailed, message.error());
    if (message->segments() != 1) return kWrongBytes;
    if (!is_bf16_of(message->segment(0), numbers(message->info().type))) return kWrongBytes;
  }
}

/// One sender, two receivers: whichever link a message goes by, it is converted.
void expect_bf16(const std::string& as, const Send& send) {
  Rig rig(Transport::gantry, 1, 2);
  rig.convert(as);
  const auto receive = [&](std::size_t number) {
    return [&rig, number] {
      rig.become_receiver(number);
      std::uint32_t count = 0;
      return receive_all(count);
    };
  };
  Child first(receive(0)), second(receive(1));
  Child sender([&] {
    rig.become_sender(0);
    return send_all(send);
  });
  EXPECT_EQ(sender.wait(), kGood);
  EXPECT_EQ(first.wait(), kGood);
  EXPECT_EQ(second.wait(), kGood);
  std::uint64_t messages = 0, bytes = 0, wanted = 0;
  for (const auto& received : rig.received()) messages += received.messages;
  for (const auto& received : rig.received()) bytes += received.bytes;
  for (std::uint32_t seed = 0; seed < kTensors; ++seed) wanted += 2 * numbers(seed).size();
  EXPECT_EQ(messages, kTensors);
  EXPECT_EQ(bytes, wanted);  // half of what was sent
}

TEST(StageConversions, ATensorBecomesWhatTheLauncherSays) {
  expect_bf16("bf16", [](StageOutput& output, ConstByteSpan bytes, const SendOptions& options) {
    return output.send(Draft().copy(bytes, row(types::f32, bytes.size() / 4)), options);
  });
}

TEST(StageConversions, BytesNeedATypeFromTheLauncher) {
  expect_bf16("f32 -> bf16",
              [](StageOutput& output, ConstByteSpan bytes, const SendOptions& options) {
                return output.send(bytes, options);
              });
  Rig rig(Transport::gantry, 1, 1);
  rig.convert("bf16");
  Child receiver([&] {
    rig.become_receiver(0);
    std::uint32_t count = 0;
    const Verdict end = receive_all(count);
    return count == 1 ? end : kWrongEnd;
  });
  Child sender([&] {
    rig.become_sender(0);
    auto output = stage_output("data");
    if (!output) return report(kOpenFailed, output.error());
    const auto values = numbers(0);
    const auto bytes = std::as_bytes(std::span(values));
    const auto refused = output->send(bytes);
    if (refused || refused.error().code != Code::invalid_argument) return kWrongEnd;
    const auto sent = output->send(Draft().copy(bytes, row(types::f32, values.size())));
    return sent && output->close() ? kGood : kSendFailed;
  });
  EXPECT_EQ(sender.wait(), kGood);
  EXPECT_EQ(receiver.wait(), kGood);
}

TEST(StageConversions, ALoanIsOfTheSourcesType) {
  expect_bf16("f32 -> bf16",
              [](StageOutput& output, ConstByteSpan bytes, const SendOptions& options) {
                auto loan = output.loan(bytes.size());
                if (!loan) return Result<void>(tl::unexpected(loan.error()));
                std::ranges::copy(bytes, loan->bytes().begin());
                return output.publish(std::move(*loan), options);
              });
}

TEST(StageConversions, ASendSaysItForItself) {
  expect_bf16("", [](StageOutput& output, ConstByteSpan bytes, SendOptions options) {
    const As as = *As::parse("f32 -> bf16");
    options.as = &as;
    return output.send(bytes, options);
  });
  expect_bf16("", [](StageOutput& output, ConstByteSpan bytes, const SendOptions& options) {
    return output.send(Draft().copy(bytes, row(types::f32, bytes.size() / 4)).as(As(types::bf16)),
                       options);
  });
}

// ---- over pipes --------------------------------------------------------------------------------

class StageWithoutConversions : public ::testing::TestWithParam<Transport> {};

bool is_refused(const Result<void>& result) {
  return !result && result.error().code == Code::unsupported &&
         result.error().message.find("only channels convert") != std::string::npos;
}

TEST_P(StageWithoutConversions, AnOutputThatIsToConvertIsRefused) {
  Rig rig(GetParam(), 1, 1);
  rig.convert("bf16");
  Child sender([&] {
    rig.become_sender(0);
    const auto output = stage_output("data");
    return is_refused(output.map([](const auto&) {})) ? kGood : kWrongEnd;
  });
  EXPECT_EQ(sender.wait(), kGood);
}

TEST_P(StageWithoutConversions, ASendThatIsToConvertIsRefusedAndNothingOfItArrives) {
  Rig rig(GetParam(), 1, 1);
  const auto values = numbers(1);
  const auto bytes = std::as_bytes(std::span(values));
  Child sender([&] {
    rig.become_sender(0);
    auto output = stage_output("data");
    if (!output) return report(kOpenFailed, output.error());
    const As as(types::bf16);
    auto loan = output->loan(100);
    if (!loan || !is_refused(output->publish(std::move(*loan), {.as = &as}))) return kWrongEnd;
    if (!is_refused(output->send(bytes, {.as = &as}))) return kWrongEnd;
    if (!is_refused(output->send(Draft().copy(bytes).as(as)))) return kWrongEnd;
    return output->send(bytes) && output->close() ? kGood : kSendFailed;
  });
  Child receiver([&] {
    rig.become_receiver(0);
    auto input = stage_input("data");
    if (!input) return report(kOpenFailed, input.error());
    const auto message = input->receive();
    if (!message) return report(kReceiveFailed, message.error());
    if (!std::ranges::equal(message->bytes(), bytes)) return kWrongBytes;
    const auto last = input->receive();
    return !last && last.error().code == Code::closed ? kGood : kWrongEnd;
  });
  rig.close_pipes();
  EXPECT_EQ(sender.wait(), kGood);
  EXPECT_EQ(receiver.wait(), kGood);
}

INSTANTIATE_TEST_SUITE_P(Transports, StageWithoutConversions, ::testing::Values(Transport::pipe),
                         [](const auto& param) { return std::string(to_string(param.param)); });

}  // namespace
}  // namespace gantry
