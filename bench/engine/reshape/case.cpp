#include "case.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "../../support/program/sizes.hpp"
#include "../../support/system/posix.hpp"

namespace gantry::bench {
namespace {

using To = ReshapeTask::To;

constexpr Bytes kKiB = Bytes{1} << 10, kMiB = Bytes{1} << 20;
constexpr std::array kFloatSizes = {256 * kKiB, kMiB, 64 * kMiB, 256 * kMiB};
constexpr Bytes kGroupOfFloats = 32 * sizeof(float);
constexpr std::int64_t kChannels = 3;

Result<ReshapeCase> floats_case(To to, Bytes bytes) {
  const Bytes whole = std::max(bytes / kGroupOfFloats, Bytes{1}) * kGroupOfFloats;
  ReshapeTask task{.to = to, .count = static_cast<std::int64_t>(whole / sizeof(float))};
  task.scale[0] = 30;  // of i8 without groups; the largest number is below 4
  const DataType type = to == To::bf16 ? types::bf16 : to == To::f16 ? types::f16 : Groups{}.type();
  const std::array<std::int64_t, 1> shape{task.count};
  auto plan = ReshapePlan::make(type, Tensor::dense(types::f32, shape));
  if (!plan) return Unexpected(plan.error());
  return ReshapeCase{
      fmt::format("{}/f32 to {}/{}", kReshape, gantry::to_string(type), format_size(whole)), task,
      *std::move(plan)};
}

/// Blue first, interleaved, to red first, in planes, each with the mean and the deviation that
/// networks for pictures expect.
Result<ReshapeCase> pictures_case(To to, std::int64_t count, std::int64_t height,
                                  std::int64_t width) {
  constexpr std::array<float, 3> kMean = {0.485f, 0.456f, 0.406f};
  constexpr std::array<float, 3> kDeviation = {0.229f, 0.224f, 0.225f};
  ReshapeTask task{.to = to, .pictures = true, .count = count, .height = height, .width = width};
  for (std::size_t c = 0; c < 3; ++c) {
    task.scale[c] = 1 / (255 * kDeviation[c]);
    task.offset[c] = -kMean[c] / kDeviation[c];
  }
  ReshapeOptions options;
  options.order = {0, 3, 1, 2};
  options.channel_dimension = 1;
  options.channels = {2, 1, 0};
  options.scale.assign(task.scale.begin(), task.scale.end());
  options.offset.assign(task.offset.begin(), task.offset.end());
  const DataType type = to == To::bf16 ? types::bf16 : types::f32;
  const std::array<std::int64_t, 4> from{count, height, width, kChannels};
  const std::array<std::int64_t, 4> planes{count, kChannels, height, width};
  auto plan =
      ReshapePlan::make(Tensor::dense(type, planes), Tensor::dense(types::u8, from), options);
  if (!plan) return Unexpected(plan.error());
  return ReshapeCase{fmt::format("{}/pictures to {}/{}x{}x{}x{}", kReshape, gantry::to_string(type),
                                 count, height, width, kChannels),
                     task, *std::move(plan)};
}

/// As many as `most` bytes hold, and one.
std::int64_t fitting(std::int64_t wanted, std::int64_t bytes_each, Bytes most) noexcept {
  return std::clamp(static_cast<std::int64_t>(most) / bytes_each, std::int64_t{1}, wanted);
}

std::uint64_t next(std::uint64_t& state) noexcept {  // xorshift64
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state;
}

void fill_with_bytes(ByteSpan bytes, std::uint64_t& state) noexcept {
  for (Bytes at = 0; at < bytes.size(); at += sizeof(std::uint64_t)) {
    const std::uint64_t word = next(state);
    std::memcpy(bytes.data() + at, &word, std::min(sizeof word, bytes.size() - at));
  }
}

/// As activations are: around 0, a few of them large.
void fill_with_floats(ByteSpan bytes, std::uint64_t& state) noexcept {
  auto* const floats = reinterpret_cast<float*>(bytes.data());
  for (Bytes i = 0; i < bytes.size() / sizeof(float); ++i) {
    const std::uint64_t word = next(state);
    float sum = 0;  // of four even ones
    for (unsigned part = 0; part < 64; part += 16)
      sum += static_cast<float>(word >> part & 0xffff) / 0x8000 - 1;
    floats[i] = sum;
  }
}

/// An f32, or a bf16.
double number_at(To to, ConstByteSpan bytes, Bytes index) noexcept {
  if (to == To::f32) {
    float value = 0;
    std::memcpy(&value, bytes.data() + index * sizeof value, sizeof value);
    return static_cast<double>(value);
  }
  std::uint16_t half = 0;
  std::memcpy(&half, bytes.data() + index * sizeof half, sizeof half);
  return static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(half) << 16));
}

Result<void> wrong(std::string_view what, Bytes at) {
  return Unexpected({Code::peer_misbehaved, fmt::format("{} {} is wrong", what, at), ""});
}

}  // namespace

Result<std::vector<ReshapeCase>> reshape_cases(const Settings& settings) {
  constexpr std::int64_t kSide = 224, kHeight = 2160, kWidth = 3840, kBatch = 256;
  std::vector<ReshapeCase> all;
  Result<void> made;
  const auto add = [&](Result<ReshapeCase> one) {
    if (one)
      all.push_back(*std::move(one));
    else
      made = Unexpected(one.error());
  };
  for (const To to : {To::bf16, To::f16, To::i8})
    for (const Bytes bytes : settings.own_sizes(kFloatSizes)) add(floats_case(to, bytes));
  const Bytes most = settings.largest();
  for (const To to : {To::f32, To::bf16}) {
    add(pictures_case(to, fitting(kBatch, kSide * kSide * kChannels, most), kSide, kSide));
    add(pictures_case(to, 1, fitting(kHeight, kWidth * kChannels, most), kWidth));
  }
  if (!made) return Unexpected(made.error());
  return all;
}

ReshapeMemory::ReshapeMemory(const ReshapeCase& what)
    : task_(what.task),
      source_(what.source_bytes()),
      destination_(what.destination_bytes()),
      staging_(std::max(what.source_bytes(), what.destination_bytes())),
      reference_(what.destination_bytes()) {
  if (task_.pictures)
    fill_with_bytes(source_.bytes(), random_);
  else
    fill_with_floats(source_.bytes(), random_);
  task_.source = source_.bytes().data();
  task_.destination = reference_.bytes().data();
  reshape_by_loop(task_);
  task_.destination = destination_.bytes().data();
}

void ReshapeMemory::spoil(ByteSpan made) noexcept {
  const Bytes last = made.size() - 1;
  for (const Bytes at : {Bytes{0}, last, next(random_) % made.size()}) made[at] ^= std::byte{0xff};
}

Result<void> ReshapeMemory::check(ConstByteSpan made, double tolerance) const {
  const ConstByteSpan wanted = reference();
  if (tolerance == 0) {
    const auto differing = std::mismatch(made.begin(), made.end(), wanted.begin()).first;
    if (differing == made.end()) return {};
    return wrong("byte", static_cast<Bytes>(differing - made.begin()));
  }
  const Bytes count = made.size() / (task_.to == To::f32 ? sizeof(float) : sizeof(std::uint16_t));
  for (Bytes i = 0; i < count; ++i) {
    const double off = number_at(task_.to, made, i) - number_at(task_.to, wanted, i);
    if (!(std::fabs(off) <= tolerance)) return wrong("number", i);
  }
  return {};
}

Result<void> ReshapeMemory::check_whole_numbers(ConstByteSpan made) const {
  const auto* const floats = reinterpret_cast<const float*>(source().data());
  for (Bytes i = 0; i < made.size(); ++i)
    if (static_cast<long>(static_cast<std::int8_t>(made[i])) !=
        std::lrintf(floats[i] * task_.scale[0]))
      return wrong("number", i);
  return {};
}

}  // namespace gantry::bench
