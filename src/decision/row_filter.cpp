#include "decision/row_filter.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

// Highway compiles the part between HWY_BEFORE_NAMESPACE and HWY_AFTER_NAMESPACE once for each kind
// of CPU, by including this file again, and picks at run time. The loops are plain: the compiler
// makes vectors of them.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "decision/row_filter.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace gantry::decision::HWY_NAMESPACE {
namespace {

constexpr std::size_t kLanes = 8;
constexpr std::size_t kDecoded = 512;  // bounds that are decoded at a time

void decode(float* HWY_RESTRICT to, const std::byte* HWY_RESTRICT codes, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    std::uint32_t code;
    std::memcpy(&code, codes + i * sizeof code, sizeof code);
    const std::uint32_t bits = code ^ (((code >> 31) - 1) | 0x80000000u);
    std::memcpy(to + i, &bits, sizeof bits);
  }
}

// Comparisons with NaN are false, so bounds that are NaN add nothing.
HWY_INLINE void add_group(float* HWY_RESTRICT sums, float lo, float hi,
                          const float* HWY_RESTRICT query, std::size_t group) {
  for (std::size_t j = 0; j < group; j += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const float under = lo - query[j + lane], over = query[j + lane] - hi;
      const float out = under > over ? under : over;
      const float distance = out > 0 ? out : 0;
      sums[lane] += distance * distance;
    }
  }
}

// The distance if all elements of a group were in the middle, without the query's own square.
HWY_INLINE float likely_of(const float* HWY_RESTRICT bounds, const float* HWY_RESTRICT query_sums,
                           std::size_t groups, float group) {
  float sum = 0;
  for (std::size_t g = 0; g < groups; ++g) {
    const float middle = (bounds[2 * g] + bounds[2 * g + 1]) / 2;
    const float width = bounds[2 * g + 1] - bounds[2 * g];
    sum += group * (middle * middle + width * width / 12) - 2 * middle * query_sums[g];
  }
  return sum;
}

void BoundDistances(float* least, float* likely, const std::byte* bounds, std::size_t rows,
                    const float* query, const float* query_sums, std::size_t groups,
                    std::size_t group) {
  float decoded[2 * kDecoded];
  for (std::size_t row = 0; row < rows; ++row) {
    float sums[kLanes] = {};
    likely[row] = 0;
    for (std::size_t first = 0; first < groups; first += kDecoded) {
      const std::size_t some = std::min(groups - first, kDecoded);
      decode(decoded, bounds + (row * groups + first) * 8, some * 2);
      likely[row] += likely_of(decoded, query_sums + first, some, static_cast<float>(group));
      for (std::size_t g = 0; g < some; ++g)
        add_group(sums, decoded[2 * g], decoded[2 * g + 1], query + (first + g) * group, group);
    }
    float sum = 0;
    for (const float each : sums) sum += each;
    least[row] = sum;
  }
}

}  // namespace
}  // namespace gantry::decision::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gantry::decision {

HWY_EXPORT(BoundDistances);

// Each sum has an operation or two for each element of its lane; a rounding is at most 2^-24 of the
// sum, or 2^-149 where numbers are denormal. Beyond the largest f32 the sum says only that.
void bound_distances(float* least, float* likely, const std::byte* bounds, std::size_t rows,
                     std::span<const float> query, std::size_t group) {
  std::vector<float> sums(query.size() / group);
  for (std::size_t j = 0; j < query.size(); ++j) sums[j / group] += query[j];
  HWY_DYNAMIC_DISPATCH(BoundDistances)
  (least, likely, bounds, rows, query.data(), sums.data(), sums.size(), group);
  const float relative = 1 - static_cast<float>(query.size() + 16) * 0x1p-22f;
  const float absolute = static_cast<float>(query.size() + 16) * 0x1p-140f;
  for (std::size_t row = 0; row < rows; ++row) {
    const float sum = std::min(least[row], std::numeric_limits<float>::max());
    least[row] = std::max(sum * relative - absolute, 0.0f);
    if (!(likely[row] < std::numeric_limits<float>::max()))  // also NaN
      likely[row] = std::numeric_limits<float>::max();
  }
}

}  // namespace gantry::decision
#endif
