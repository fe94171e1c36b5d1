#include "shape/decision/row_filter.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

// Highway compiles the part between HWY_BEFORE_NAMESPACE and HWY_AFTER_NAMESPACE once for each kind
// of CPU, by including this file again, and picks at run time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "shape/decision/row_filter.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace gantry::decision::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using Table = RowFilter::Table;
using Verdict = RowFilter::Verdict;

constexpr std::uint32_t kSign = 0x80000000;
constexpr float kMost = std::numeric_limits<float>::max();

template <class D>
using Words = hn::RebindToUnsigned<D>;

/// Codes as numbers.
template <class D>
HWY_INLINE hn::Vec<D> decode(D d, hn::Vec<Words<D>> code) {
  const Words<D> words;
  const auto positive =
      hn::BitCast(words, hn::ShiftRight<31>(hn::BitCast(hn::RebindToSigned<D>(), code)));
  const auto negative = hn::Xor(positive, hn::Set(words, ~0u));
  return hn::BitCast(d, hn::Xor(code, hn::Or(negative, hn::Set(words, kSign))));
}

/// By how much bounds are beyond what is subtracted. Of a NaN that may be a NaN or 0, whatever the
/// CPU; a row is kept by sums that are a NaN, since such bounds rule nothing out.
template <class D>
HWY_INLINE hn::Vec<D> beyond(D d, hn::Vec<D> bounds, const float* signs, const float* from) {
  return hn::Max(hn::MulSub(bounds, hn::LoadU(d, signs), hn::LoadU(d, from)), hn::Zero(d));
}

template <class D>
HWY_INLINE hn::Vec<D> bounds_at(D d, const std::byte* codes) {
  return decode(d, hn::LoadU(Words<D>(), reinterpret_cast<const std::uint32_t*>(codes)));
}

/// A row's distance as far as is known by the means of the query's groups, in lanes to be added.
template <class D>
HWY_INLINE hn::Vec<D> rough_sum(D d, const Table& table, std::size_t codes,
                                const std::byte* bounds) {
  auto sum = hn::Zero(d);
  for (std::size_t i = 0; i < codes; i += hn::Lanes(d)) {
    const auto numbers = bounds_at(d, bounds + i * sizeof(float));
    const auto lower = beyond(d, numbers, &table.signs[i], &table.lower[i]);
    const auto upper = beyond(d, numbers, &table.signs[i], &table.upper[i]);
    sum = hn::MulAdd(upper, upper, hn::MulAdd(lower, lower, sum));
  }
  return sum;
}

#if HWY_TARGET != HWY_SCALAR
/// Those of some rows, added: each has as many lanes as there are lanes for a row, in their order.
template <std::size_t kRows, class D>
HWY_INLINE hn::Vec<D> rough_sums(D d, const Table& table, std::size_t codes,
                                 const std::byte* bounds) {
  if constexpr (kRows == 1) {
    return rough_sum(d, table, codes, bounds);
  } else {
    const std::byte* middle = bounds + kRows / 2 * codes * sizeof(float);
    const auto first = rough_sums<kRows / 2>(d, table, codes, bounds);
    const auto second = rough_sums<kRows / 2>(d, table, codes, middle);
    return hn::Add(hn::ConcatEven(d, second, first), hn::ConcatOdd(d, second, first));
  }
}

/// As many rows at a time as a vector has lanes. Returns how many are kept.
template <class D>
HWY_INLINE std::size_t keep_of_whole_vectors(D d, std::uint32_t* HWY_RESTRICT kept,
                                             const Table& table, std::size_t codes,
                                             const std::byte* bounds, std::uint32_t rows,
                                             float limit) {
  constexpr auto kLanes = static_cast<std::uint32_t>(hn::MaxLanes(d));
  const std::size_t row_bytes = codes * sizeof(float);
  const Words<D> words;
  std::size_t count = 0;
  for (std::uint32_t row = 0; row < rows; row += kLanes) {
    const auto sums = rough_sums<kLanes>(d, table, codes, bounds + row * row_bytes);
    const auto near = hn::Not(hn::Gt(sums, hn::Set(d, limit)));
    const auto numbers = hn::BitCast(d, hn::Iota(words, row));
    hn::StoreU(hn::BitCast(words, hn::Compress(numbers, near)), words, kept + count);
    count += hn::CountTrue(d, near);
  }
  return count;
}
#else
template <class D>
std::size_t keep_of_whole_vectors(D, std::uint32_t*, const Table&, std::size_t, const std::byte*,
                                  std::uint32_t, float) {
  return 0;
}
#endif

template <class D>
std::size_t keep_roughly(D d, std::uint32_t* HWY_RESTRICT kept, const Table& table,
                         const std::byte* bounds, std::uint32_t rows, float limit) {
  const std::size_t codes = table.signs.size();
  const std::size_t row_bytes = codes * sizeof(float);
  constexpr std::size_t kLanes = hn::MaxLanes(d);
  std::uint32_t row = kLanes == 1 ? 0 : rows / kLanes * kLanes;
  std::size_t count =  // with as many codes as lanes what is subtracted stays in registers
      codes == kLanes ? keep_of_whole_vectors(d, kept, table, kLanes, bounds, row, limit)
                      : keep_of_whole_vectors(d, kept, table, codes, bounds, row, limit);
  for (; row < rows; ++row) {
    const auto sum = hn::SumOfLanes(d, rough_sum(d, table, codes, bounds + row * row_bytes));
    kept[count] = row;
    count += hn::GetLane(sum) > limit ? 0 : 1;
  }
  return count;
}

template <class D>
std::size_t keep(D d, std::uint32_t* rows, std::size_t count, const Table& table,
                 const std::byte* bounds, float limit) {
  const std::size_t codes = table.signs.size();
  std::size_t kept = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::byte* of_row = bounds + rows[i] * codes * sizeof(float);
    auto even = hn::Zero(d), odd = hn::Zero(d);
    for (std::size_t code = 0; code < codes; code += hn::Lanes(d)) {
      const auto numbers = bounds_at(d, of_row + code * sizeof(float));
      const float* from = &table.each[code];
      for (std::size_t j = 0; j < table.group; j += 2, from += 2 * codes) {
        const auto first = beyond(d, numbers, &table.signs[code], from);
        const auto second = beyond(d, numbers, &table.signs[code], from + codes);
        even = hn::MulAdd(first, first, even);
        odd = hn::MulAdd(second, second, odd);
      }
    }
    rows[kept] = rows[i];
    kept += hn::GetLane(hn::SumOfLanes(d, hn::Add(even, odd))) > limit ? 0 : 1;
  }
  return kept;
}

template <class D>
void guess(D d, float* HWY_RESTRICT distances, const Table& table, const std::byte* bounds,
           std::uint32_t rows) {
  const std::size_t codes = table.signs.size();
  for (std::uint32_t row = 0; row < rows; ++row, bounds += codes * sizeof(float)) {
    auto sum = hn::Zero(d);
    for (std::size_t i = 0; i < codes; i += hn::Lanes(d)) {
      const auto signs = hn::LoadU(d, &table.signs[i]);
      const auto numbers = bounds_at(d, bounds + i * sizeof(float));
      const auto lower = hn::MulSub(numbers, signs, hn::LoadU(d, &table.lower[i]));
      const auto upper = hn::MulSub(numbers, signs, hn::LoadU(d, &table.upper[i]));
      sum = hn::MulAdd(upper, upper, hn::MulAdd(lower, lower, sum));
    }
    distances[row] = hn::GetLane(hn::SumOfLanes(d, sum));
  }
}

template <unsigned kPlanes, class D>
HWY_INLINE hn::Vec<Words<D>> codes_at(D, const RowFilter::Planes& planes, std::size_t i) {
  const Words<D> words;
  const auto plane = [&](unsigned p) {
    const hn::Rebind<std::uint8_t, D> bytes;
    return hn::PromoteTo(
        words, hn::LoadU(bytes, reinterpret_cast<const std::uint8_t*>(planes.bytes[p] + i)));
  };
  auto code = hn::Or(hn::ShiftLeft<24>(plane(0)), hn::ShiftLeft<16>(plane(1)));
  if constexpr (kPlanes > 2) code = hn::Or(code, hn::ShiftLeft<8>(plane(2)));
  if constexpr (kPlanes > 3) code = hn::Or(code, plane(3));
  return code;
}

HWY_INLINE std::uint32_t word_at(const std::byte* from) {
  std::uint32_t word;
  std::memcpy(&word, from, sizeof word);
  return word;
}

/// As the sign and all of the exponent are known, an element that may be a NaN is at least infinite
/// otherwise, so it may be taken for any distance; unless the limit is infinite, too.
template <unsigned kPlanes>
Verdict compare(const Table& table, const RowFilter::Planes& planes, std::size_t known,
                const std::byte* bounds, float limit) {
  using D = hn::CappedTag<float, 8>;  // so that a vector has elements of one group
  const D d;
  const Words<D> words;
  const auto unknown = hn::Set(words, planes.unknown);
  auto sum = hn::Zero(d);
  auto wrong = hn::Zero(words);
  for (std::size_t first = 0; first < known; first += table.group, bounds += 8) {
    const auto least = hn::Set(words, word_at(bounds));
    const auto largest = hn::Set(words, word_at(bounds + 4));
    for (std::size_t i = first; i < first + table.group; i += hn::Lanes(d)) {
      const auto codes = codes_at<kPlanes>(d, planes, i);
      const auto lo = hn::Max(codes, least);
      const auto hi = hn::Min(hn::Or(codes, unknown), largest);
      wrong = hn::Or(wrong, hn::Xor(hn::Max(lo, hi), hi));
      const auto query = hn::LoadU(d, &table.query[i]);
      const auto out = hn::Max(hn::Sub(decode(d, lo), query), hn::Sub(query, decode(d, hi)));
      const auto far = hn::Max(out, hn::Zero(d));
      sum = hn::MulAdd(far, far, sum);
    }
  }
  if (!hn::AllTrue(words, hn::Eq(wrong, hn::Zero(words)))) return Verdict::contradiction;
  const bool is_near = hn::GetLane(hn::SumOfLanes(d, sum)) <= limit;
  return is_near || limit > kMost ? Verdict::keep : Verdict::drop;
}

Verdict Compare(const Table& table, const RowFilter::Planes& planes, std::size_t known,
                const std::byte* bounds, float limit) {
  if (planes.count == 2) return compare<2>(table, planes, known, bounds, limit);
  return planes.count == 3 ? compare<3>(table, planes, known, bounds, limit)
                           : compare<4>(table, planes, known, bounds, limit);
}

/// Calls with the widest vectors of which a row's bounds are a whole number.
template <class Function>
HWY_INLINE auto by_width(const Table& table, const Function& function) {
  const std::size_t codes = table.signs.size();
  if (codes % 16 == 0) return function(hn::CappedTag<float, 16>());
  if (codes % 8 == 0) return function(hn::CappedTag<float, 8>());
  if (codes % 4 == 0) return function(hn::CappedTag<float, 4>());
  return function(hn::CappedTag<float, 2>());
}

std::size_t KeepRoughly(std::uint32_t* kept, const Table& table, const std::byte* bounds,
                        std::uint32_t rows, float limit) {
  return by_width(table, [&](auto d) { return keep_roughly(d, kept, table, bounds, rows, limit); });
}
std::size_t Keep(std::uint32_t* rows, std::size_t count, const Table& table,
                 const std::byte* bounds, float limit) {
  return by_width(table, [&](auto d) { return keep(d, rows, count, table, bounds, limit); });
}
void Guess(float* distances, const Table& table, const std::byte* bounds, std::uint32_t rows) {
  by_width(table, [&](auto d) { guess(d, distances, table, bounds, rows); });
}

}  // namespace
}  // namespace gantry::decision::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gantry::decision {
namespace {

HWY_EXPORT(KeepRoughly);
HWY_EXPORT(Keep);
HWY_EXPORT(Guess);
HWY_EXPORT(Compare);

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kMost = std::numeric_limits<float>::max();

// A number as a float that is no less than it; it is no more than the largest.
float no_less(double number) noexcept {
  return std::min(std::nextafter(static_cast<float>(number), kInfinity), kMost);
}

double mean_of(std::span<const float> values) noexcept {
  double sum = 0;
  for (const float each : values) sum += static_cast<double>(each);
  return sum / static_cast<double>(values.size());
}

}  // namespace

RowFilter::RowFilter(std::span<const float> query, std::size_t group)
    : table_{query.size(), group, {query.begin(), query.end()}, {}, {}, {}, {}},
      limit_(kInfinity),
      rough_limit_(kInfinity) {
  const std::size_t codes = query.size() / group * 2;
  table_.each.resize(codes * group);
  for (std::size_t first = 0; first < query.size(); first += group) {
    std::vector<float> sorted(query.begin() + static_cast<std::ptrdiff_t>(first),
                              query.begin() + static_cast<std::ptrdiff_t>(first + group));
    for (std::size_t j = 0; j < group; ++j) {
      float* each = &table_.each[j * codes + first / group * 2];
      each[0] = sorted[j], each[1] = -sorted[j];
    }
    std::sort(sorted.begin(), sorted.end());
    const double lower = mean_of(std::span(sorted).first(group / 2));
    const double upper = mean_of(std::span(sorted).subspan(group / 2));
    table_.signs.insert(table_.signs.end(), {1, -1});
    table_.lower.insert(table_.lower.end(), {no_less(lower), no_less(-lower)});
    table_.upper.insert(table_.upper.end(), {no_less(upper), no_less(-upper)});
  }
}

// Each sum has a few operations for each element, of lanes that are added in the end; a rounding is
// at most 2^-24 of the sum, or 2^-149 where numbers are denormal. Beyond the largest f32 the sum
// says only that.
float RowFilter::raised(double limit) const noexcept {
  const double roundings = static_cast<double>(table_.width) + 16;
  const double share = 1 - std::min(roundings * 0x1p-22, 0.5);
  const double most = (limit + roundings * 0x1p-140) / share;
  return most < static_cast<double>(kMost) && share > 0.5 ? no_less(most) : kInfinity;
}

void RowFilter::set_limit(double limit) noexcept {
  limit_ = raised(limit);
  rough_limit_ = raised(limit / (static_cast<double>(table_.group) / 2));
}

std::size_t RowFilter::keep_roughly(std::uint32_t* kept, const std::byte* bounds,
                                    std::uint32_t rows) const noexcept {
  if (std::isinf(rough_limit_)) {
    std::iota(kept, kept + rows, 0u);
    return rows;
  }
  return HWY_DYNAMIC_DISPATCH(KeepRoughly)(kept, table_, bounds, rows, rough_limit_);
}

std::size_t RowFilter::keep(std::uint32_t* rows, std::size_t count,
                            const std::byte* bounds) const noexcept {
  if (std::isinf(limit_)) return count;
  return HWY_DYNAMIC_DISPATCH(Keep)(rows, count, table_, bounds, limit_);
}

void RowFilter::guess(float* distances, const std::byte* bounds,
                      std::uint32_t rows) const noexcept {
  HWY_DYNAMIC_DISPATCH(Guess)(distances, table_, bounds, rows);
  for (std::uint32_t row = 0; row < rows; ++row)
    distances[row] = distances[row] < kMost ? distances[row] : kMost;  // also NaN
}

RowFilter::Verdict RowFilter::compare(const Planes& planes, std::size_t known,
                                      const std::byte* bounds) const noexcept {
  return HWY_DYNAMIC_DISPATCH(Compare)(table_, planes, known, bounds, limit_);
}

}  // namespace gantry::decision
#endif
