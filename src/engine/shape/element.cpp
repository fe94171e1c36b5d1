#include "engine/shape/element.hpp"

#include <algorithm>
#include <array>

namespace gantry::shape {
namespace {

constexpr std::array<ElementFacts, kElements> kFacts{{
    {"u8", types::u8, 8, false, 255, 0, 8},
    {"i8", types::i8, 8, false, 127, -128, 7},
    {"u16", types::u16, 16, false, 65535, 0, 16},
    {"i16", types::i16, 16, false, 32767, -32768, 15},
    {"i32", types::i32, 32, false, 2147483647, -2147483648.0, 31},
    {"f16", types::f16, 16, true, 65504, -65504, 11},
    {"bf16", types::bf16, 16, true, 0x1.fep127, -0x1.fep127, 8},
    {"f32", types::f32, 32, true, 0x1.fffffep127, -0x1.fffffep127, 24},
    {"f64", types::f64, 64, true, 0x1.fffffffffffffp1023, -0x1.fffffffffffffp1023, 53},
    {"e4m3fn", types::e4m3fn, 8, true, 448, -448, 4},
    {"e5m2", types::e5m2, 8, true, 57344, -57344, 3},
    {"u4", types::u4, 4, false, 15, 0, 4},
    {"i4", types::i4, 4, false, 7, -8, 3},
    {"e2m1", types::e2m1, 4, true, 6, -6, 2},
}};

}  // namespace

const ElementFacts& facts_of(Element element) noexcept {
  return kFacts[static_cast<std::size_t>(element)];
}

std::optional<Element> element_of(DataType type) noexcept {
  const auto found = std::ranges::find(kFacts, type, &ElementFacts::type);
  if (found == kFacts.end()) return std::nullopt;
  return static_cast<Element>(found - kFacts.begin());
}

}  // namespace gantry::shape
