#pragma once  // base/test_bytes.hpp: bytes of a test, made and compared fast under sanitizers, too.

#include <gantry/types.hpp>

#include <cstring>
#include <vector>

namespace gantry::test {

/// Numbers that look random, each of its own seed's (splitmix64). No state in memory: a sanitizer
/// has nothing to look at.
class Numbers {
 public:
  explicit Numbers(std::uint64_t seed) noexcept : state_(seed * 0xd1342543de82ef95) {}
  std::uint64_t operator()() noexcept {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }

 private:
  std::uint64_t state_;
};

/// The first bytes of a larger one with its seed are the same.
inline void fill_randomly(ByteSpan bytes, std::uint64_t seed) noexcept {
  Numbers random(seed);
  std::byte* to = bytes.data();
  for (Bytes left = bytes.size(); left > 0;) {
    const std::uint64_t word = random();
    const Bytes step = left < sizeof word ? left : sizeof word;
    if (step == sizeof word)
      std::memcpy(to, &word, sizeof word);
    else
      std::memcpy(to, &word, step);
    to += step;
    left -= step;
  }
}

inline std::vector<std::byte> random_bytes(Bytes size, std::uint64_t seed) {
  std::vector<std::byte> bytes(size);
  fill_randomly(bytes, seed);
  return bytes;
}

/// One call: std::equal() compares bytes one by one here.
inline bool same(ConstByteSpan one, ConstByteSpan other) noexcept {
  return one.size() == other.size() &&
         (one.empty() || std::memcmp(one.data(), other.data(), one.size()) == 0);
}

inline bool all_are(ConstByteSpan bytes, std::byte value) noexcept {
  return bytes.empty() ||
         (bytes.front() == value && same(bytes.first(bytes.size() - 1), bytes.subspan(1)));
}

}  // namespace gantry::test
