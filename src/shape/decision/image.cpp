#include "shape/decision/image.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/base/assert.hpp"
#include "core/base/result.hpp"
#include "shape/reshape/planes.hpp"

namespace gantry::decision {
namespace {

using shape::Element;

// Of a float of any width: sign, exponent, fraction.
double small_float(std::uint64_t bits, unsigned width, unsigned fraction) noexcept {
  const unsigned exponent_bits = width - 1 - fraction;
  const auto exponent = static_cast<int>(bits >> fraction & ((1u << exponent_bits) - 1));
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const std::uint64_t one = std::uint64_t{1} << fraction;
  const std::uint64_t digits = (bits & (one - 1)) | (exponent == 0 ? 0 : one);
  const int scale = (exponent == 0 ? 1 : exponent) - bias - static_cast<int>(fraction);
  const double magnitude = std::ldexp(static_cast<double>(digits), scale);
  return (bits >> (width - 1) & 1u) != 0 ? -magnitude : magnitude;
}

// The bits of the largest number, infinity included.
std::uint64_t largest_bits(Element element, unsigned width, unsigned fraction) noexcept {
  if (element == Element::e4m3fn) return 0x7e;
  const std::uint64_t exponent = (std::uint64_t{1} << (width - 1 - fraction)) - 1;
  return exponent << fraction;
}

}  // namespace

Values::Values(Element element) noexcept : element_(element) {
  const shape::ElementFacts& facts = shape::facts_of(element);
  bits_ = facts.bits;
  if (!facts.is_float) {
    least_ = 0;
    largest_ = ~std::uint64_t{0} >> (64 - bits_);
    return;
  }
  fraction_ = facts.digits - 1;
  const std::uint64_t largest = largest_bits(element, bits_, fraction_);
  const std::uint64_t sign = std::uint64_t{1} << (bits_ - 1);
  largest_ = shape::code_of(element, largest);
  least_ = shape::code_of(element, largest | sign);
  plus_zero_ = sign;
}

CodeSpan Values::keys_of(CodeSpan codes) const noexcept {
  const auto key = [&](std::uint64_t code) { return code + 1 == plus_zero_ ? plus_zero_ : code; };
  const CodeSpan numbers = numbers_of(codes);
  if (numbers.lo > numbers.hi) return {0, 0};  // all NaN
  return {may_be_nan(codes) ? 0 : key(numbers.lo), key(numbers.hi)};
}

double Values::slow_value_of(std::uint64_t code) const noexcept {
  const std::uint64_t bits = shape::bits_of(element_, code);
  switch (element_) {
    case Element::f64:
      return std::bit_cast<double>(bits);
    case Element::i32:
      return static_cast<std::int32_t>(bits);
    case Element::i16:
      return static_cast<std::int16_t>(bits);
    case Element::i8:
      return static_cast<std::int8_t>(bits);
    default:
      break;
  }
  if (fraction_ == 0) return static_cast<double>(bits);
  if (code < least_ || code > largest_) return std::numeric_limits<double>::quiet_NaN();
  if (element_ != Element::e4m3fn && (code == least_ || code == largest_))
    return code == least_ ? -std::numeric_limits<double>::infinity()
                          : std::numeric_limits<double>::infinity();
  return small_float(bits, bits_, fraction_);
}

std::uint64_t Values::key_above(double limit) const noexcept {
  std::uint64_t lo = least_, hi = largest_ + 1;  // codes of 64 bits are of floats: no overflow
  while (lo < hi) {
    const std::uint64_t middle = lo + (hi - lo) / 2;
    if (value_of(middle) > limit)
      hi = middle;
    else
      lo = middle + 1;
  }
  return lo;
}

Image::Image(const shape::PlaneLayout& layout, PlaneSource& source, Bytes budget) noexcept
    : layout_(layout),
      values_(layout.element()),
      source_(source),
      budget_(budget),
      last_block_(layout.blocks() - 1),
      cells_of_block_((layout.block() + per_cell() - 1) / per_cell()),
      unit_(layout.unit()),
      inside_(inside(0)),
      inside_last_(inside(last_block_)) {}

Result<bool> Image::take(Bytes end, Bytes bytes) {
  GANTRY_DEBUG_ASSERT(read_ <= budget_);
  if (budget_left() < bytes) return false;
  if (end > there_.size()) {
    GANTRY_ASSIGN(there_, source_.through(end));
    if (end > there_.size()) return false;
  }
  read_ += bytes;
  return true;
}

Result<bool> Image::has_all() {
  GANTRY_ASSIGN(there_, source_.through(there_.size()));
  return there_.size() >= layout_.bytes();
}

Result<bool> Image::open(std::size_t cell, std::size_t cells, unsigned from, unsigned to) {
  GANTRY_DEBUG_ASSERT(from <= to);
  GANTRY_DEBUG_ASSERT(to <= layout_.planes());
  GANTRY_DEBUG_ASSERT(cell + cells <= this->cells());
  return take(place(cell + cells - 1, to - 1) + 1, cells * (to - from));
}

void Image::fetch(std::size_t cell, std::size_t cells, unsigned plane) const noexcept {
  constexpr Bytes kLine = 64;
  const Bytes first = place(cell, plane);
  for (Bytes at = first; at < std::min(first + cells, there_.size()); at += kLine)
    __builtin_prefetch(there_.data() + at);
}

// Eight planes of bits at a time, the highest in the highest byte.
void Image::add_bits(std::size_t cell, unsigned from, unsigned to,
                     std::uint64_t* codes) const noexcept {
  const std::size_t elements = elements_of(cell);
  const unsigned bits = values_.bits();
  for (unsigned row = from / 8; row * 8 < to; ++row) {
    std::uint64_t found = 0;
    for (unsigned plane = std::max(from, row * 8); plane < std::min(to, row * 8 + 8); ++plane)
      found |= std::uint64_t{digits_at(cell, plane)} << (7 - plane % 8) * 8;
    found = shape::transpose_bits(found);
    for (std::size_t i = 0; i < elements; ++i)
      codes[i] |= (found >> i * 8 & 0xffu) << (bits - 8 - row * 8);
  }
}

void Image::add(std::size_t cell, unsigned from, unsigned to, std::uint64_t* codes) const noexcept {
  if (layout_.in_bits()) return add_bits(cell, from, to, codes);
  for (unsigned plane = from; plane < to; ++plane)
    codes[0] |= std::uint64_t{digits_at(cell, plane)} << (values_.bits() - 8 - plane * 8);
}

Result<bool> Image::open_bounds() {
  Bytes bytes = 0;
  for (std::size_t block = 0; block < layout_.blocks(); ++block)
    bytes += layout_.offset_of(block, 0) - layout_.offset_of(block);
  GANTRY_ASSIGN(has_bounds_, take(layout_.offset_of(layout_.blocks() - 1, 0), bytes));
  return has_bounds_;
}

CodeSpan Image::codes_at(const std::byte* bounds) const noexcept {
  const unsigned bytes = layout_.element_bytes();
  CodeSpan codes;
  std::memcpy(&codes.lo, bounds, bytes);
  std::memcpy(&codes.hi, bounds + bytes, bytes);
  return codes;
}

Result<std::optional<CodeSpan>> Image::bounds_of(std::size_t element) {
  if (layout_.group() == 0) return std::nullopt;
  const std::size_t block = element / layout_.block();
  const std::size_t in_block = (element - block * layout_.block()) / layout_.group();
  const Bytes bytes = layout_.element_bytes();
  const Bytes at = layout_.offset_of(block) + in_block * 2 * bytes;
  if (has_bounds_) return codes_at(there_.data() + at);
  if (groups_.empty()) groups_.resize(layout_.blocks() * layout_.groups_of(0));
  Group& group = groups_[block * layout_.groups_of(0) + in_block];
  if (group.is_known) return group.codes;
  GANTRY_ASSIGN(const bool is_there, take(at + 2 * bytes, 2 * bytes));
  if (!is_there) return std::nullopt;
  group = {true, codes_at(there_.data() + at)};
  return group.codes;
}

Error contradiction(std::size_t element) {
  return {Code::peer_misbehaved,
          fmt::format("planes: the bounds of its group contradict element {}", element),
          "whoever made the planes is wrong or lies: do not use them"};
}

}  // namespace gantry::decision
