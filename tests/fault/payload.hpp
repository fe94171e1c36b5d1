#pragma once  // fault/payload.hpp: messages that say what they are, so that one wrong byte shows.

#include <cstring>
#include <gantry/types.hpp>
#include <vector>

namespace gantry::fault {

inline constexpr Bytes kSmallestPayload = 24;
/// Among many senders a message's number is its sender's (Part::sender), then its own.
inline constexpr unsigned kSenderShift = 16;
[[nodiscard]] constexpr std::uint64_t number_of(std::uint64_t sender, std::uint64_t id) noexcept {
  return sender << kSenderShift | id;
}
[[nodiscard]] constexpr std::uint64_t sender_of(std::uint64_t number) noexcept {
  return number >> kSenderShift;
}
[[nodiscard]] constexpr std::uint64_t id_of(std::uint64_t number) noexcept {
  return number & ((std::uint64_t{1} << kSenderShift) - 1);
}

/// Word `index` of message `id`.
[[nodiscard]] constexpr std::uint64_t payload_word(std::uint64_t id, std::size_t index) noexcept {
  return (id * 0x9e3779b97f4a7c15 + index) * 0xbf58476d1ce4e5b9;
}

/// `bytes`: a multiple of 8, kSmallestPayload at least: its number, its size, then words.
inline void fill_payload(ByteSpan bytes, std::uint64_t id) noexcept {
  if (bytes.size() < kSmallestPayload) return;
  const auto put = [&](std::size_t index, std::uint64_t word) {
    std::memcpy(bytes.data() + index * sizeof word, &word, sizeof word);
  };
  put(0, id);
  put(1, bytes.size());
  for (std::size_t i = 2; i < bytes.size() / sizeof(std::uint64_t); ++i)
    put(i, payload_word(id, i));
}

/// The message's number; 0 unless every byte of it is there and right.
[[nodiscard]] inline std::uint64_t read_payload(ConstByteSpan bytes) noexcept {
  const auto get = [&](std::size_t index) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + index * sizeof word, sizeof word);
    return word;
  };
  if (bytes.size() < kSmallestPayload || get(1) != bytes.size()) return 0;
  const std::uint64_t id = get(0);
  for (std::size_t i = 2; i < bytes.size() / sizeof(std::uint64_t); ++i)
    if (get(i) != payload_word(id, i)) return 0;
  return id;
}

/// Of a message whose bytes became numbers of 16 bits: their low halves. Empty if one has a high
/// half.
[[nodiscard]] inline std::vector<std::byte> narrowed(ConstByteSpan bytes) {
  std::vector<std::byte> low;
  low.reserve(bytes.size() / 2);
  for (std::size_t i = 0; i + 1 < bytes.size(); i += 2) {
    if (bytes[i + 1] != std::byte{}) return {};
    low.push_back(bytes[i]);
  }
  return low;
}

}  // namespace gantry::fault
