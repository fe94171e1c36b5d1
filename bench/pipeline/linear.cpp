// Cases of linear algebra: matrix-vector (broadcast), dft (blocks, a table that is broadcast).

#include <algorithm>
#include <cmath>
#include <numbers>

#include "cases.hpp"

namespace gantry::bench {
namespace {

constexpr std::uint64_t kMostRowsChecked = 1024;

// ---- matrix-vector -------------------------------------------------------------------------

constexpr std::uint64_t kColumns = 4096;

// Whole numbers below 16, so that a float adds 4096 products exactly in any order.
constexpr std::string_view kMatrixVector = R"(
KERNEL void matrix_vector(IN(float) matrix, IN(float) vector, OUT(float) out, ulong count) {
#if CONTIGUOUS
  const ulong row = ITEM;
  if (row >= count) return;
  float sum = 0;
  for (uint k = 0; k < 4096; ++k) sum += matrix[row * 4096 + k] * vector[k];
  out[row] = sum;
#else
  SHARED float sums[GROUP];
  const ulong row = TEAM;
  float sum = 0;
  for (uint k = LANE; k < 4096; k += GROUP) sum += matrix[row * 4096 + k] * vector[k];
  sums[LANE] = sum;
  MEET;
  for (uint step = GROUP / 2; step > 0; step /= 2) {
    if (LANE < step) sums[LANE] += sums[LANE + step];
    MEET;
  }
  if (LANE == 0) out[row] = sums[0];
#endif
}
)";

Result<void> matrix_vector(const CpuArguments& with, const CpuSlice& slice) {
  constexpr std::size_t kLanes = 16;
  const auto *const matrix = with.span<float>(0).data(), *const vector = with.span<float>(1).data();
  const auto out = with.span<float>(2);
  const std::uint64_t last = std::min<std::uint64_t>(slice.last, with.value<std::uint64_t>(3));
  for (std::uint64_t row = slice.first; row < last; ++row) {
    std::array<float, kLanes> lanes{};
    const float* const at = matrix + row * kColumns;
    for (std::size_t k = 0; k < kColumns; k += kLanes)
      for (std::size_t lane = 0; lane < kLanes; ++lane)
        lanes[lane] += at[k + lane] * vector[k + lane];
    float sum = 0;
    for (const float lane : lanes) sum += lane;
    out[row] = sum;
  }
  return {};
}

class MatrixVector final : public Workload {
 public:
  explicit MatrixVector(std::uint64_t steps)
      : Workload(steps),
        matrix_(add_array(steps * kColumns * sizeof(float))),
        vector_(add_array(kColumns * sizeof(float))),
        out_(add_array(steps * sizeof(float))) {
    fill(matrix_.as<float>(), [](std::uint64_t i) { return static_cast<float>(noise(i) % 16); });
    fill(vector_.as<float>(), [](std::uint64_t i) { return static_cast<float>(noise(i, 1) % 16); });
  }
  PipelineJob job(const Kernel& kernel, const Terms& terms) override {
    return PipelineJob(kernel, steps())
        .input(source(matrix_, terms), kColumns * sizeof(float))
        .broadcast(source(vector_, terms))
        .output(sink(out_, terms), sizeof(float))
        .count()
        .range([cut = terms.cut](std::uint64_t rows) {
          return cut.is_contiguous ? LaunchRange::linear(rows, 1)
                                   : LaunchRange::linear(rows * cut.reducing, cut.reducing);
        });
  }
  void prepare() override { spoil(out_); }
  Result<void> check(std::span<const ChunkTimes> chunks) const override {
    const auto matrix = matrix_.as<float>(), vector = vector_.as<float>(), out = out_.as<float>();
    return check_steps(chunks, kMostRowsChecked, [=](std::uint64_t row) {
      float sum = 0;
      for (std::uint64_t k = 0; k < kColumns; ++k) sum += matrix[row * kColumns + k] * vector[k];
      return out[row] == sum;
    });
  }

 private:
  Array &matrix_, &vector_, &out_;
};

// ---- dft -----------------------------------------------------------------------------------

constexpr std::uint64_t kPoints = 32;  // of a transform, which is a step

constexpr std::string_view kDft = R"(
KERNEL void dft(IN(float) re, IN(float) im, IN(float) turns, OUT(float) out_re, OUT(float) out_im,
           ulong count) {
  const ulong i = ITEM;
  if (i >= count * 32) return;
  const ulong base = i / 32 * 32;
  const uint k = (uint)(i % 32);
  float sum_re = 0, sum_im = 0;
  for (uint n = 0; n < 32; ++n) {
    const float c = turns[k * n % 32], s = turns[32 + k * n % 32];
    sum_re += re[base + n] * c + im[base + n] * s;
    sum_im += im[base + n] * c - re[base + n] * s;
  }
  out_re[i] = sum_re;
  out_im[i] = sum_im;
}
)";

struct Complex {
  float re = 0;
  float im = 0;
};

/// Number `k` of the transform of the points at `re` and `im`.
Complex transformed(const float* re, const float* im, const float* turns,
                    std::uint32_t k) noexcept {
  Complex sum;
  for (std::uint32_t n = 0; n < kPoints; ++n) {
    const std::uint32_t turn = k * n % std::uint32_t{kPoints};
    const float c = turns[turn], s = turns[kPoints + turn];
    sum.re += re[n] * c + im[n] * s;
    sum.im += im[n] * c - re[n] * s;
  }
  return sum;
}

Result<void> dft(const CpuArguments& with, const CpuSlice& slice) {
  const auto *const re = with.span<float>(0).data(), *const im = with.span<float>(1).data();
  const auto* const turns = with.span<float>(2).data();
  const auto out_re = with.span<float>(3), out_im = with.span<float>(4);
  const std::uint64_t last =
      std::min<std::uint64_t>(slice.last, with.value<std::uint64_t>(5) * kPoints);
  for (std::uint64_t i = slice.first; i < last; ++i) {
    const std::uint64_t base = i / kPoints * kPoints;
    const Complex sum =
        transformed(re + base, im + base, turns, static_cast<std::uint32_t>(i - base));
    out_re[i] = sum.re;
    out_im[i] = sum.im;
  }
  return {};
}

class Dft final : public Workload {
 public:
  explicit Dft(std::uint64_t steps)
      : Workload(steps),
        re_(array()),
        im_(array()),
        turns_(add_array(2 * kPoints * sizeof(float))),
        out_re_(array()),
        out_im_(array()) {
    const auto wave = [](std::uint64_t salt) {
      return [=](std::uint64_t i) { return static_cast<float>(noise(i, salt) % 2048) / 1024 - 1; };
    };
    fill(re_.as<float>(), wave(1));
    fill(im_.as<float>(), wave(2));
    fill(turns_.as<float>(), [](std::uint64_t i) {
      const double angle = 2 * std::numbers::pi * static_cast<double>(i % kPoints) / kPoints;
      return static_cast<float>(i < kPoints ? std::cos(angle) : std::sin(angle));
    });
  }
  PipelineJob job(const Kernel& kernel, const Terms& terms) override {
    constexpr Bytes kStep = kPoints * sizeof(float);
    return PipelineJob(kernel, steps())
        .input(source(re_, terms), kStep)
        .input(source(im_, terms), kStep)
        .broadcast(source(turns_, terms))
        .output(sink(out_re_, terms), kStep)
        .output(sink(out_im_, terms), kStep)
        .count()
        .range([cut = terms.cut](std::uint64_t blocks) { return cut.each(blocks * kPoints); });
  }
  void prepare() override {
    spoil(out_re_);
    spoil(out_im_);
  }
  Result<void> check(std::span<const ChunkTimes> chunks) const override {
    return check_steps(chunks, kMostRowsChecked, [&](std::uint64_t block) {
      const std::uint64_t base = block * kPoints;
      for (std::uint32_t k = 0; k < kPoints; ++k) {
        const Complex meant =
            transformed(re_.as<float>().data() + base, im_.as<float>().data() + base,
                        turns_.as<float>().data(), k);
        if (out_re_.as<float>()[base + k] != meant.re || out_im_.as<float>()[base + k] != meant.im)
          return false;
      }
      return true;
    });
  }

 private:
  Array& array() { return add_array(steps() * kPoints * sizeof(float)); }
  Array &re_, &im_, &turns_, &out_re_, &out_im_;
};

}  // namespace

CaseKind matrix_vector_case() {
  return {"matrix-vector", "matrix_vector", (kColumns + 1) * sizeof(float),
          [](const Cut& cut) {
            return program_of("matrix_vector", kMatrixVector, matrix_vector, cut, Sums::any_order);
          },
          make_workload<MatrixVector>};
}

CaseKind dft_case() {
  return {"dft", "dft", 4 * kPoints * sizeof(float),
          [](const Cut& cut) { return program_of("dft", kDft, dft, cut); }, make_workload<Dft>};
}

}  // namespace gantry::bench
