#pragma once  // reshape/test_rows.hpp: numbers worth converting, and every kind of CPU that this
              // one can be.

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <bit>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "core/base/test_effort.hpp"
#include "shape/reshape/rows.hpp"
#include "shape/reshape/test_reference.hpp"

namespace gantry::shape {

using Raw = std::vector<std::byte>;

inline constexpr Element kAllElements[] = {
    Element::u8,   Element::i8,   Element::u16, Element::i16, Element::i32,
    Element::f16,  Element::bf16, Element::f32, Element::f64, Element::e4m3fn,
    Element::e5m2, Element::u4,   Element::i4,  Element::e2m1};
static_assert(std::size(kAllElements) == kElements);

inline std::size_t bytes_of(Element element) {
  return is_packed(element) ? 1 : facts_of(element).bits / 8;
}

/// Each kind of vectors that this CPU has, as Highway numbers them.
std::vector<std::int64_t> vector_targets();
/// Has the rows use one of them; 0: what is best, as usual. Returns its name.
const char* use_target(std::int64_t target);

/// Calls `body()` once with each kind of vectors.
template <class Body>
void on_every_target(Body body) {
  for (const std::int64_t target : vector_targets()) {
    const testing::ScopedTrace trace(__FILE__, __LINE__, use_target(target));
    body();
  }
  use_target(0);
}

/// Memory that ends where a page begins that nobody may touch.
class Walled {
 public:
  static constexpr std::size_t kBytes = 128 << 10;
  Walled()
      : all_(static_cast<std::byte*>(mmap(nullptr, 2 * kBytes, PROT_READ | PROT_WRITE,
                                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
    EXPECT_EQ(mprotect(all_ + kBytes, kBytes, PROT_NONE), 0);
  }
  ~Walled() { munmap(all_, 2 * kBytes); }
  Walled(const Walled&) = delete;
  Walled& operator=(const Walled&) = delete;
  /// A copy of the bytes, up to the wall.
  const std::byte* put(const std::byte* bytes, std::size_t count) {
    if (count > 0) std::memcpy(all_ + kBytes - count, bytes, count);
    return all_ + kBytes - count;
  }

 private:
  std::byte* all_;
};

template <class T>
Raw raw_of(const std::vector<T>& values) {
  Raw raw(values.size() * sizeof(T));
  std::memcpy(raw.data(), values.data(), raw.size());
  return raw;
}

/// Of both signs, every exponent and every ten upper digits of the fraction, with lower ones at and
/// beside the borders of rounding, and some at random.
inline std::vector<float> many_floats() {
  constexpr std::uint32_t kLower[] = {0,    1,    0x3f,  0x40,   0x41,   0x7f,
                                      0x80, 0x81, 0xfff, 0x1000, 0x1001, 0x1fff};
  std::vector<float> values;
  for (std::uint32_t upper = 0; upper < 1u << 19; upper += std::uint32_t(kTestStride))
    for (const std::uint32_t lower : kLower)
      values.push_back(std::bit_cast<float>(upper << 13 | lower));
  std::mt19937 random(test_seed(1));
  for (int i = 0; i < 1'000'000 / kTestStride; ++i)
    values.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(random())));
  return values;
}

/// Those of many_floats(), a bit more and a bit less, and some at random.
inline std::vector<double> many_doubles() {
  std::vector<double> values;
  const std::vector<float> floats = many_floats();
  for (std::size_t i = 0; i < floats.size(); i += 5) {  // of twelve lower halves each gets its turn
    const float value = floats[i];
    const auto bits = std::bit_cast<std::uint64_t>(static_cast<double>(value));
    for (const std::uint64_t near : {bits - 1, bits, bits + 1})
      values.push_back(std::bit_cast<double>(near));
  }
  std::mt19937_64 random(test_seed(2));
  for (int i = 0; i < 1'000'000 / kTestStride; ++i) {
    values.push_back(std::bit_cast<double>(random()));
    values.push_back(static_cast<double>(static_cast<std::int64_t>(random())) * 0x1p-31);
  }
  return values;
}

inline std::vector<std::int32_t> many_ints() {
  std::vector<std::int32_t> values;
  std::mt19937 random(test_seed(3));
  for (std::uint32_t i = 0; i < 1u << 20; i += std::uint32_t(kTestStride)) {
    values.push_back(static_cast<std::int32_t>(i * 4096 + 2048 + random() % 3 - 1));
    values.push_back(static_cast<std::int32_t>(random()) >> random() % 31);
  }
  return values;
}

/// All of a type of at most 16 bits; many of the others. Packed ones as codes.
inline Raw many(Element element) {
  switch (element) {
    case Element::f32:
      return raw_of(many_floats());
    case Element::f64:
      return raw_of(many_doubles());
    case Element::i32:
      return raw_of(many_ints());
    default:
      break;
  }
  std::vector<std::uint16_t> codes;
  for (unsigned code = 0; code < 1u << facts_of(element).bits; ++code)
    codes.push_back(static_cast<std::uint16_t>(element == Element::i4 ? (code ^ 8u) - 8u : code));
  if (bytes_of(element) == 2) return raw_of(codes);
  return raw_of(std::vector<std::uint8_t>(codes.begin(), codes.end()));
}

inline Raw expected(Element to, Element from, const Raw& source) {
  const std::size_t count = source.size() / bytes_of(from);
  Raw made(count * bytes_of(to));
  for (std::size_t i = 0; i < count; ++i)
    reference::convert(to, made.data() + i * bytes_of(to), from,
                       source.data() + i * bytes_of(from));
  return made;
}

inline std::string hex(const std::byte* at, std::size_t bytes) {
  std::string text;
  for (std::size_t i = bytes; i-- > 0;) {
    text += "0123456789abcdef"[std::to_integer<unsigned>(at[i]) >> 4];
    text += "0123456789abcdef"[std::to_integer<unsigned>(at[i]) & 15];
  }
  return text;
}

/// "f32 7f800001 became bf16 7f80, not 7fc0", of the first that differs; nothing if none does.
inline std::string difference(Element to, const Raw& got, const Raw& wanted, Element from,
                              const Raw& source) {
  const std::size_t bytes = bytes_of(to);
  if (got == wanted) return {};
  for (std::size_t i = 0; i < wanted.size() / bytes; ++i)
    if (std::memcmp(got.data() + i * bytes, wanted.data() + i * bytes, bytes) != 0)
      return std::string(facts_of(from).name) + " " +
             hex(source.data() + i * bytes_of(from), bytes_of(from)) + " became " +
             std::string(facts_of(to).name) + " " + hex(got.data() + i * bytes, bytes) + ", not " +
             hex(wanted.data() + i * bytes, bytes) + ", at " + std::to_string(i);
  return "another size";
}

}  // namespace gantry::shape
