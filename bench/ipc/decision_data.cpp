#include "decision_data.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

// Compiled once for each of these kinds of CPU, and picked when the program starts.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define GANTRY_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define GANTRY_CLONES
#endif

namespace gantry::bench {
namespace {

constexpr std::size_t kBest = 5;
constexpr std::size_t kCentres = 1000;
constexpr std::size_t kAtOnce = 1024;  // logits, or rows
// A float's sum of 64 squares is off by less: 64 additions and 3 roundings a term, 2^-24 each.
constexpr double kRounding = 1 + 0x1p-17;

std::uint32_t mix(std::uint32_t x) noexcept {
  x = (x ^ (x >> 16)) * 0x7feb352du;
  x = (x ^ (x >> 15)) * 0x846ca68bu;
  return x ^ (x >> 16);
}

/// About normal, with deviation 1: the sum of four bytes, and more digits below.
float normal(std::uint32_t word) noexcept {
  const std::uint32_t sum =
      (word & 0xffu) + (word >> 8 & 0xffu) + (word >> 16 & 0xffu) + (word >> 24);
  const auto digits = static_cast<float>(mix(word) >> 8) * 0x1p-24f;
  return (static_cast<float>(sum) + digits - 510.5f) / 148;
}

float level(std::uint32_t centre, std::size_t element) noexcept {
  return 3 * normal(mix(centre * 64 + static_cast<std::uint32_t>(element / 8)));
}

// Lane by lane, of which compilers make vectors.
GANTRY_CLONES float largest_of(const float* numbers, std::size_t count) {
  constexpr std::size_t kLanes = 64;
  float lanes[kLanes];
  std::fill_n(lanes, kLanes, -std::numeric_limits<float>::infinity());
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (std::size_t lane = 0; lane < kLanes; ++lane)
      lanes[lane] = numbers[i + lane] > lanes[lane] ? numbers[i + lane] : lanes[lane];
  float largest = *std::max_element(lanes, lanes + kLanes);
  for (; i < count; ++i) largest = std::max(largest, numbers[i]);
  return largest;
}

GANTRY_CLONES void rough_distances(float* distances, const float* rows, const float* query,
                                   std::size_t count) {
  for (std::size_t row = 0; row < count; ++row) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::size_t i = 0; i < kRowElements; ++i) {
      const float apart = rows[row * kRowElements + i] - query[i];
      sum += apart * apart;
    }
    distances[row] = sum;
  }
}

double distance(const float* row, const float* query) {
  double sum = 0;
  for (std::size_t i = 0; i < kRowElements; ++i) {
    const double apart = double{row[i]} - double{query[i]};
    sum += apart * apart;
  }
  return sum;
}

}  // namespace

void DecisionData::make(float* numbers, ConstByteSpan payload) const {
  std::uint32_t centre = 0;
  float offset = 0;
  for (std::size_t i = 0; i < count_; ++i) {
    std::uint32_t word = 0;
    std::memcpy(&word, payload.data() + i * sizeof word, sizeof word);
    if (asked_ == Asked::top) {
      numbers[i] = normal(word) * 2.5f - 1;
      continue;
    }
    if (i % kRowElements == 0) centre = static_cast<std::uint32_t>(mix(word + 1) % kCentres);
    if (i % 8 == 0) offset = level(centre, i % kRowElements) + normal(mix(word + 2)) * 0.6f;
    numbers[i] = offset + normal(word) * 0.1f;
  }
}

Decision DecisionData::question() const {
  if (asked_ == Asked::top) return Decision::top(std::min(kBest, count_));
  std::vector<float> query;
  for (std::size_t i = 0; i < kRowElements; ++i) query.push_back(level(0, i));
  return Decision::nearest(std::move(query), std::min(kBest, count_ / kRowElements));
}

Tensor DecisionData::tensor() const {
  const auto count = static_cast<std::int64_t>(count_);
  return Tensor::dense(types::f32, {&count, 1});
}

PlanedElements DecisionData::elements() const {
  const std::uint16_t group = asked_ == Asked::nearest ? 8 : 0;
  return {types::f32, static_cast<std::int64_t>(count_), {Planes::Unit::bytes, 0, group}};
}

DecisionData::Scan::Scan(const DecisionData& data)
    : asked_(data.asked_),
      query_(data.question().parts().query),
      limit_(-std::numeric_limits<double>::infinity()) {
  best_.reserve(kBest + 1);
}

bool DecisionData::Scan::is_better(const Found& a, const Found& b) noexcept {
  return a.score != b.score ? a.score > b.score : a.index < b.index;
}

void DecisionData::Scan::put(double score, std::size_t index) {
  best_.push_back({score, index});
  std::push_heap(best_.begin(), best_.end(), is_better);
  if (best_.size() > kBest) {
    std::pop_heap(best_.begin(), best_.end(), is_better);
    best_.pop_back();
  }
  if (best_.size() == kBest) limit_ = best_.front().score;
}

void DecisionData::Scan::look_at_logits(std::span<const float> numbers) {
  while (done_ < numbers.size()) {
    const std::size_t end = std::min(done_ + kAtOnce, numbers.size());
    const bool has_better = double{largest_of(&numbers[done_], end - done_)} > limit_;
    for (; has_better && done_ < end; ++done_)
      if (double{numbers[done_]} > limit_) put(double{numbers[done_]}, done_);
    done_ = end;
  }
}

void DecisionData::Scan::look_at_rows(std::span<const float> numbers) {
  float distances[kAtOnce];
  while (numbers.size() - done_ >= kRowElements) {
    const std::size_t rows = std::min(kAtOnce, (numbers.size() - done_) / kRowElements);
    rough_distances(distances, &numbers[done_], query_.data(), rows);
    for (std::size_t row = 0; row < rows; ++row) {
      const std::size_t first = done_ + row * kRowElements;
      if (double{distances[row]} > -limit_ * kRounding) continue;
      put(-distance(&numbers[first], query_.data()), first / kRowElements);
    }
    done_ += rows * kRowElements;
  }
}

void DecisionData::Scan::look(std::span<const float> numbers) {
  asked_ == Asked::top ? look_at_logits(numbers) : look_at_rows(numbers);
}

std::vector<std::size_t> DecisionData::Scan::answer() {
  std::sort_heap(best_.begin(), best_.end(), is_better);
  std::vector<std::size_t> indices;
  for (const Found& found : best_) indices.push_back(found.index);
  return indices;
}

std::uint64_t sum_of(const std::vector<std::size_t>& indices) noexcept {
  std::uint64_t sum = 0;
  for (const std::size_t index : indices) sum = sum * 0x9e3779b97f4a7c15u + index + 1;
  return sum;
}

}  // namespace gantry::bench
