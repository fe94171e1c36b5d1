// Conversions as plain loops.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "case.hpp"

namespace gantry::bench {
namespace {

constexpr std::int64_t kGroup = 32;
constexpr std::int64_t kGroupBytes = 2 + kGroup;

std::uint16_t bf16_of(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

void to_bf16(std::uint16_t* to, const float* from, std::int64_t count) noexcept {
  for (std::int64_t i = 0; i < count; ++i) to[i] = bf16_of(from[i]);
}

void to_f16(_Float16* to, const float* from, std::int64_t count) noexcept {
  for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<_Float16>(from[i]);
}

// The scale, then the numbers: the least f16 with which none is beyond 127 of them.
void to_group(std::byte* to, const float* from) noexcept {
  float largest = 0;
  for (std::int64_t i = 0; i < kGroup; ++i) largest = std::max(largest, std::fabs(from[i]));
  const float wanted = largest / 127;
  auto scale = static_cast<_Float16>(wanted);
  if (static_cast<float>(scale) < wanted)
    scale = std::bit_cast<_Float16>(
        static_cast<std::uint16_t>(std::bit_cast<std::uint16_t>(scale) + 1));
  const float times = 1 / static_cast<float>(scale);
  std::memcpy(to, &scale, sizeof scale);
  for (std::int64_t i = 0; i < kGroup; ++i)
    to[2 + i] = static_cast<std::byte>(static_cast<std::int8_t>(std::lrintf(from[i] * times)));
}

template <class Number, class Store>
void to_planes(const ReshapeTask& task, Store store) noexcept {
  const auto* from = reinterpret_cast<const std::uint8_t*>(task.source);
  auto* to = reinterpret_cast<Number*>(task.destination);
  const std::int64_t pixels = task.pixels();
  for (std::int64_t picture = 0; picture < task.count; ++picture) {
    for (std::int64_t i = 0; i < pixels; ++i)
      for (std::int64_t c = 0; c < 3; ++c) {
        const auto channel = static_cast<std::size_t>(c);
        const float value = static_cast<float>(from[3 * i + 2 - c]);
        to[c * pixels + i] = store(value * task.scale[channel] + task.offset[channel]);
      }
    from += 3 * pixels;
    to += 3 * pixels;
  }
}

}  // namespace

void reshape_by_loop(const ReshapeTask& task) noexcept {
  const auto* const floats = reinterpret_cast<const float*>(task.source);
  if (task.pictures && task.to == ReshapeTask::To::f32)
    return to_planes<float>(task, [](float value) { return value; });
  if (task.pictures) return to_planes<std::uint16_t>(task, bf16_of);
  if (task.to == ReshapeTask::To::bf16)
    return to_bf16(reinterpret_cast<std::uint16_t*>(task.destination), floats, task.count);
  if (task.to == ReshapeTask::To::f16)
    return to_f16(reinterpret_cast<_Float16*>(task.destination), floats, task.count);
  for (std::int64_t i = 0; i < task.count / kGroup; ++i)
    to_group(task.destination + i * kGroupBytes, floats + i * kGroup);
}

}  // namespace gantry::bench
