#pragma once  // tensor/element.hpp: the element types that a reshape knows.

#include <gantry/types.hpp>

namespace gantry::shape {

/// A type of elements, as tables are indexed by it.
enum class Element : std::uint8_t {
  u8,
  i8,
  u16,
  i16,
  i32,
  f16,
  bf16,
  f32,
  f64,
  e4m3fn,
  e5m2,
  u4,
  i4,
  e2m1
};
inline constexpr std::size_t kElements = 14;

struct ElementFacts {
  std::string_view name;
  DataType type;
  unsigned bits;
  bool is_float;
  double largest;   ///< The largest finite value.
  double least;     ///< The most negative one.
  unsigned digits;  ///< Binary digits of the significand; of a whole number: of its magnitude.
  int exponent;     ///< Of the least positive number, a power of two.
};
[[nodiscard]] const ElementFacts& facts_of(Element element) noexcept;
/// Nothing if no reshape knows the type; groups are no elements.
[[nodiscard]] std::optional<Element> element_of(DataType type) noexcept;

/// True for numbers of which two share a byte.
[[nodiscard]] constexpr bool is_packed(Element element) noexcept {
  return element >= Element::u4;
}
/// Between whole numbers and floats of 32 bits a float is not enough.
[[nodiscard]] constexpr bool is_wide(Element element) noexcept {
  return element == Element::i32 || element == Element::f64;
}

}  // namespace gantry::shape
