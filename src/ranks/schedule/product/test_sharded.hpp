#pragma once  // schedule/product/test_sharded.hpp: sharded products over ranks that are threads,
              // and what each rank has to get, element by element.

#include <cmath>
#include <gantry/product.hpp>

#include "ranks/schedule/run/test_ranks.hpp"

namespace gantry::test {

inline constexpr DataType kFloat{DataType::floating, 32, 1};

inline OverlapOperator random_operator(Random& random) {
  OverlapOperator op;
  op.kind =
      pick(random, 0, 1) == 0 ? OverlapKind::all_gather_gemm : OverlapKind::gemm_reduce_scatter;
  op.ranks = static_cast<unsigned>(pick(random, 1, 4));
  op.m = pick(random, 1, 23);
  op.n = pick(random, 1, 17);
  op.k = pick(random, 1, 19);
  op.type = kFloat;
  return op;
}

/// Any point of the operator's space.
inline Schedule random_schedule(const OverlapOperator& op, Random& random) {
  const auto space = schedules_of(op).value();
  return space[static_cast<std::size_t>(
      pick(random, 0, static_cast<std::int64_t>(space.size()) - 1))];
}

/// An element of A, or of a B: a small whole number, so that sums are exact.
inline float operand_number(unsigned matrix, std::int64_t row, std::int64_t col) {
  return static_cast<float>((row * 7 + col * 13 + matrix * 5) % 9 - 4);
}

inline float& at(const MatrixPart& part, std::int64_t row, std::int64_t col) {
  return *reinterpret_cast<float*>(part.data + static_cast<Bytes>(row) * part.stride +
                                   static_cast<Bytes>(col) * sizeof(float));
}

template <class Value>
void fill(const MatrixPart& part, unsigned matrix, std::int64_t row, std::int64_t col,
          const Value& value) {
  for (std::int64_t i = 0; i < part.rows; ++i)
    for (std::int64_t j = 0; j < part.cols; ++j) at(part, i, j) = value(matrix, row + i, col + j);
}

inline std::int64_t share(std::int64_t size, unsigned rank, unsigned ranks) {
  return size * rank / ranks;
}

/// Fills in what a rank gives, runs, and shows each element that it gets, beside the exact sum and
/// the sum of its terms' magnitudes.
template <class Value, class Visit>
void run_and_visit(ShardedProduct& product, const OverlapOperator& op, unsigned rank,
                   const Value& value, const Visit& visit) {
  const std::int64_t row = share(op.m, rank, op.ranks);
  const std::int64_t col = share(op.n, rank, op.ranks);
  const std::int64_t depth = share(op.k, rank, op.ranks);
  const bool gathers = op.kind == OverlapKind::all_gather_gemm;
  fill(product.a(), 0, gathers ? row : 0, gathers ? 0 : depth, value);
  fill(product.b(), 1, gathers ? 0 : depth, gathers ? col : 0, value);
  const auto run = product.run();
  ASSERT_TRUE(run) << to_string(run.error());
  const MatrixPart c = product.c();
  const std::int64_t first_row = gathers ? 0 : row;
  const std::int64_t first_col = gathers ? col : 0;
  for (std::int64_t i = 0; i < c.rows; ++i)
    for (std::int64_t j = 0; j < c.cols; ++j) {
      double sum = 0;
      double magnitude = 0;
      for (std::int64_t k = 0; k < op.k; ++k) {
        const double term = static_cast<double>(value(0, first_row + i, k)) *
                            static_cast<double>(value(1, k, first_col + j));
        sum += term;
        magnitude += std::abs(term);
      }
      ASSERT_NO_FATAL_FAILURE(visit(at(c, i, j), sum, magnitude)) << i << ", " << j;
    }
}

inline void run_and_compare(ShardedProduct& product, const OverlapOperator& op, unsigned rank) {
  run_and_visit(product, op, rank, operand_number, [&](float seen, double sum, double) {
    ASSERT_EQ(static_cast<double>(seen), sum) << product.explain();
  });
}

}  // namespace gantry::test
