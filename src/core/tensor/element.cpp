#include "core/tensor/element.hpp"

#include <algorithm>
#include <array>
#include <gantry/types.hpp>
#include <utility>

#include "core/base/assert.hpp"
#include "core/base/result.hpp"
#include "core/base/text_lines.hpp"
#include "core/tensor/groups.hpp"

namespace gantry::shape {
namespace {

constexpr std::array<ElementFacts, kElements> kFacts{{
    {"u8", types::u8, 8, false, 255, 0, 8, 0},
    {"i8", types::i8, 8, false, 127, -128, 7, 0},
    {"u16", types::u16, 16, false, 65535, 0, 16, 0},
    {"i16", types::i16, 16, false, 32767, -32768, 15, 0},
    {"i32", types::i32, 32, false, 2147483647, -2147483648.0, 31, 0},
    {"f16", types::f16, 16, true, 65504, -65504, 11, -24},
    {"bf16", types::bf16, 16, true, 0x1.fep127, -0x1.fep127, 8, -133},
    {"f32", types::f32, 32, true, 0x1.fffffep127, -0x1.fffffep127, 24, -149},
    {"f64", types::f64, 64, true, 0x1.fffffffffffffp1023, -0x1.fffffffffffffp1023, 53, -1074},
    {"e4m3fn", types::e4m3fn, 8, true, 448, -448, 4, -9},
    {"e5m2", types::e5m2, 8, true, 57344, -57344, 3, -16},
    {"u4", types::u4, 4, false, 15, 0, 4, 0},
    {"i4", types::i4, 4, false, 7, -8, 3, 0},
    {"e2m1", types::e2m1, 4, true, 6, -6, 2, -1},
}};

}  // namespace

const ElementFacts& facts_of(Element element) noexcept {
  GANTRY_DEBUG_ASSERT(static_cast<std::size_t>(element) < kElements);
  return kFacts[static_cast<std::size_t>(element)];
}

std::optional<Element> element_of(DataType type) noexcept {
  const auto found = std::ranges::find(kFacts, type, &ElementFacts::type);
  if (found == kFacts.end()) return std::nullopt;
  return static_cast<Element>(found - kFacts.begin());
}

}  // namespace gantry::shape

namespace gantry {

Tensor Tensor::dense(DataType type, std::span<const std::int64_t> shape) noexcept {
  Tensor tensor;
  tensor.type = type;
  tensor.dimensions = static_cast<unsigned>(std::min<std::size_t>(shape.size(), kMaxDimensions));
  std::int64_t stride = 1;
  for (unsigned i = tensor.dimensions; i-- > 0;) {
    tensor.shape[i] = shape[i];
    tensor.strides[i] = stride;
    if (__builtin_mul_overflow(stride, shape[i], &stride)) stride = 0;  // fits() refuses it
  }
  return tensor;
}

namespace {

// Numbers from the first to the one farthest from it, both included; nothing on overflow.
std::optional<std::uint64_t> reach_of(const Tensor& tensor) noexcept {
  std::int64_t last = 0;
  for (unsigned i = 0; i < tensor.dimensions; ++i) {
    if (tensor.strides[i] == 0 && tensor.shape[i] > 1) return std::nullopt;
    std::int64_t reach = 0;
    if (__builtin_mul_overflow(tensor.shape[i] - 1, tensor.strides[i], &reach) ||
        __builtin_add_overflow(last, reach, &last))
      return std::nullopt;
  }
  return static_cast<std::uint64_t>(last) + 1;
}

// Groups run along the last dimension, whole and without gaps.
std::optional<std::uint64_t> bits_of_groups(const Tensor& tensor, const Groups& groups,
                                            std::uint64_t numbers) noexcept {
  const unsigned last = tensor.dimensions - 1;
  if (tensor.dimensions == 0 || tensor.strides[last] != 1 || tensor.shape[last] % groups.size != 0)
    return std::nullopt;
  for (unsigned i = 0; i < last; ++i)
    if (tensor.shape[i] > 1 && tensor.strides[i] % groups.size != 0) return std::nullopt;
  std::uint64_t bits = 0;
  if (__builtin_mul_overflow(numbers / groups.size, shape::bytes_of(groups) * 8, &bits))
    return std::nullopt;
  return bits;
}

}  // namespace

bool Tensor::fits(Bytes bytes) const noexcept {
  if (dimensions > kMaxDimensions || type.bits == 0 || type.lanes == 0) return false;
  const std::optional<Groups> groups = groups_of(type);
  bool empty = false;
  for (unsigned i = 0; i < dimensions; ++i) {
    if (shape[i] < 0 || strides[i] < 0) return false;
    empty = empty || shape[i] == 0;
  }
  if (empty) return true;  // whatever its strides are
  const std::optional<std::uint64_t> numbers = reach_of(*this);
  if (!numbers) return false;
  std::uint64_t bits = 0;
  if (groups) {
    const std::optional<std::uint64_t> all = bits_of_groups(*this, *groups, *numbers);
    if (!all) return false;
    bits = *all;
  } else if (__builtin_mul_overflow(*numbers, std::uint64_t{type.bits} * type.lanes, &bits)) {
    return false;
  }
  return bits / 8 + (bits % 8 != 0 ? 1 : 0) <= bytes;  // rounding bits up could wrap
}

namespace {

using shape::Element;

// What groups may be made of, in the order of their codes.
constexpr std::array<Element, 7> kGrouped{Element::i8,     Element::u8,   Element::i4,  Element::u4,
                                          Element::e4m3fn, Element::e5m2, Element::e2m1};
constexpr std::array<std::string_view, 4> kScales{"f32", "f16", "bf16", "e8m0"};
constexpr std::array<Bytes, 4> kScaleBytes{4, 2, 2, 1};

constexpr bool is_group_size(unsigned size) noexcept {
  return size == 32 || size == 64 || size == 128;
}

// A code: 128, the element's place in kGrouped, from bit 3 on the scale, bit 5 for a zero point.
constexpr unsigned kScaleShift = 3;
constexpr unsigned kZeroPoint = 1u << 5;

std::string known_types() {
  std::string all;
  for (std::size_t i = 0; i < shape::kElements; ++i)
    all += fmt::format("{}{}", i == 0 ? "" : " ", shape::facts_of(static_cast<Element>(i)).name);
  return all;
}

tl::unexpected<Error> no_type(std::string_view text) {
  return fail(Code::invalid_argument, fmt::format("'{}' is no type of elements", text),
              fmt::format("there are {}; groups: i8[32], u4[128,f16,zero], e4m3fn[32,e8m0]",
                          known_types()));
}

std::optional<Element> element_named(std::string_view name) noexcept {
  for (std::size_t i = 0; i < shape::kElements; ++i)
    if (shape::facts_of(static_cast<Element>(i)).name == name) return static_cast<Element>(i);
  return std::nullopt;
}

std::optional<std::uint16_t> group_size(std::string_view word) noexcept {
  for (const unsigned size : {32u, 64u, 128u})
    if (word == std::to_string(size)) return static_cast<std::uint16_t>(size);
  return std::nullopt;
}

// One of the words behind the size. False: it is none, or said twice.
bool read_word(Groups& groups, std::string_view word, bool& has_scale) noexcept {
  if (word == "zero") return !std::exchange(groups.zero_point, true);
  const auto* const scale = std::ranges::find(kScales, word);
  if (scale == kScales.end() || std::exchange(has_scale, true)) return false;
  groups.scale = static_cast<Groups::Scale>(scale - kScales.begin());
  return true;
}

std::optional<Groups> read_groups(Element element, std::string_view words) noexcept {
  Groups groups{.element = shape::facts_of(element).type};
  bool first = true, has_scale = false;
  while (!words.empty()) {
    const std::size_t comma = std::min(words.find(','), words.size());
    const std::string_view word = trimmed(words.substr(0, comma));
    words.remove_prefix(std::min(comma + 1, words.size()));
    if (first) {
      const auto size = group_size(word);
      if (!size) return std::nullopt;
      groups.size = *size;
      first = false;
    } else if (!read_word(groups, word, has_scale)) {
      return std::nullopt;
    }
  }
  if (first) return std::nullopt;
  return groups;
}

}  // namespace

Bytes shape::bytes_of(const Groups& groups) noexcept {
  return kScaleBytes[static_cast<std::size_t>(groups.scale)] + (groups.zero_point ? 1 : 0) +
         Bytes{groups.size} * groups.element.bits / 8;
}

DataType Groups::type() const noexcept {
  const std::optional<Element> known = shape::element_of(element);
  const auto* const place = known ? std::ranges::find(kGrouped, *known) : kGrouped.end();
  const bool whole = known && !shape::facts_of(*known).is_float;
  if (place == kGrouped.end() || !is_group_size(size) || scale > Scale::e8m0 ||
      (zero_point && !whole))
    return {255, 0, 0};
  const auto code = static_cast<unsigned>(DataType::grouped) +
                    static_cast<unsigned>(place - kGrouped.begin()) +
                    (static_cast<unsigned>(scale) << kScaleShift) + (zero_point ? kZeroPoint : 0);
  return {static_cast<std::uint8_t>(code), element.bits, size};
}

std::optional<Groups> groups_of(DataType type) noexcept {
  if (type.code < DataType::grouped) return std::nullopt;
  const unsigned code = type.code - static_cast<unsigned>(DataType::grouped);
  const unsigned place = code & ((1u << kScaleShift) - 1);
  if (place >= kGrouped.size()) return std::nullopt;
  Groups groups{.element = shape::facts_of(kGrouped[place]).type,
                .size = type.lanes,
                .scale = static_cast<Groups::Scale>(code >> kScaleShift & 3u),
                .zero_point = (code & kZeroPoint) != 0};
  if (groups.type() != type) return std::nullopt;  // bits or size that there are not
  return groups;
}

std::string to_string(DataType type) {
  if (const auto element = shape::element_of(type))
    return std::string(shape::facts_of(*element).name);
  const auto groups = groups_of(type);
  if (!groups) return fmt::format("DLPack type {} of {} bits", type.code, type.bits);
  std::string text = fmt::format("{}[{}", to_string(groups->element), groups->size);
  if (groups->scale != Groups::Scale::f16)
    text += fmt::format(",{}", kScales[static_cast<std::size_t>(groups->scale)]);
  return text + (groups->zero_point ? ",zero]" : "]");
}

Result<DataType> parse_type(std::string_view text) {
  const std::string_view all = trimmed(text);
  const std::size_t bracket = all.find('[');
  const std::optional<Element> element = element_named(trimmed(all.substr(0, bracket)));
  if (!element) return no_type(all);
  if (bracket == std::string_view::npos) return shape::facts_of(*element).type;
  if (all.back() != ']') return no_type(all);
  const auto groups = read_groups(*element, all.substr(bracket + 1, all.size() - bracket - 2));
  if (!groups || !groups_of(groups->type())) return no_type(all);
  return groups->type();
}

}  // namespace gantry
