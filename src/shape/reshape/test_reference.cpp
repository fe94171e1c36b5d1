#include "shape/reshape/test_reference.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

// Every value is a double on its way, which all types fit into, and is rounded once.
namespace gantry::shape::reference {
namespace {

/// A float of few bits: sign, exponent, fraction.
struct Format {
  unsigned bytes;
  unsigned sign;      // the bit
  unsigned fraction;  // bits
  int bias;
  std::int64_t largest;    // the code of the largest number
  std::int64_t infinite;   // what lies beyond it becomes
  std::int64_t first_nan;  // the quiet one without a payload
  unsigned payload;        // bits of it below the quiet one
};
constexpr std::int64_t kNone = -1;
constexpr Format kF16{2, 15, 10, 15, 0x7bff, 0x7c00, 0x7e00, 9};
constexpr Format kBf16{2, 15, 7, 127, 0x7f7f, 0x7f80, 0x7fc0, 6};
constexpr Format kF32{4, 31, 23, 127, 0x7f7fffff, 0x7f800000, 0x7fc00000, 22};
constexpr Format kE5m2{1, 7, 2, 15, 0x7b, 0x7c, 0x7e, 1};
constexpr Format kE4m3fn{1, 7, 3, 7, 0x7e, 0x7e, 0x7f, 0};
constexpr Format kE2m1{1, 3, 1, 1, 7, 7, kNone, 0};

constexpr unsigned kPayload = 51;  // bits of a double's, below the quiet one
constexpr std::uint64_t kQuiet = 0x7ff8'0000'0000'0000;

template <class T>
T read(const std::byte* at) noexcept {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

double power_of_two(int exponent) noexcept {  // within the normal doubles
  return std::bit_cast<double>(static_cast<std::uint64_t>(1023 + exponent) << 52);
}

const Format* format_of(Element element) noexcept {
  switch (element) {
    case Element::f16:
      return &kF16;
    case Element::bf16:
      return &kBf16;
    case Element::f32:
      return &kF32;
    case Element::e5m2:
      return &kE5m2;
    case Element::e4m3fn:
      return &kE4m3fn;
    case Element::e2m1:
      return &kE2m1;
    default:
      return nullptr;
  }
}

double value_of(const Format& format, std::int64_t code) noexcept {
  const bool negative = (code >> format.sign & 1) != 0;
  const std::int64_t rest = code & ((std::int64_t{1} << format.sign) - 1);
  if (rest > std::max(format.largest, format.infinite)) {
    const std::int64_t payload = rest & ((std::int64_t{1} << format.payload) - 1);
    return std::bit_cast<double>(std::uint64_t{negative} << 63 | kQuiet |
                                 static_cast<std::uint64_t>(payload)
                                     << (kPayload - format.payload));
  }
  const std::int64_t exponent = rest >> format.fraction;
  const std::int64_t one = std::int64_t{1} << format.fraction;
  const std::int64_t fraction = rest & (one - 1);
  const int least = 1 - format.bias - static_cast<int>(format.fraction);
  double value = exponent == 0 ? static_cast<double>(fraction) * power_of_two(least)
                               : static_cast<double>(one + fraction) *
                                     power_of_two(least + static_cast<int>(exponent) - 1);
  if (rest > format.largest) value = HUGE_VAL;
  return negative ? -value : value;
}

std::int64_t nan_of(const Format& format, std::uint64_t bits) noexcept {
  if (format.first_nan == kNone) return 0;
  const std::uint64_t payload =
      bits >> (kPayload - format.payload) & ((std::uint64_t{1} << format.payload) - 1);
  return static_cast<std::int64_t>(bits >> 63) << format.sign | format.first_nan |
         static_cast<std::int64_t>(payload);
}

std::int64_t code_of(const Format& format, double value) noexcept {
  const std::uint64_t bits = std::bit_cast<std::uint64_t>(value);
  if (std::isnan(value)) return nan_of(format, bits);
  const double magnitude = std::fabs(value);
  const std::int64_t sign = static_cast<std::int64_t>(bits >> 63) << format.sign;
  if (std::isinf(value)) return sign | format.infinite;
  // How many of the last digit it is. That of the numbers below the normal ones is the least.
  const int least = 1 - format.bias;
  const int exponent = std::max(static_cast<int>(bits >> 52 & 0x7ff) - 1023, least);
  if (exponent - least > 1000) return sign | format.infinite;
  const double unit = power_of_two(static_cast<int>(format.fraction) - exponent);
  const auto digits = static_cast<std::int64_t>(std::nearbyint(magnitude * unit));
  const std::int64_t code =
      (static_cast<std::int64_t>(exponent - least) << format.fraction) + digits;
  return sign | (code > format.largest ? format.infinite : code);
}

double value_of(Element element, const std::byte* at) noexcept {
  switch (element) {
    case Element::u8:
    case Element::u4:
      return read<std::uint8_t>(at);
    case Element::i8:
    case Element::i4:
      return read<std::int8_t>(at);
    case Element::u16:
      return read<std::uint16_t>(at);
    case Element::i16:
      return read<std::int16_t>(at);
    case Element::i32:
      return read<std::int32_t>(at);
    case Element::f64:
      return read<double>(at);
    default:
      break;
  }
  const Format* format = format_of(element);
  if (format == nullptr) return 0;  // there is none
  if (format->bytes == 1) return value_of(*format, read<std::uint8_t>(at));
  if (format->bytes == 2) return value_of(*format, read<std::uint16_t>(at));
  return value_of(*format, read<std::uint32_t>(at));
}

void write(std::byte* at, std::int64_t value, unsigned bytes) noexcept {
  std::memcpy(at, &value, bytes);  // the lowest come first
}

void write(Element element, std::byte* at, double value) noexcept {
  if (element == Element::f64) {
    if (std::isnan(value))
      value = std::bit_cast<double>(std::bit_cast<std::uint64_t>(value) | kQuiet);
    std::memcpy(at, &value, sizeof value);
  } else if (const Format* format = format_of(element)) {
    write(at, code_of(*format, value), format->bytes);
  } else {
    const ElementFacts& facts = facts_of(element);
    if (std::isnan(value)) value = 0;
    value = std::nearbyint(std::clamp(value, facts.least, facts.largest));
    write(at, static_cast<std::int64_t>(value), std::max(facts.bits / 8, 1u));
  }
}

}  // namespace

void convert(Element to, std::byte* destination, Element from, const std::byte* source) noexcept {
  const ElementFacts& facts = facts_of(from);
  if (to == from) {
    std::memcpy(destination, source, std::max(facts.bits / 8, 1u));
  } else if (from == Element::bf16 && to == Element::f32) {  // a NaN may stay a signalling one
    write(destination, std::int64_t{read<std::uint16_t>(source)} << 16, 4);
  } else {
    write(to, destination, value_of(from, source));
  }
}

void scale(float* value, float scale, float offset) noexcept {
  const float product = *value * scale;
  *value = product + offset;
  if (std::isnan(*value)) *value = std::bit_cast<float>(0x7fc00000u);
}

void scale(double* value, double scale, double offset) noexcept {
  const double product = *value * scale;
  *value = product + offset;
  if (std::isnan(*value)) *value = std::bit_cast<double>(kQuiet);
}

// ---- groups -------------------------------------------------------------------------------------
namespace {

/// A group's scale, and what stands for it in memory.
struct Scale {
  float value = 0;
  std::uint32_t code = 0;
};

bool is_float(Element element) noexcept {
  return facts_of(element).is_float;
}

// The numbers from the largest to the smallest that a group can hold, without its zero point.
float most_of(Element element) noexcept {
  return static_cast<float>(facts_of(element).largest);
}

float of_e8m0(std::uint32_t code) noexcept {
  if (code == 255) return std::bit_cast<float>(0x7fc00000u);
  return static_cast<float>(std::ldexp(1.0, static_cast<int>(code) - 127));
}

Scale e8m0_scale(Element element, float largest, float quotient) noexcept {
  int exponent = 0;
  if (is_float(element)) {
    exponent = std::ilogb(largest) - std::ilogb(most_of(element));
  } else {
    exponent = std::ilogb(quotient);
    if (std::ldexp(1.0, exponent) < quotient) ++exponent;
  }
  const auto code = static_cast<std::uint32_t>(std::clamp(exponent + 127, 0, 254));
  return {of_e8m0(code), code};
}

// The least number of the scale's type that is not less than `quotient`, and never so small that
// its reciprocal is infinite.
Scale rounded_up(const Format& format, float quotient) noexcept {
  const double largest = value_of(format, format.largest);
  const double least = format.bias == 15 ? 0x1p-24 : 0x1p-126;
  const double value = std::clamp<double>(quotient, least, largest);
  std::int64_t code = code_of(format, value);
  if (value_of(format, code) < value) ++code;
  return {static_cast<float>(value_of(format, code)), static_cast<std::uint32_t>(code)};
}

Scale scale_of(const Groups& groups, Element element, float largest, float quotient) noexcept {
  switch (groups.scale) {
    case Groups::Scale::f32:
      return rounded_up(kF32, quotient);
    case Groups::Scale::f16:
      return rounded_up(kF16, quotient);
    case Groups::Scale::bf16:
      return rounded_up(kBf16, quotient);
    case Groups::Scale::e8m0:
      break;
  }
  return e8m0_scale(element, largest, quotient);
}

unsigned bytes_of(Groups::Scale scale) noexcept {
  if (scale == Groups::Scale::f32) return 4;
  return scale == Groups::Scale::e8m0 ? 1 : 2;
}

float read_scale(Groups::Scale scale, const std::byte* at) noexcept {
  switch (scale) {
    case Groups::Scale::f32:
      return read<float>(at);
    case Groups::Scale::f16:
      return static_cast<float>(value_of(Element::f16, at));
    case Groups::Scale::bf16:
      return static_cast<float>(value_of(Element::bf16, at));
    case Groups::Scale::e8m0:
      break;
  }
  return of_e8m0(read<std::uint8_t>(at));
}

// Whole numbers of a group lie around this one, which is 0 or, with a sign, half of them lower.
int lowest_of(Element element) noexcept {
  return static_cast<int>(facts_of(element).least);
}

std::byte code_of(Element element, float quotient, int zero) noexcept {
  std::byte code{};
  if (is_float(element)) {
    const float most = most_of(element);
    // Not clamped if it is a NaN.
    if (std::fabs(quotient) > most) quotient = std::copysign(most, quotient);
    write(element, &code, quotient);
  } else {
    if (std::isnan(quotient)) quotient = 0;
    const double nearest = std::nearbyint(std::clamp(quotient, -1e6f, 1e6f));
    const ElementFacts& facts = facts_of(element);
    write(element, &code, std::clamp(nearest + zero, facts.least, facts.largest));
  }
  return code;
}

void put(std::byte* numbers, unsigned bits, std::size_t index, std::byte code) noexcept {
  if (bits == 8) {
    numbers[index] = code;
  } else if (index % 2 == 0) {
    numbers[index / 2] = code & std::byte{0xf};
  } else {
    numbers[index / 2] |= code << 4;
  }
}

std::byte taken(const std::byte* numbers, Element element, std::size_t index) noexcept {
  if (facts_of(element).bits == 8) return numbers[index];
  const std::byte code = numbers[index / 2] >> (index % 2 * 4) & std::byte{0xf};
  const bool negative = element == Element::i4 && (code & std::byte{8}) != std::byte{0};
  return negative ? code | std::byte{0xf0} : code;
}

}  // namespace

void floats_to_group(std::byte* destination, const Groups& groups, const float* source) noexcept {
  const Element element = *element_of(groups.element);
  const ElementFacts& facts = facts_of(element);
  float low = 0, high = 0;
  for (unsigned i = 0; i < groups.size; ++i) {
    if (!std::isfinite(source[i])) continue;
    low = std::min(low, source[i]);
    high = std::max(high, source[i]);
  }
  const float steps = static_cast<float>(facts.largest - facts.least);
  const bool is_signed = facts.least < 0;
  const float largest = groups.zero_point || !is_signed ? high : std::max(high, -low);
  const float span = groups.zero_point ? high / 2 - low / 2 : largest;
  Scale scale;  // 0 if all numbers are
  if (high != 0 || (low != 0 && (is_signed || groups.zero_point)))
    scale =
        scale_of(groups, element, span, span / (groups.zero_point ? steps / 2 : most_of(element)));
  const float reciprocal = scale.value == 0 ? 1 : 1 / scale.value;
  int zero = 0;
  if (groups.zero_point)
    zero = lowest_of(element) +
           static_cast<int>(std::nearbyint(std::clamp(-low * reciprocal, 0.0f, steps)));
  const unsigned scale_bytes = bytes_of(groups.scale);
  write(destination, scale.code, scale_bytes);
  std::byte* numbers = destination + scale_bytes;
  if (groups.zero_point) *numbers++ = static_cast<std::byte>(zero);
  for (unsigned i = 0; i < groups.size; ++i)
    put(numbers, facts.bits, i, code_of(element, source[i] * reciprocal, zero));
}

void group_to_floats(float* to, const Groups& groups, const std::byte* source) noexcept {
  const Element element = *element_of(groups.element);
  const float scale = read_scale(groups.scale, source);
  const std::byte* numbers = source + bytes_of(groups.scale);
  double zero = 0;
  if (groups.zero_point)
    zero = value_of(lowest_of(element) < 0 ? Element::i8 : Element::u8, numbers++);
  for (unsigned i = 0; i < groups.size; ++i) {
    const std::array<std::byte, 8> code{taken(numbers, element, i)};
    to[i] = scale * static_cast<float>(value_of(element, code.data()) - zero);
    constexpr float kLargest = std::numeric_limits<float>::max();
    to[i] = std::isnan(to[i]) ? std::bit_cast<float>(0x7fc00000u)
                              : std::clamp(to[i], -kLargest, kLargest);
  }
}

}  // namespace gantry::shape::reference
