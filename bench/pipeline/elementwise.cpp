// Cases whose steps are elements: vector-add, saxpy (in place), black-scholes (two outputs).

#include <algorithm>
#include <cmath>

#include "cases.hpp"

namespace gantry::bench {
namespace {

constexpr std::uint64_t kMostElementsChecked = 1 << 16;

/// Calls `body` with each item of the slice that is one of the chunk's `count`.
template <class Body>
Result<void> for_items(const CpuSlice& slice, std::uint64_t count, const Body& body) {
  const std::uint64_t last = std::min<std::uint64_t>(slice.last, count);
  for (std::uint64_t i = slice.first; i < last; ++i) body(i);
  return {};
}

// ---- vector-add ----------------------------------------------------------------------------

constexpr std::string_view kVectorAdd = R"(
KERNEL void vector_add(IN(float) x, IN(float) y, OUT(float) z, ulong count) {
  const ulong i = ITEM;
  if (i < count) z[i] = x[i] + y[i];
}
)";

Result<void> vector_add(const CpuArguments& with, const CpuSlice& slice) {
  const auto *const x = with.span<float>(0).data(), *const y = with.span<float>(1).data();
  auto* const z = with.span<float>(2).data();
  return for_items(slice, with.value<std::uint64_t>(3),
                   [=](std::uint64_t i) { z[i] = x[i] + y[i]; });
}

class VectorAdd final : public Workload {
 public:
  explicit VectorAdd(std::uint64_t steps) : Workload(steps), x_(array()), y_(array()), z_(array()) {
    fill(x_.as<float>(), [](std::uint64_t i) { return static_cast<float>(noise(i) % 1000); });
    fill(y_.as<float>(), [](std::uint64_t i) { return static_cast<float>(noise(i, 1) % 1000); });
  }
  PipelineJob job(const Kernel& kernel, const Terms& terms) override {
    return PipelineJob(kernel, steps())
        .input(source(x_, terms), sizeof(float))
        .input(source(y_, terms), sizeof(float))
        .output(sink(z_, terms), sizeof(float))
        .count()
        .range([cut = terms.cut](std::uint64_t steps) { return cut.each(steps); });
  }
  void prepare() override { spoil(z_); }
  Result<void> check(std::span<const ChunkTimes> chunks) const override {
    const auto x = x_.as<float>(), y = y_.as<float>(), z = z_.as<float>();
    return check_steps(chunks, kMostElementsChecked,
                       [=](std::uint64_t i) { return z[i] == x[i] + y[i]; });
  }

 private:
  Array& array() { return add_array(steps() * sizeof(float)); }
  Array &x_, &y_, &z_;
};

// ---- saxpy ---------------------------------------------------------------------------------

constexpr std::string_view kSaxpy = R"(
KERNEL void saxpy(IN(float) x, OUT(float) y, float a, ulong count) {
  const ulong i = ITEM;
  if (i < count) y[i] = a * x[i] + y[i];
}
)";

Result<void> saxpy(const CpuArguments& with, const CpuSlice& slice) {
  const auto* const x = with.span<float>(0).data();
  auto* const y = with.span<float>(1).data();
  const auto a = with.value<float>(2);
  return for_items(slice, with.value<std::uint64_t>(3),
                   [=](std::uint64_t i) { y[i] = a * x[i] + y[i]; });
}

class Saxpy final : public Workload {
 public:
  explicit Saxpy(std::uint64_t steps)
      : Workload(steps),
        x_(add_array(steps * sizeof(float))),
        y_(add_array(steps * sizeof(float))) {
    fill(x_.as<float>(), [](std::uint64_t i) { return static_cast<float>(noise(i) % 1000); });
  }
  PipelineJob job(const Kernel& kernel, const Terms& terms) override {
    return PipelineJob(kernel, steps())
        .input(source(x_, terms), sizeof(float))
        .in_place(sink(y_, terms), sizeof(float))
        .value(kA)
        .count()
        .range([cut = terms.cut](std::uint64_t steps) { return cut.each(steps); });
  }
  void prepare() override { fill(y_.as<float>(), before); }
  Result<void> check(std::span<const ChunkTimes> chunks) const override {
    const auto x = x_.as<float>(), y = y_.as<float>();
    return check_steps(chunks, kMostElementsChecked,
                       [=](std::uint64_t i) { return y[i] == kA * x[i] + before(i); });
  }

 private:
  static constexpr float kA = 3;  // whole numbers: exact
  static float before(std::uint64_t i) noexcept { return static_cast<float>(i % 4096); }
  Array &x_, &y_;
};

// ---- black-scholes -------------------------------------------------------------------------

constexpr std::string_view kBlackScholes = R"(
HELPER float normal(float d) {
  const float k = 1.0f / (1.0f + 0.2316419f * fabs(d));
  const float tail = 0.39894228f * exp(-0.5f * d * d) * k *
      (0.31938153f + k * (-0.356563782f + k * (1.781477937f + k * (-1.821255978f + k * 1.330274429f))));
  return d > 0.0f ? 1.0f - tail : tail;
}
KERNEL void black_scholes(IN(float) price, IN(float) strike, IN(float) years, OUT(float) call,
                     OUT(float) put, float rate, float volatility, ulong count) {
  const ulong i = ITEM;
  if (i >= count) return;
  const float s = price[i], x = strike[i], t = years[i], root = volatility * sqrt(t);
  const float d1 = (log(s / x) + (rate + 0.5f * volatility * volatility) * t) / root;
  const float n1 = normal(d1), n2 = normal(d1 - root), present = x * exp(-rate * t);
  call[i] = s * n1 - present * n2;
  put[i] = present * (1.0f - n2) - s * (1.0f - n1);
}
)";

struct Option {
  float call = 0;
  float put = 0;
};

float normal(float d) noexcept {
  const float k = 1.0F / (1.0F + 0.2316419F * std::fabs(d));
  const float tail =
      0.39894228F * std::exp(-0.5F * d * d) * k *
      (0.31938153F +
       k * (-0.356563782F + k * (1.781477937F + k * (-1.821255978F + k * 1.330274429F))));
  return d > 0.0F ? 1.0F - tail : tail;
}

Option value_of(float s, float x, float t, float rate, float volatility) noexcept {
  const float root = volatility * std::sqrt(t);
  const float d1 = (std::log(s / x) + (rate + 0.5F * volatility * volatility) * t) / root;
  const float n1 = normal(d1), n2 = normal(d1 - root), present = x * std::exp(-rate * t);
  return {s * n1 - present * n2, present * (1.0F - n2) - s * (1.0F - n1)};
}

Result<void> black_scholes(const CpuArguments& with, const CpuSlice& slice) {
  const auto price = with.span<float>(0), strike = with.span<float>(1), years = with.span<float>(2);
  const auto call = with.span<float>(3), put = with.span<float>(4);
  const auto rate = with.value<float>(5), volatility = with.value<float>(6);
  return for_items(slice, with.value<std::uint64_t>(7), [&](std::uint64_t i) {
    const Option option = value_of(price[i], strike[i], years[i], rate, volatility);
    call[i] = option.call;
    put[i] = option.put;
  });
}

class BlackScholes final : public Workload {
 public:
  explicit BlackScholes(std::uint64_t steps)
      : Workload(steps),
        price_(array()),
        strike_(array()),
        years_(array()),
        call_(array()),
        put_(array()) {
    const auto between = [](std::uint64_t salt, float least, float most) {
      return [=](std::uint64_t i) {
        return least + (most - least) * static_cast<float>(noise(i, salt) % 4096) / 4096.0F;
      };
    };
    fill(price_.as<float>(), between(1, 5, 30));
    fill(strike_.as<float>(), between(2, 1, 100));
    fill(years_.as<float>(), between(3, 0.25F, 10));
  }
  PipelineJob job(const Kernel& kernel, const Terms& terms) override {
    return PipelineJob(kernel, steps())
        .input(source(price_, terms), sizeof(float))
        .input(source(strike_, terms), sizeof(float))
        .input(source(years_, terms), sizeof(float))
        .output(sink(call_, terms), sizeof(float))
        .output(sink(put_, terms), sizeof(float))
        .value(kRate)
        .value(kVolatility)
        .count()
        .range([cut = terms.cut](std::uint64_t steps) { return cut.each(steps); });
  }
  void prepare() override {
    spoil(call_);
    spoil(put_);
  }
  Result<void> check(std::span<const ChunkTimes> chunks) const override {
    // exp() and log() may differ in their last bits from device to device.
    const auto is_near = [](float found, float meant) {
      return std::fabs(found - meant) <= 1e-3F + 1e-3F * std::fabs(meant);
    };
    return check_steps(chunks, kMostElementsChecked, [&](std::uint64_t i) {
      const Option option = value_of(price_.as<float>()[i], strike_.as<float>()[i],
                                     years_.as<float>()[i], kRate, kVolatility);
      return is_near(call_.as<float>()[i], option.call) && is_near(put_.as<float>()[i], option.put);
    });
  }

 private:
  static constexpr float kRate = 0.02F;
  static constexpr float kVolatility = 0.30F;
  Array& array() { return add_array(steps() * sizeof(float)); }
  Array &price_, &strike_, &years_, &call_, &put_;
};

}  // namespace

CaseKind vector_add_case() {
  return {"vector-add", "vector_add", 3 * sizeof(float),
          [](const Cut& cut) { return program_of("vector_add", kVectorAdd, vector_add, cut); },
          make_workload<VectorAdd>};
}

CaseKind saxpy_case() {
  return {"saxpy", "saxpy", 3 * sizeof(float),
          [](const Cut& cut) { return program_of("saxpy", kSaxpy, saxpy, cut); },
          make_workload<Saxpy>};
}

CaseKind black_scholes_case() {
  return {
      "black-scholes", "black_scholes", 5 * sizeof(float),
      [](const Cut& cut) { return program_of("black_scholes", kBlackScholes, black_scholes, cut); },
      make_workload<BlackScholes>};
}

}  // namespace gantry::bench
