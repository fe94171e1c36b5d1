#include "shape/reshape/planes.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

// Highway compiles the part between HWY_BEFORE_NAMESPACE and HWY_AFTER_NAMESPACE once for each kind
// of CPU, by including this file again, and picks at run time. The loops are plain: the compiler
// makes vectors of them.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "shape/reshape/plane_rows.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace gantry::shape::HWY_NAMESPACE {
namespace {

template <class Code>
struct Coder {
  static constexpr unsigned kTop = sizeof(Code) * 8 - 1;
  Code always;     // flips the sign
  Code if_signed;  // all ones for floats

  explicit Coder(const PlaneCoding& coding)
      : always(coding.is_signed ? static_cast<Code>(Code{1} << kTop) : Code{0}),
        if_signed(coding.is_float ? static_cast<Code>(~Code{0}) : Code{0}) {}
  HWY_INLINE Code code(Code bits) const {
    const auto ones = static_cast<Code>(Code{0} - static_cast<Code>(bits >> kTop));
    return static_cast<Code>(bits ^ ((ones & if_signed) | always));
  }
  HWY_INLINE Code bits(Code code) const {
    const auto ones = static_cast<Code>(static_cast<Code>(code >> kTop) - Code{1});
    return static_cast<Code>(code ^ ((ones & if_signed) | always));
  }
};

template <class Code>
HWY_INLINE Code load(const std::byte* from) {
  Code value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <class Code>
HWY_INLINE void split(const Coder<Code> coder, std::byte* HWY_RESTRICT to, unsigned row,
                      const std::byte* HWY_RESTRICT elements, std::size_t count) {
  const unsigned shift = (unsigned{sizeof(Code)} - 1 - row) * 8;
  for (std::size_t i = 0; i < count; ++i)
    to[i] = static_cast<std::byte>(coder.code(load<Code>(elements + i * sizeof(Code))) >> shift);
}

template <class Code>
void split_rows(const PlaneCoding& coding, std::byte* to, unsigned first, unsigned last,
                const std::byte* elements, std::size_t count) {
  const Coder<Code> coder(coding);
  for (unsigned row = first; row < last; ++row)
    split(coder, to + (row - first) * kPlaneTile, row, elements, count);
}

template <class Code>
HWY_INLINE void store(std::byte* to, Code value) {
  std::memcpy(to, &value, sizeof value);
}

HWY_INLINE unsigned at(const std::byte* row, std::size_t i) {
  return std::to_integer<unsigned>(row[i]);
}

void join(const Coder<std::uint8_t> coder, std::byte* HWY_RESTRICT to, const std::byte* const* rows,
          std::size_t count) {
  const std::byte* HWY_RESTRICT only = rows[0];
  for (std::size_t i = 0; i < count; ++i)
    to[i] = static_cast<std::byte>(coder.bits(static_cast<std::uint8_t>(only[i])));
}

void join(const Coder<std::uint16_t> coder, std::byte* HWY_RESTRICT to,
          const std::byte* const* rows, std::size_t count) {
  const std::byte* HWY_RESTRICT high = rows[0];
  const std::byte* HWY_RESTRICT low = rows[1];
  for (std::size_t i = 0; i < count; ++i)
    store(to + i * 2, coder.bits(static_cast<std::uint16_t>(at(high, i) << 8 | at(low, i))));
}

void join(const Coder<std::uint32_t> coder, std::byte* HWY_RESTRICT to,
          const std::byte* const* rows, std::size_t count) {
  const std::byte* HWY_RESTRICT a = rows[0];
  const std::byte* HWY_RESTRICT b = rows[1];
  const std::byte* HWY_RESTRICT c = rows[2];
  const std::byte* HWY_RESTRICT d = rows[3];
  for (std::size_t i = 0; i < count; ++i)
    store(to + i * 4, coder.bits(at(a, i) << 24 | at(b, i) << 16 | at(c, i) << 8 | at(d, i)));
}

void join(const Coder<std::uint64_t> coder, std::byte* HWY_RESTRICT to,
          const std::byte* const* rows, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    std::uint64_t code = 0;
    for (unsigned row = 0; row < 8; ++row) code = code << 8 | at(rows[row], i);
    store(to + i * 8, coder.bits(code));
  }
}

void SplitBits(std::byte* HWY_RESTRICT to, const std::byte* HWY_RESTRICT row, std::size_t count) {
  constexpr std::size_t kApart = kPlaneTile / 8;
  const std::size_t bytes = (count + 7) / 8;
  for (std::size_t i = 0; i < bytes; ++i) {
    const std::uint64_t bits = transpose_bits(load<std::uint64_t>(row + i * 8));
    for (unsigned plane = 0; plane < 8; ++plane)
      to[plane * kApart + i] = static_cast<std::byte>(bits >> (7 - plane) * 8);
  }
}

void JoinBits(std::byte* HWY_RESTRICT row, const std::byte* const* rows, std::size_t count) {
  const std::size_t bytes = (count + 7) / 8;
  for (std::size_t i = 0; i < bytes; ++i) {
    std::uint64_t bits = 0;
    for (unsigned plane = 0; plane < 8; ++plane) bits = bits << 8 | at(rows[plane], i);
    store(row + i * 8, transpose_bits(bits));
  }
}

template <class Code>
CodeRange range(const PlaneCoding& coding, const std::byte* elements, std::size_t count) {
  const Coder<Code> coder(coding);
  Code least = std::numeric_limits<Code>::max();
  Code largest = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const Code code = coder.code(load<Code>(elements + i * sizeof(Code)));
    least = code < least ? code : least;
    largest = code > largest ? code : largest;
  }
  return CodeRange{least, largest};
}

/// Calls `use` with a code of that many bytes.
template <class Use>
HWY_INLINE auto with_code(const PlaneCoding& coding, Use use) {
  if (coding.element_bytes == 1) return use(std::uint8_t());
  if (coding.element_bytes == 2) return use(std::uint16_t());
  if (coding.element_bytes == 4) return use(std::uint32_t());
  return use(std::uint64_t());
}

void SplitBytes(const PlaneCoding& coding, std::byte* to, unsigned first, unsigned last,
                const std::byte* elements, std::size_t count) {
  with_code(coding, [&](auto code) HWY_ATTR {
    split_rows<decltype(code)>(coding, to, first, last, elements, count);
  });
}

void JoinBytes(const PlaneCoding& coding, std::byte* elements, const std::byte* const* rows,
               std::size_t count) {
  with_code(coding, [&](auto code)
                        HWY_ATTR { join(Coder<decltype(code)>(coding), elements, rows, count); });
}

CodeRange RangeOf(const PlaneCoding& coding, const std::byte* elements, std::size_t count) {
  return with_code(
      coding, [&](auto code) HWY_ATTR { return range<decltype(code)>(coding, elements, count); });
}

}  // namespace
}  // namespace gantry::shape::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gantry::shape {

HWY_EXPORT(SplitBytes);
HWY_EXPORT(JoinBytes);
HWY_EXPORT(SplitBits);
HWY_EXPORT(JoinBits);
HWY_EXPORT(RangeOf);

PlaneCoding coding_of(Element element) noexcept {
  const ElementFacts& facts = facts_of(element);
  return {facts.bits / 8, facts.is_float, facts.least < 0};
}

void split_bytes(const PlaneCoding& coding, std::byte* to, unsigned first, unsigned last,
                 const std::byte* elements, std::size_t count) noexcept {
  HWY_DYNAMIC_DISPATCH(SplitBytes)(coding, to, first, last, elements, count);
}

void join_bytes(const PlaneCoding& coding, std::byte* elements, const std::byte* const* rows,
                std::size_t count) noexcept {
  HWY_DYNAMIC_DISPATCH(JoinBytes)(coding, elements, rows, count);
}

void split_bits(std::byte* to, const std::byte* row, std::size_t count) noexcept {
  HWY_DYNAMIC_DISPATCH(SplitBits)(to, row, count);
}

void join_bits(std::byte* row, const std::byte* const* rows, std::size_t count) noexcept {
  HWY_DYNAMIC_DISPATCH(JoinBits)(row, rows, count);
}

CodeRange code_range(const PlaneCoding& coding, const std::byte* elements,
                     std::size_t count) noexcept {
  return HWY_DYNAMIC_DISPATCH(RangeOf)(coding, elements, count);
}

}  // namespace gantry::shape
#endif
