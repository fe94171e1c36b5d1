#pragma once  // sync/histogram.hpp: counts values by magnitude, in a fixed 3 KiB, with one writer.

#include <array>
#include <bit>
#include <cmath>

#include "core/sync/counter.hpp"

namespace gantry {

/// Has eight buckets to each power of two, so a quantile is right within an eighth.
class Histogram {
 public:
  static constexpr unsigned kSteps = 8;
  static constexpr unsigned kPowers = 48;
  static constexpr unsigned kBuckets = kSteps * kPowers;

  void record(std::uint64_t value, std::uint64_t times = 1) noexcept {
    buckets_[bucket_of(value)].add(times);
  }

  [[nodiscard]] std::uint64_t count(unsigned bucket) const noexcept {
    return buckets_[bucket].get();
  }
  [[nodiscard]] static constexpr double middle(unsigned bucket) noexcept {
    return (lower(bucket) + lower(bucket + 1)) / 2;
  }

  /// The middle of the bucket with the `quantile` (0 to 1); 0 when empty.
  [[nodiscard]] double quantile(double quantile) const noexcept {
    std::uint64_t total = 0;
    for (const Counter& bucket : buckets_) total += bucket.get();
    if (total == 0) return 0;
    const auto wanted =
        static_cast<std::uint64_t>(std::ceil(quantile * static_cast<double>(total)));
    std::uint64_t seen = 0;
    for (unsigned i = 0; i < kBuckets; ++i) {
      seen += buckets_[i].get();
      if (seen >= wanted && seen > 0) return middle(i);
    }
    return lower(kBuckets);
  }

  /// Values below kSteps have a bucket each; above, the power and the next three bits choose.
  [[nodiscard]] static constexpr unsigned bucket_of(std::uint64_t value) noexcept {
    if (value < kSteps) return static_cast<unsigned>(value);
    const unsigned power = static_cast<unsigned>(std::bit_width(value)) - 4;
    const auto step = static_cast<unsigned>(value >> power) - kSteps;
    const unsigned bucket = (power + 1) * kSteps + step;
    return bucket < kBuckets ? bucket : kBuckets - 1;
  }
  [[nodiscard]] static constexpr double lower(unsigned bucket) noexcept {
    if (bucket < kSteps) return bucket;
    const unsigned power = bucket / kSteps - 1;
    return static_cast<double>(kSteps + bucket % kSteps) * static_cast<double>(1ull << power);
  }

 private:
  std::array<Counter, kBuckets> buckets_{};
};

}  // namespace gantry
