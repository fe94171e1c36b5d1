#include <algorithm>
#include <array>
#include <gantry/shape/tensor.hpp>
#include <utility>

#include "base/text_lines.hpp"
#include "engine/shape/element.hpp"
#include "engine/shape/groups.hpp"

namespace gantry {
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
