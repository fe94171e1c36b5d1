#include "matrices.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace tensor_parallel {
namespace {

// splitmix64's last step: neighbours get unrelated bits.
std::uint64_t mix(std::uint64_t bits) noexcept {
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111eb;
  return bits ^ (bits >> 31);
}

float gelu(float x) noexcept {
  return x / 2 * (1 + std::erf(x / std::numbers::sqrt2_v<float>));
}

}  // namespace

float value_at(Matrix matrix, std::int64_t row, std::int64_t col) noexcept {
  constexpr unsigned kSideBits = 28;
  const auto place = (static_cast<std::uint64_t>(matrix) << 2 * kSideBits) +
                     (static_cast<std::uint64_t>(row) << kSideBits) +
                     static_cast<std::uint64_t>(col);
  const std::uint64_t most = matrix == Matrix::x ? 2 : 1;
  return static_cast<float>(mix(place) % (2 * most + 1)) - static_cast<float>(most);
}

void fill(const gantry::MatrixPart& part, Matrix matrix, std::int64_t row, std::int64_t col) {
  for (std::int64_t i = 0; i < part.rows; ++i)
    for (std::int64_t j = 0; j < part.cols; ++j)
      row_of(part, i)[j] = value_at(matrix, row + i, col + j);
}

void activate(Activation activation, const gantry::MatrixPart& from, const gantry::MatrixPart& to) {
  for (std::int64_t i = 0; i < from.rows; ++i) {
    const float* const in = row_of(from, i);
    float* const out = row_of(to, i);
    if (activation == Activation::relu)
      std::transform(in, in + from.cols, out, [](float x) { return x > 0 ? x : 0; });
    else
      std::transform(in, in + from.cols, out, gelu);
  }
}

}  // namespace tensor_parallel
