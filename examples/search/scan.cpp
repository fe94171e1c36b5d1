#include "scan.hpp"

#include <algorithm>
#include <limits>

// Compiled once for each of these kinds of CPU, and picked when the program starts.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define SEARCH_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define SEARCH_CLONES
#endif

namespace search {
namespace {

constexpr std::size_t kRowsAtOnce = 256;
// A float's sum of 64 squares is off by less: 64 additions and 3 roundings a term, 2^-24 each.
constexpr double kRounding = 1 + 0x1p-17;

SEARCH_CLONES void rough_distances(float* distances, const float* rows, const float* query,
                                   std::size_t count) {
  for (std::size_t row = 0; row < count; ++row) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::size_t i = 0; i < kWidth; ++i) {
      const float apart = rows[row * kWidth + i] - query[i];
      sum += apart * apart;
    }
    distances[row] = sum;
  }
}

bool is_nearer(const Neighbour& a, const Neighbour& b) {
  return a.distance != b.distance ? a.distance < b.distance : a.row < b.row;
}

}  // namespace

double distance_of(const float* row, const float* query) {
  double sum = 0;
  for (std::size_t i = 0; i < kWidth; ++i) {
    const double apart = double{row[i]} - double{query[i]};
    sum += apart * apart;
  }
  return sum;
}

std::vector<Neighbour> scan(std::span<const float> rows, const float* query, std::size_t nearest) {
  std::vector<Neighbour> best;  // a heap, the farthest in front
  double limit = std::numeric_limits<double>::infinity();
  const std::size_t count = rows.size() / kWidth;
  for (std::size_t first = 0; first < count; first += kRowsAtOnce) {
    const std::size_t some = std::min(kRowsAtOnce, count - first);
    float distances[kRowsAtOnce];
    rough_distances(distances, &rows[first * kWidth], query, some);
    for (std::size_t i = 0; i < some; ++i) {
      if (double{distances[i]} > limit) continue;
      best.push_back({distance_of(&rows[(first + i) * kWidth], query), first + i});
      std::push_heap(best.begin(), best.end(), is_nearer);
      if (best.size() > nearest) {
        std::pop_heap(best.begin(), best.end(), is_nearer);
        best.pop_back();
      }
      if (best.size() == nearest) limit = best.front().distance * kRounding;
    }
  }
  std::sort_heap(best.begin(), best.end(), is_nearer);
  return best;
}

}  // namespace search
