#include "ranks/schedule/run/host_steps.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "core/base/half_float.hpp"

namespace gantry {
namespace {

constexpr Bytes kRows = 5;

/// Rows of `cols` numbers, `stride` apart, in memory of their own.
template <class Number>
struct Cells {
  Cells(Bytes columns, Bytes row_stride, Number value)
      : cols(columns), stride(row_stride), numbers(kRows * row_stride, value) {}
  LocalRect rect() {
    return {reinterpret_cast<std::byte*>(numbers.data()), kRows, cols * sizeof(Number),
            stride * sizeof(Number)};
  }
  Bytes cols;
  Bytes stride;
  std::vector<Number> numbers;
};

/// Every width about the blocks of the sum, with gaps that have to stay.
template <class Number, class Sum>
void expect_sums(DataType type, Sum sum, const std::function<Number(std::mt19937_64&)>& any) {
  std::mt19937_64 random(3);
  const auto gap = any(random);
  for (Bytes cols = 0; cols < 70; ++cols) {
    Cells<Number> to(cols, cols + 3, gap);
    Cells<Number> from(cols, cols + 1, gap);
    for (Bytes i = 0; i < kRows; ++i)
      for (Bytes j = 0; j < cols; ++j) {
        to.numbers[i * to.stride + j] = any(random);
        from.numbers[i * from.stride + j] = any(random);
      }
    const auto before = to.numbers;
    add_rect(type, to.rect(), from.rect());
    for (Bytes i = 0; i < kRows; ++i)
      for (Bytes j = 0; j < to.stride; ++j) {
        const Number was = before[i * to.stride + j];
        const Number should = j < cols ? sum(was, from.numbers[i * from.stride + j]) : was;
        ASSERT_EQ(std::memcmp(&to.numbers[i * to.stride + j], &should, sizeof should), 0)
            << cols << " columns, row " << i << ", column " << j;
      }
  }
}

TEST(Sums, OfEachTypeAreRoundedOnce) {
  const auto real = [](std::mt19937_64& random) {
    return std::uniform_real_distribution<double>(-1e3, 1e3)(random);
  };
  expect_sums<double>({DataType::floating, 64, 1}, [](double a, double b) { return a + b; }, real);
  expect_sums<float>(
      {DataType::floating, 32, 1}, [](float a, float b) { return a + b; },
      [&](auto& random) { return static_cast<float>(real(random)); });
  expect_sums<std::uint16_t>(
      {DataType::floating, 16, 1},
      [](auto a, auto b) { return f16_of_float(float_of_f16(a) + float_of_f16(b)); },
      [&](auto& random) { return f16_of_float(static_cast<float>(real(random))); });
  expect_sums<std::uint16_t>(
      {DataType::bfloat, 16, 1},
      [](auto a, auto b) { return bf16_of_float(float_of_bf16(a) + float_of_bf16(b)); },
      [&](auto& random) { return bf16_of_float(static_cast<float>(real(random))); });
}

TEST(Sums, OfIntegersWrap) {
  expect_sums<std::uint32_t>(
      {DataType::signed_int, 32, 1}, [](auto a, auto b) { return a + b; },
      [](auto& random) { return static_cast<std::uint32_t>(random()); });
  expect_sums<std::uint64_t>(
      {DataType::signed_int, 64, 1}, [](auto a, auto b) { return a + b; },
      [](auto& random) { return random(); });
}

TEST(Rects, AreCopiedAndFilledWithoutTheirGaps) {
  for (const Bytes cols : {Bytes{0}, Bytes{1}, Bytes{7}, Bytes{64}}) {
    Cells<std::uint8_t> to(cols, cols + 5, 0x11);
    Cells<std::uint8_t> from(cols, cols, 0x22);
    const auto expect = [&](std::uint8_t inside) {
      for (Bytes i = 0; i < kRows; ++i)
        for (Bytes j = 0; j < to.stride; ++j)
          ASSERT_EQ(to.numbers[i * to.stride + j], j < cols ? inside : 0x11) << cols;
    };
    copy_rect(to.rect(), from.rect());
    expect(0x22);
    fill_rect(to.rect());
    expect(0);
  }
}

}  // namespace
}  // namespace gantry
