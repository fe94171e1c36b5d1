#pragma once  // attack/honest.hpp: what honest ends send each other.

#include <array>
#include <chrono>
#include <memory>

#include "core/channel/test_support.hpp"

namespace gantry::attack {

inline constexpr std::uint32_t kHonest = 7;  // MessageInfo::type of honest messages

inline std::shared_ptr<Engine> engine() {
  return std::make_shared<test::PlainEngine>();
}

/// Of messages whose bytes are compared.
inline Bytes size_of(std::uint64_t number) {
  constexpr std::array<Bytes, 5> kSizes{8, 65, 4096, 40'000, 200'000};
  return kSizes[number % kSizes.size()];
}

/// Of messages that are counted: one whose copy takes long hides what else a message costs.
inline ConstByteSpan payload_of(std::uint64_t number) {
  static const std::vector<std::byte> bytes(4096);
  constexpr std::array<Bytes, 3> kSizes{8, 65, 4096};
  return ConstByteSpan(bytes).first(kSizes[number % kSizes.size()]);
}

/// Messages that are sent in as many ways.
struct Sending {
  std::string_view name;
  Bytes bytes;
};
inline constexpr std::array kSendings{Sending{"Producer::send of 8 bytes", 8},
                                      Sending{"Producer::send of 100 bytes", 100},
                                      Sending{"Producer::send of 200,000 bytes", 200'000}};

/// Whoever counts messages looks so often whether they were all.
inline constexpr std::chrono::milliseconds kLook{5};

/// Runs `turn` again and again for so long, or until it says false; how often it said true.
template <class Turn>
std::uint64_t repeat_for(std::chrono::nanoseconds time, Turn turn) {
  const auto end = std::chrono::steady_clock::now() + time;
  std::uint64_t turns = 0;
  while (std::chrono::steady_clock::now() < end && turn()) ++turns;
  return turns;
}

}  // namespace gantry::attack
