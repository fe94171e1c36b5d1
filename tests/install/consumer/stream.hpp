#pragma once  // consumer/stream.hpp: what sender and receiver agree on: sizes and every byte.

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <gantry/gantry.hpp>
#include <string>

namespace stream {

inline constexpr const char* kName = "consumer-test";
inline constexpr std::uint64_t kMessages = 1000;
inline constexpr std::uint64_t kBigMessage = 500;  ///< Its number; every other one is small.
inline constexpr gantry::Bytes kBigBytes = gantry::Bytes{20} << 20;
inline constexpr std::chrono::seconds kPatience{120};  ///< Only a hang takes this long.

/// Bytes of message `number`, counted from 1.
inline gantry::Bytes size_of(std::uint64_t number) {
  constexpr std::array<gantry::Bytes, 9> kSizes{1, 7, 63, 64, 65, 4095, 4096, 4097, 65536};
  return number == kBigMessage ? kBigBytes : kSizes[number % kSizes.size()];
}

/// The byte at `offset` of message `number`: differs between neighbours and between messages.
inline std::byte byte_at(std::uint64_t number, std::size_t offset) {
  return static_cast<std::byte>((number * 131 + offset * 7 + offset / 251) & 0xff);
}

inline int fail(const char* who, const gantry::Error& error) {
  std::fprintf(stderr, "%s: %s\n", who, gantry::to_string(error).c_str());
  return 1;
}

}  // namespace stream
