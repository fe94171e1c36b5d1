// Cases whose steps are rows of pixels: mandelbrot (output alone), convolution (halo, broadcast).

#include <algorithm>
#include <array>

#include "cases.hpp"
#include "picture.hpp"

namespace gantry::bench {
namespace {

// ---- mandelbrot ----------------------------------------------------------------------------

constexpr std::uint64_t kPixels = 1024;  // of a row
constexpr std::uint64_t kMostPixelsChecked = 256;

constexpr std::string_view kMandelbrot = R"(
KERNEL void mandelbrot(OUT(int) out, ulong count, ulong first, float dx, float dy) {
  const ulong i = ITEM;
  if (i >= count * 1024) return;
  const float cx = dx * (float)(i % 1024) - 2.0f, cy = dy * (float)(first + i / 1024) - 1.25f;
  float x = 0, y = 0;
  int n = 0;
  for (; n < 32 && x * x + y * y <= 4.0f; ++n) {
    const float next = x * x - y * y + cx;
    y = 2.0f * x * y + cy;
    x = next;
  }
  out[i] = n;
}
)";

/// Turns until the point is far away, 32 at most.
int turns_of(std::uint64_t column, std::uint64_t row, float dx, float dy) noexcept {
  const float cx = dx * static_cast<float>(column) - 2.0F;
  const float cy = dy * static_cast<float>(row) - 1.25F;
  float x = 0, y = 0;
  int n = 0;
  for (; n < 32 && x * x + y * y <= 4.0F; ++n) {
    const float next = x * x - y * y + cx;
    y = 2.0F * x * y + cy;
    x = next;
  }
  return n;
}

Result<void> mandelbrot(const CpuArguments& with, const CpuSlice& slice) {
  const auto out = with.span<int>(0);
  const auto first = with.value<std::uint64_t>(2);
  const auto dx = with.value<float>(3), dy = with.value<float>(4);
  const std::uint64_t last =
      std::min<std::uint64_t>(slice.last, with.value<std::uint64_t>(1) * kPixels);
  for (std::uint64_t i = slice.first; i < last && !slice.should_stop(); ++i)
    out[i] = turns_of(i % kPixels, first + i / kPixels, dx, dy);
  return {};
}

class Mandelbrot final : public Workload {
 public:
  explicit Mandelbrot(std::uint64_t steps)
      : Workload(steps),
        dy_(2.5F / static_cast<float>(steps)),
        out_(add_array(steps * kPixels * sizeof(int))) {}
  PipelineJob job(const Kernel& kernel, const Terms& terms) override {
    return PipelineJob(kernel, steps())
        .output(sink(out_, terms), kPixels * sizeof(int))
        .count()
        .first()
        .value(kDx)
        .value(dy_)
        .range([cut = terms.cut](std::uint64_t rows) { return cut.each(rows * kPixels); });
  }
  void prepare() override { spoil(out_); }
  Result<void> check(std::span<const ChunkTimes> chunks) const override {
    const auto out = out_.as<int>();
    return check_steps(chunks, kMostPixelsChecked, [&](std::uint64_t row) {
      for (std::uint64_t x = 0; x < kPixels; ++x)
        if (out[row * kPixels + x] != turns_of(x, row, kDx, dy_)) return false;
      return true;
    });
  }

 private:
  static constexpr float kDx = 2.5F / kPixels;
  float dy_;
  Array& out_;
};

// ---- convolution ---------------------------------------------------------------------------

constexpr std::uint64_t kWidth = 4096;  // of a result's row
constexpr std::uint64_t kReach = 2;     // to each side
constexpr std::uint64_t kWide = kWidth + 2 * kReach;
constexpr std::size_t kSide = 2 * kReach + 1;

constexpr std::string_view kConvolution = R"(
KERNEL void convolution(IN(float) picture, IN(float) weights, OUT(float) out, ulong count) {
  const ulong i = ITEM;
  if (i >= count * 4096) return;
  const ulong row = i / 4096, column = i % 4096;
  float sum = 0;
  for (uint y = 0; y < 5; ++y)
    for (uint x = 0; x < 5; ++x)
      sum += weights[y * 5 + x] * picture[(row + y) * 4100 + column + x];
  out[i] = sum;
}
)";

using Weights = std::array<float, kSide * kSide>;

/// Results `begin` to `end` of a row, from the five rows of the picture around it.
void convolve(const float* const* rows, const Weights& weights, float* out, std::uint64_t begin,
              std::uint64_t end) noexcept {
  std::fill(out + begin, out + end, 0.0F);
  for (std::size_t y = 0; y < kSide; ++y)
    for (std::size_t x = 0; x < kSide; ++x) {
      const float weight = weights[y * kSide + x];
      const float* const from = rows[y] + x;
      for (std::uint64_t i = begin; i < end; ++i) out[i] += weight * from[i];
    }
}

Result<void> convolution(const CpuArguments& with, const CpuSlice& slice) {
  const auto* const picture = with.span<float>(0).data();
  Weights weights{};
  std::ranges::copy(with.span<float>(1).first(weights.size()), weights.begin());
  auto* const out = with.span<float>(2).data();
  const std::uint64_t last =
      std::min<std::uint64_t>(slice.last, with.value<std::uint64_t>(3) * kWidth);
  for (std::uint64_t at = slice.first; at < last && !slice.should_stop();) {
    const std::uint64_t row = at / kWidth, next = std::min(last, (row + 1) * kWidth);
    std::array<const float*, kSide> rows{};
    for (std::size_t y = 0; y < kSide; ++y) rows[y] = picture + (row + y) * kWide;
    convolve(rows.data(), weights, out + row * kWidth, at - row * kWidth, next - row * kWidth);
    at = next;
  }
  return {};
}

class Convolution final : public Workload {
 public:
  explicit Convolution(std::uint64_t steps)
      : Workload(steps),
        picture_(add_array(steps * kWide * sizeof(float))),
        weights_(add_array(sizeof(Weights))),
        out_(add_array(steps * kWidth * sizeof(float))) {
    fill(picture_.as<float>(), [frame = frame_of_the_demo()](std::uint64_t i) {
      return static_cast<float>(frame.at(i / kWide, i % kWide)) / 256.0F;
    });
    constexpr std::array kBlur = {1.0F / 16, 4.0F / 16, 6.0F / 16, 4.0F / 16, 1.0F / 16};
    fill(weights_.as<float>(),
         [=](std::uint64_t i) { return kBlur[i / kSide % kSide] * kBlur[i % kSide]; });
  }
  PipelineJob job(const Kernel& kernel, const Terms& terms) override {
    return PipelineJob(kernel, steps())
        .input(source(picture_, terms), kWide * sizeof(float), {kReach, kReach, Edge::clamp})
        .broadcast(source(weights_, terms))
        .output(sink(out_, terms), kWidth * sizeof(float))
        .count()
        .range([cut = terms.cut](std::uint64_t rows) { return cut.each(rows * kWidth); });
  }
  void prepare() override { spoil(out_); }
  Result<void> check(std::span<const ChunkTimes> chunks) const override {
    Weights weights{};
    std::ranges::copy(weights_.as<float>().first(weights.size()), weights.begin());
    return check_steps(chunks, kMostPixelsChecked, [&](std::uint64_t row) {
      std::array<const float*, kSide> rows{};
      for (std::size_t y = 0; y < kSide; ++y) {
        const std::uint64_t beside = std::clamp(row + y, kReach, steps() - 1 + kReach) - kReach;
        rows[y] = picture_.as<float>().data() + beside * kWide;
      }
      std::array<float, kWidth> meant{};
      convolve(rows.data(), weights, meant.data(), 0, kWidth);
      return std::equal(meant.begin(), meant.end(), out_.as<float>().data() + row * kWidth);
    });
  }

 private:
  Array &picture_, &weights_, &out_;
};

}  // namespace

CaseKind mandelbrot_case() {
  return {"mandelbrot", "mandelbrot", kPixels * sizeof(int),
          [](const Cut& cut) { return program_of("mandelbrot", kMandelbrot, mandelbrot, cut); },
          make_workload<Mandelbrot>};
}

CaseKind convolution_case() {
  return {"convolution", "convolution", (kWide + kWidth) * sizeof(float),
          [](const Cut& cut) { return program_of("convolution", kConvolution, convolution, cut); },
          make_workload<Convolution>};
}

}  // namespace gantry::bench
