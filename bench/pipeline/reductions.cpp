// Cases that leave a few numbers: dot-product, monte-carlo-pi, histogram.

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <optional>

#include "cases.hpp"
#include "data_file.hpp"

namespace gantry::bench {
namespace {

/// The steps of work item `item` where `items` share `count` contiguously.
struct Portion {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};
Portion portion_of(std::uint64_t item, std::uint64_t items, std::uint64_t count) noexcept {
  const std::uint64_t each = (count + items - 1) / items;
  return {std::min(each * item, count), std::min(each * (item + 1), count)};
}

/// Adds what `of` finds in each item's portion to that item's word of the part.
template <class Of>
Result<void> add_up(const CpuArguments& with, const CpuSlice& slice, std::size_t part,
                    std::size_t count, const Of& of) {
  const auto sums = with.span<std::uint64_t>(part);
  for (std::size_t i = slice.first; i < slice.last && !slice.should_stop(); ++i)
    sums[i] += of(portion_of(i, slice.range.count(), with.value<std::uint64_t>(count)));
  return {};
}

/// What `of` finds in all of `count` steps, by all CPUs.
template <class Of>
std::uint64_t sum_of(std::uint64_t count, const Of& of) {
  std::atomic<std::uint64_t> sum{0};
  share_out(count, [&](std::uint64_t first, std::uint64_t last) {
    sum.fetch_add(of(Portion{first, last}), std::memory_order_relaxed);  // joined before it is read
  });
  return sum.load(std::memory_order_relaxed);
}

// A word for each group, the sum of what its items found.
constexpr std::string_view kSumUp = R"(
#define SUM_UP(part, sum) \
  SHARED ulong sums[GROUP]; \
  sums[LANE] = sum; \
  MEET; \
  for (uint step = GROUP / 2; step > 0; step /= 2) { \
    if (LANE < step) sums[LANE] += sums[LANE + step]; \
    MEET; \
  } \
  if (LANE == 0) part[TEAM] += sums[0]
)";

// ---- dot-product ---------------------------------------------------------------------------

constexpr std::uint64_t kFew =
    1024;  // products of whole numbers below 16 that a float adds exactly

constexpr std::string_view kDotProduct = R"(
KERNEL void dot_product(IN(float) x, IN(float) y, PART(ulong) part, ulong count) {
  ulong sum = 0;
  const ulong end = END(count);
  for (ulong k = BEGIN(count); k < end;) {
    const ulong stop = end - k < 1024 * STRIDE ? end : k + 1024 * STRIDE;
    float few = 0;
    for (; k < stop; k += STRIDE) few += x[k] * y[k];
    sum += (ulong)few;
  }
  SUM_UP(part, sum);
}
)";

std::uint64_t dot(const float* x, const float* y, Portion of) noexcept {
  constexpr std::size_t kLanes = 16;  // told apart, so that they are a vector's
  std::uint64_t sum = 0;
  for (std::uint64_t k = of.begin; k < of.end;) {
    const std::uint64_t stop = std::min(of.end, k + kFew);
    std::array<float, kLanes> lanes{};
    for (; k + kLanes <= stop; k += kLanes)
      for (std::size_t lane = 0; lane < kLanes; ++lane) lanes[lane] += x[k + lane] * y[k + lane];
    float few = 0;
    for (; k < stop; ++k) few += x[k] * y[k];
    for (const float lane : lanes) few += lane;
    sum += static_cast<std::uint64_t>(few);
  }
  return sum;
}

Result<void> dot_product(const CpuArguments& with, const CpuSlice& slice) {
  const auto *const x = with.span<float>(0).data(), *const y = with.span<float>(1).data();
  return add_up(with, slice, 2, 3, [=](Portion of) { return dot(x, y, of); });
}

class DotProduct final : public Reduction {
 public:
  explicit DotProduct(std::uint64_t steps)
      : Reduction(steps),
        x_(add_array(steps * sizeof(float))),
        y_(add_array(steps * sizeof(float))) {
    fill(x_.as<float>(), [](std::uint64_t i) { return static_cast<float>(noise(i) % 16); });
    fill(y_.as<float>(), [](std::uint64_t i) { return static_cast<float>(noise(i, 1) % 16); });
    const auto *const x = x_.as<float>().data(), *const y = y_.as<float>().data();
    expect({sum_of(steps, [=](Portion of) {
      std::uint64_t sum = 0;
      for (std::uint64_t k = of.begin; k < of.end; ++k)
        sum += static_cast<std::uint64_t>(x[k] * y[k]);
      return sum;
    })});
  }
  PipelineJob job(const Kernel& kernel, const Terms& terms) override {
    return PipelineJob(kernel, steps())
        .input(source(x_, terms), sizeof(float))
        .input(source(y_, terms), sizeof(float))
        .reduction(terms.cut.groups * sizeof(std::uint64_t), fold<std::uint64_t>())
        .count()
        .range([cut = terms.cut](std::uint64_t) { return cut.shared(); });
  }

 private:
  Array &x_, &y_;
};

// ---- monte-carlo-pi ------------------------------------------------------------------------

constexpr std::string_view kMonteCarlo = R"(
HELPER uint hits_of(ulong seed) {
  uint word = (uint)(seed ^ (seed >> 32)) | 1u, hits = 0;
  for (uint i = 0; i < 16; ++i) {
    word ^= word << 13;
    word ^= word >> 17;
    word ^= word << 5;
    const uint x = word & 32767u, y = (word >> 16) & 32767u;
    hits += x * x + y * y < 1073741824u ? 1u : 0u;
  }
  return hits;
}
KERNEL void monte_carlo_pi(IN(ulong) seeds, PART(ulong) part, ulong count) {
  ulong sum = 0;
  const ulong end = END(count);
  for (ulong k = BEGIN(count); k < end; k += STRIDE) sum += hits_of(seeds[k]);
  SUM_UP(part, sum);
}
)";

/// Of 16 points drawn from the seed, those inside the quarter of a circle.
std::uint32_t hits_of(std::uint64_t seed) noexcept {
  auto word = static_cast<std::uint32_t>(seed ^ (seed >> 32)) | 1U;
  std::uint32_t hits = 0;
  for (int i = 0; i < 16; ++i) {
    word ^= word << 13;
    word ^= word >> 17;
    word ^= word << 5;
    const std::uint32_t x = word & 32767U, y = (word >> 16) & 32767U;
    hits += x * x + y * y < (1U << 30) ? 1 : 0;
  }
  return hits;
}

std::uint64_t hits_in(const std::uint64_t* seeds, Portion of) noexcept {
  std::uint64_t sum = 0;
  for (std::uint64_t k = of.begin; k < of.end; ++k) sum += hits_of(seeds[k]);
  return sum;
}

Result<void> monte_carlo_pi(const CpuArguments& with, const CpuSlice& slice) {
  const auto* const seeds = with.span<std::uint64_t>(0).data();
  return add_up(with, slice, 1, 2, [=](Portion of) { return hits_in(seeds, of); });
}

class MonteCarlo final : public Reduction {
 public:
  explicit MonteCarlo(std::uint64_t steps)
      : Reduction(steps), seeds_(add_array(steps * sizeof(std::uint64_t))) {
    fill(seeds_.as<std::uint64_t>(), [](std::uint64_t i) { return noise(i); });
    const auto* const seeds = seeds_.as<std::uint64_t>().data();
    expect({sum_of(steps, [=](Portion of) { return hits_in(seeds, of); })});
  }
  PipelineJob job(const Kernel& kernel, const Terms& terms) override {
    return PipelineJob(kernel, steps())
        .input(source(seeds_, terms), sizeof(std::uint64_t))
        .reduction(terms.cut.groups * sizeof(std::uint64_t), fold<std::uint64_t>())
        .count()
        .range([cut = terms.cut](std::uint64_t) { return cut.shared(); });
  }

 private:
  Array& seeds_;
};

// ---- histogram -----------------------------------------------------------------------------

constexpr std::size_t kBins = 256;

constexpr std::string_view kHistogram = R"(
KERNEL void histogram(IN(uint) x, PART(uint) bins, ulong count) {
  SHARED uint mine[256];
  for (uint b = LANE; b < 256; b += GROUP) mine[b] = 0;
  MEET;
  const ulong end = END(count);
  for (ulong k = BEGIN(count); k < end; k += STRIDE) COUNT_UP(&mine[x[k] >> 24], 1u);
  MEET;
  for (uint b = LANE; b < 256; b += GROUP) COUNT_UP(&bins[b], mine[b]);
}
)";

void count_into(std::span<std::uint32_t, kBins> bins, const std::uint32_t* x, Portion of) noexcept {
  for (std::uint64_t k = of.begin; k < of.end; ++k) ++bins[x[k] >> 24];
}

Result<void> histogram(const CpuArguments& with, const CpuSlice& slice) {
  const auto* const x = with.span<std::uint32_t>(0).data();
  const auto bins = with.span<std::uint32_t>(1);
  std::array<std::uint32_t, kBins> mine{};
  for (std::size_t i = slice.first; i < slice.last; ++i)
    count_into(mine, x, portion_of(i, slice.range.count(), with.value<std::uint64_t>(2)));
  for (std::size_t b = 0; b < kBins; ++b)  // the launch's end is what makes them visible
    std::atomic_ref(bins[b]).fetch_add(mine[b], std::memory_order_relaxed);
  return {};
}

class Histogram final : public Reduction {
 public:
  explicit Histogram(std::uint64_t steps, std::optional<Cache> of_file = {})
      : Reduction(steps), x_(add_array(steps * sizeof(std::uint32_t))), cache_(of_file) {
    const auto x = x_.as<std::uint32_t>();
    fill(x, [](std::uint64_t i) { return static_cast<std::uint32_t>(noise(i)); });
    std::vector<std::uint64_t> totals(kBins);
    std::mutex mutex;
    share_out(steps, [&](std::uint64_t first, std::uint64_t last) {
      std::array<std::uint64_t, kBins> mine{};
      for (std::uint64_t k = first; k < last; ++k) ++mine[x[k] >> 24];
      const std::lock_guard lock(mutex);
      for (std::size_t b = 0; b < kBins; ++b) totals[b] += mine[b];
    });
    expect(std::move(totals));
    if (!cache_) return;
    file_.emplace();
    file_->write(x_.bytes());
  }
  void prepare() override {
    Reduction::prepare();
    if (cache_) file_->prepare(*cache_);
  }
  PipelineJob job(const Kernel& kernel, const Terms& terms) override {
    return PipelineJob(kernel, steps())
        .input(cache_ ? file_->source(terms) : source(x_, terms), sizeof(std::uint32_t))
        .reduction(kBins * sizeof(std::uint32_t), fold<std::uint32_t>())
        .count()
        .range([cut = terms.cut](std::uint64_t) { return cut.shared(); });
  }

 private:
  Array& x_;
  const std::optional<Cache> cache_;
  std::optional<DataFile> file_;
};

ProgramSource histogram_program(const Cut& cut) {
  return program_of("histogram", kHistogram, histogram, cut, Sums::any_order);
}

ProgramSource summing(const char* name, std::string_view body, CpuKernel callable, const Cut& cut) {
  return program_of(name, std::string(kSumUp) + std::string(body), std::move(callable), cut,
                    Sums::any_order);
}

}  // namespace

CaseKind dot_product_case() {
  return {"dot-product", "dot_product", 2 * sizeof(float),
          [](const Cut& cut) { return summing("dot_product", kDotProduct, dot_product, cut); },
          make_workload<DotProduct>};
}

CaseKind monte_carlo_case() {
  return {
      "monte-carlo-pi", "monte_carlo_pi", sizeof(std::uint64_t),
      [](const Cut& cut) { return summing("monte_carlo_pi", kMonteCarlo, monte_carlo_pi, cut); },
      make_workload<MonteCarlo>};
}

CaseKind histogram_case() {
  return {"histogram", "histogram", sizeof(std::uint32_t), histogram_program,
          make_workload<Histogram>};
}

CaseKind file_histogram_case() {
  return {"file-histogram",
          "histogram",
          sizeof(std::uint32_t),
          histogram_program,
          make_workload<Histogram, Cache::hot>,
          true};
}

CaseKind file_histogram_cold_case() {
  return {"file-histogram-cold",
          "histogram",
          sizeof(std::uint32_t),
          histogram_program,
          make_workload<Histogram, Cache::cold>,
          true};
}

}  // namespace gantry::bench
