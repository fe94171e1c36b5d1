// Sharded products over ranks that are threads here: what each rank gets, element by element.
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <gantry/schedule/product.hpp>
#include <mutex>

#include "channel/test_support.hpp"
#include "schedule/run/test_ranks.hpp"

namespace gantry {
namespace {

using test::pick;
using test::Random;
using test::Via;

constexpr DataType kFloat{DataType::floating, 32, 1};

/// An element of A, or of a B: a small whole number, so that sums are exact.
float number_at(unsigned matrix, std::int64_t row, std::int64_t col) {
  return static_cast<float>((row * 7 + col * 13 + matrix * 5) % 9 - 4);
}

float& at(const MatrixPart& part, std::int64_t row, std::int64_t col) {
  return *reinterpret_cast<float*>(part.data + static_cast<Bytes>(row) * part.stride +
                                   static_cast<Bytes>(col) * sizeof(float));
}

void fill(const MatrixPart& part, unsigned matrix, std::int64_t row, std::int64_t col) {
  for (std::int64_t i = 0; i < part.rows; ++i)
    for (std::int64_t j = 0; j < part.cols; ++j)
      at(part, i, j) = number_at(matrix, row + i, col + j);
}

std::int64_t share(std::int64_t size, unsigned rank, unsigned ranks) {
  return size * rank / ranks;
}

/// Fills in what a rank gives, runs, and compares what it gets.
void run_and_compare(ShardedProduct& product, const OverlapOperator& op, unsigned rank) {
  const std::int64_t row = share(op.m, rank, op.ranks);
  const std::int64_t col = share(op.n, rank, op.ranks);
  const std::int64_t depth = share(op.k, rank, op.ranks);
  const bool gathers = op.kind == OverlapKind::all_gather_gemm;
  fill(product.a(), 0, gathers ? row : 0, gathers ? 0 : depth);
  fill(product.b(), 1, gathers ? 0 : depth, gathers ? col : 0);
  const auto run = product.run();
  ASSERT_TRUE(run) << to_string(run.error());
  const MatrixPart c = product.c();
  const std::int64_t first_row = gathers ? 0 : row;
  const std::int64_t first_col = gathers ? col : 0;
  for (std::int64_t i = 0; i < c.rows; ++i)
    for (std::int64_t j = 0; j < c.cols; ++j) {
      float sum = 0;
      for (std::int64_t k = 0; k < op.k; ++k)
        sum += number_at(0, first_row + i, k) * number_at(1, k, first_col + j);
      ASSERT_EQ(at(c, i, j), sum) << product.explain() << ": " << i << ", " << j;
    }
}

TEST(ShardedProducts, AnySchedule) {
  Random random(11);
  for (int i = 0; i < 60; ++i) {
    OverlapOperator op;
    op.kind = i % 2 == 0 ? OverlapKind::all_gather_gemm : OverlapKind::gemm_reduce_scatter;
    op.ranks = static_cast<unsigned>(pick(random, 1, 4));
    op.m = pick(random, 1, 23);
    op.n = pick(random, 1, 17);
    op.k = pick(random, 1, 19);
    op.type = kFloat;
    const auto space = schedules_of(op).value();
    ShardedProductOptions options;
    options.schedule = space[static_cast<std::size_t>(
        pick(random, 0, static_cast<std::int64_t>(space.size()) - 1))];
    test::at_all_ranks(op.ranks, i % 3 == 0 ? Via::stream : Via::shared, [&](Group& group) {
      auto product = ShardedProduct::prepare(group, op, options);
      ASSERT_TRUE(product) << to_string(product.error());
      for (int run = 0; run < 2; ++run) run_and_compare(*product, op, group.rank());
    });
  }
}

TEST(ShardedProducts, AllRanksChooseTheSame) {
  OverlapOperator op{OverlapKind::all_gather_gemm, 64, 60, 48, kFloat, 3};
  std::mutex mutex;
  std::vector<std::string> explained;
  const test::ScratchDirectory folder;
  const std::string log = folder.path() + "/log";
  test::at_all_ranks(op.ranks, Via::stream, [&](Group& group) {
    ShardedProductOptions options;
    options.log = log;
    auto product = ShardedProduct::prepare(group, op, options);
    ASSERT_TRUE(product) << to_string(product.error());
    run_and_compare(*product, op, group.rank());
    run_and_compare(*product, op, group.rank());
    const std::lock_guard lock(mutex);
    explained.push_back(product->explain());
  });
  ASSERT_EQ(explained.size(), 3u);
  for (const std::string& text : explained) EXPECT_EQ(text, explained.front());
  // Rank 0 noted both runs, with the sentence, which reads back.
  std::ifstream file(log);
  unsigned lines = 0;
  for (std::string line; std::getline(file, line); ++lines) {
    EXPECT_TRUE(line.starts_with("gantry-schedule-log 1 ranks=3 m=64 n=60 k=48 type=f32 ")) << line;
    EXPECT_TRUE(parse_sentence(line.substr(line.find("gantry-schedule 1")))) << line;
  }
  EXPECT_EQ(lines, 2u);
}

TEST(ShardedProducts, AnOperatorForAnotherGroup) {
  OverlapOperator op{OverlapKind::all_gather_gemm, 8, 8, 8, kFloat, 3};
  test::at_all_ranks(1, Via::stream, [&](Group& group) {
    const auto costs = measure_costs(group, op);
    ASSERT_FALSE(costs);
    EXPECT_EQ(costs.error().code, Code::invalid_argument);
    EXPECT_EQ(costs.error().message, "an operator of 3 ranks in a group of 1");
  });
}

}  // namespace
}  // namespace gantry
