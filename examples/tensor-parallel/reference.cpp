#include "reference.hpp"

#include <poll.h>

#include <algorithm>
#include <cmath>

#include "errors.hpp"
#include "matrices.hpp"

namespace tensor_parallel {
namespace {

using gantry::Code;
using gantry::MatrixPart;
using gantry::Result;

constexpr std::int64_t kSliceRows = 32;  // at a time, so that an interrupt is seen
constexpr double kRounding = 0x1p-24;
constexpr double kWholeNumbers = 0x1p24;  // all up to it are f32

Result<void> multiply(gantry::GemmLibrary& gemm, const MatrixPart& a, const MatrixPart& b,
                      const MatrixPart& c) {
  const auto stride = [](const MatrixPart& part) {
    return static_cast<std::int64_t>(part.stride / sizeof(float));
  };
  return gemm.multiply({.type = {gantry::DataType::floating, 32, 1},
                        .m = a.rows,
                        .n = b.cols,
                        .k = a.cols,
                        .a = a.data,
                        .a_stride = stride(a),
                        .b = b.data,
                        .b_stride = stride(b),
                        .c = c.data,
                        .c_stride = stride(c)});
}

double magnitude(const float* values, std::int64_t count) {
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += std::abs(values[i]);
  return sum;
}

/// By how much an element may differ whose terms add up to that. The weights are at most 1.
double bound_of(Activation activation, double terms, std::int64_t count) {
  if (activation == Activation::relu) return 0;
  const double roundings = static_cast<double>(count) * kRounding;
  return 2 * roundings / (1 - roundings) * terms;
}

Result<void> compare_row(const float* is, const float* should_be, std::int64_t row,
                         std::int64_t count, double bound) {
  for (std::int64_t col = 0; col < count; ++col)
    if (!(std::abs(double{is[col]} - should_be[col]) <= bound))  // NaN, too
      return fail(Code::system, "element " + std::to_string(row) + ", " + std::to_string(col) +
                                    " is " + std::to_string(is[col]) + "; one rank computes " +
                                    std::to_string(should_be[col]));
  return {};
}

bool is_interrupted(int descriptor) {
  pollfd entry{descriptor, POLLIN, 0};
  return descriptor >= 0 && ::poll(&entry, 1, 0) == 1;
}

/// The whole weights, and room for some rows.
class Reference {
 public:
  Reference(const Options& options, gantry::GemmLibrary& gemm)
      : options_(options), gemm_(gemm), w1_(hidden(), inner()), w2_(inner(), hidden()) {
    fill(w1_.part(), Matrix::w1, 0, 0);
    fill(w2_.part(), Matrix::w2, 0, 0);
  }

  /// Of rows from `first` on; `result` holds them.
  Result<void> compare_slice(const MatrixPart& result, std::int64_t first) {
    OwnMatrix x(result.rows, hidden());
    OwnMatrix between(result.rows, inner());
    OwnMatrix y(result.rows, hidden());
    fill(x.part(), Matrix::x, first, 0);
    if (auto done = multiply(gemm_, x.part(), w1_.part(), between.part()); !done) return done;
    activate(options_.activation, between.part(), between.part());
    if (auto done = multiply(gemm_, between.part(), w2_.part(), y.part()); !done) return done;
    for (std::int64_t row = 0; row < result.rows; ++row) {
      const double terms = magnitude(row_of(between.part(), row), inner());
      if (options_.activation == Activation::relu && terms > kWholeNumbers)
        return fail(Code::too_large, "--sides: sums may exceed 2^24, the whole numbers of f32",
                    "take a smaller side, or --activation gelu");
      auto same = compare_row(row_of(result, row), row_of(y.part(), row), first + row, hidden(),
                              bound_of(options_.activation, terms, inner()));
      if (!same) return same;
    }
    return {};
  }

 private:
  [[nodiscard]] std::int64_t hidden() const noexcept { return options_.sides.hidden; }
  [[nodiscard]] std::int64_t inner() const noexcept { return options_.sides.inner; }

  const Options& options_;
  gantry::GemmLibrary& gemm_;
  OwnMatrix w1_;
  OwnMatrix w2_;
};

}  // namespace

Result<void> compare(const MatrixPart& result, std::int64_t first_row, const Options& options,
                     gantry::GemmLibrary& gemm) {
  Reference reference(options, gemm);
  for (std::int64_t row = 0; row < result.rows; row += kSliceRows) {
    if (is_interrupted(options.group.interrupt_descriptor))
      return fail(Code::interrupted, "interrupted");
    MatrixPart slice = result;
    slice.data += static_cast<gantry::Bytes>(row) * result.stride;
    slice.rows = std::min(kSliceRows, result.rows - row);
    if (auto same = reference.compare_slice(slice, first_row + row); !same) return same;
  }
  return {};
}

}  // namespace tensor_parallel
