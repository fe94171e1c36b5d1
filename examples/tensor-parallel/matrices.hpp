#pragma once  // matrices.hpp: the numbers that the layers compute with.

#include <gantry/product.hpp>
#include <vector>

#include "options.hpp"

namespace tensor_parallel {

enum class Matrix : std::uint8_t { x = 1, w1, w2 };

/// An element: a whole number, of X from -2 to 2, of the weights from -1 to 1; by its place alone,
/// so that every rank makes its part without the others.
[[nodiscard]] float value_at(Matrix matrix, std::int64_t row, std::int64_t col) noexcept;

[[nodiscard]] inline float* row_of(const gantry::MatrixPart& part, std::int64_t row) noexcept {
  return reinterpret_cast<float*>(part.data + static_cast<gantry::Bytes>(row) * part.stride);
}

/// Fills a part, whose corner is that place of the whole matrix.
void fill(const gantry::MatrixPart& part, Matrix matrix, std::int64_t row, std::int64_t col);

/// Writes the activation of each element of `from` to `to`, which has the same sides.
void activate(Activation activation, const gantry::MatrixPart& from, const gantry::MatrixPart& to);

/// A matrix of this process.
class OwnMatrix {
 public:
  OwnMatrix(std::int64_t rows, std::int64_t cols)
      : rows_(rows), cols_(cols), elements_(static_cast<std::size_t>(rows * cols)) {}
  [[nodiscard]] gantry::MatrixPart part() noexcept {
    return {reinterpret_cast<std::byte*>(elements_.data()), rows_, cols_,
            static_cast<gantry::Bytes>(cols_) * sizeof(float)};
  }

 private:
  std::int64_t rows_;
  std::int64_t cols_;
  std::vector<float> elements_;
};

/// Where the part of a rank begins: rows, columns and depths are shared out like this.
[[nodiscard]] constexpr std::int64_t share(std::int64_t size, unsigned rank, unsigned ranks) {
  return size * rank / ranks;
}

}  // namespace tensor_parallel
