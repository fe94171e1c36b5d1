#include "shape/reshape/reshape_error.hpp"

#include "core/tensor/element.hpp"

namespace gantry::shape {
namespace {

// Groups without a scale's rounding: their numbers times it are exact in f32, but for f32 scales.
bool is_exact_in_f32(const Groups& groups) noexcept {
  return groups.scale != Groups::Scale::f32;
}

// Also of groups of that type: their scales are made anew.
ReshapeError to_group(const Groups& to) noexcept {
  const auto element = element_of(to.element);
  const bool is_float = element && facts_of(*element).is_float;
  return {is_float ? ReshapeError::Kind::binades : ReshapeError::Kind::steps, 0.5, is_float};
}

ReshapeError from_group(Element to, const Groups& from) noexcept {
  const bool exact = is_exact_in_f32(from) && (to == Element::f32 || to == Element::f64);
  if (exact) return {};
  const bool holds_all = to == Element::f32 || to == Element::f64 || to == Element::bf16;
  return {ReshapeError::Kind::ulps, 0.5, !holds_all};
}

ReshapeError between(Element to, Element from) noexcept {
  const ElementFacts &into = facts_of(to), &of = facts_of(from);
  const bool saturates = of.largest > into.largest || of.least < into.least ||
                         (of.is_float && !into.is_float);  // infinities, NaN
  const bool fine = of.exponent >= into.exponent && (into.is_float || !of.is_float);
  // A whole number needs digits of a float, but none of another whole number that holds it.
  const bool digits = into.digits >= of.digits || !into.is_float;
  if (fine && digits) return {ReshapeError::Kind::exact, 0, saturates};
  return {ReshapeError::Kind::ulps, 0.5, saturates};
}

}  // namespace

ReshapeError error_between(DataType to, DataType from, bool scales) noexcept {
  const auto to_groups = groups_of(to), from_groups = groups_of(from);
  ReshapeError error;
  if (to_groups) {
    error = to_group(*to_groups);
  } else {
    const Element into = *element_of(to);
    error = from_groups ? from_group(into, *from_groups) : between(into, *element_of(from));
  }
  if (scales && error.kind == ReshapeError::Kind::exact)
    error = {ReshapeError::Kind::ulps, 0.5, true};
  error.saturates = error.saturates || scales;
  return error;
}

}  // namespace gantry::shape
