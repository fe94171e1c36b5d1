#pragma once  // gemm/test_products.hpp: products with guards around them, and what they come to.

#include <algorithm>
#include <cmath>
#include <random>
#include <span>
#include <vector>

#include "core/base/half_float.hpp"
#include "ranks/gemm/libraries.hpp"

namespace gantry::test {

using Random = std::mt19937_64;

struct Shape {
  std::int64_t m;
  std::int64_t n;
  std::int64_t k;
};

/// An element as a number: what is beyond 53 bits is not compared by it.
inline double number_at(const std::byte* at, Element element) {
  const auto load = [at]<class T>(T value) {
    std::memcpy(&value, at, sizeof value);
    return value;
  };
  switch (element) {
    case Element::f64:
      return load(double{});
    case Element::f32:
      return load(float{});
    case Element::f16:
      return float_of_f16(load(std::uint16_t{}));
    case Element::bf16:
      return float_of_bf16(load(std::uint16_t{}));
    case Element::i32:
      return load(std::int32_t{});
    case Element::i64:
      break;
  }
  return static_cast<double>(load(std::int64_t{}));
}

inline void put_number(std::byte* at, Element element, double number) {
  const auto store = [at](auto value) { std::memcpy(at, &value, sizeof value); };
  switch (element) {
    case Element::f64:
      return store(number);
    case Element::f32:
      return store(static_cast<float>(number));
    case Element::f16:
      return store(f16_of_float(static_cast<float>(number)));
    case Element::bf16:
      return store(bf16_of_float(static_cast<float>(number)));
    case Element::i32:
      return store(static_cast<std::int32_t>(number));
    case Element::i64:
      return store(static_cast<std::int64_t>(number));
  }
}

/// As the type rounds it.
inline double rounded(double number, Element element) {
  alignas(8) std::byte bytes[8];
  put_number(bytes, element, number);
  return number_at(bytes, element);
}

/// Rows with gaps between them, within guards. Everything that is no element has kGuard in it.
class Guarded {
 public:
  static constexpr std::byte kGuard{0xa5};
  static constexpr std::int64_t kMargin = 64;  // bytes, before and behind

  Guarded(std::int64_t rows, std::int64_t cols, std::int64_t gap, Element element)
      : rows_(rows), cols_(cols), stride_(cols + gap), element_(element) {
    const std::int64_t bytes = rows * stride_ * size() + 2 * kMargin;
    words_.resize(static_cast<std::size_t>(bytes + 7) / 8, 0xa5a5a5a5a5a5a5a5u);
  }

  /// All of it, guards and gaps included; the first element lies kMargin bytes on.
  std::span<std::byte> bytes() { return std::as_writable_bytes(std::span(words_)); }
  std::byte* data() { return reinterpret_cast<std::byte*>(words_.data()) + kMargin; }
  std::byte* at(std::int64_t row, std::int64_t col) {
    return data() + (row * stride_ + col) * size();
  }
  double number(std::int64_t row, std::int64_t col) { return number_at(at(row, col), element_); }
  /// All elements, row by row.
  std::vector<double> numbers() {
    std::vector<double> all;
    for (std::int64_t row = 0; row < rows_; ++row)
      for (std::int64_t col = 0; col < cols_; ++col) all.push_back(number(row, col));
    return all;
  }
  [[nodiscard]] std::int64_t stride() const { return stride_; }
  [[nodiscard]] std::int64_t size() const { return static_cast<std::int64_t>(bytes_of(element_)); }

  /// Sets each element to the next of `numbers`.
  template <class Numbers>
  void fill(Numbers numbers) {
    for (std::int64_t row = 0; row < rows_; ++row)
      for (std::int64_t col = 0; col < cols_; ++col)
        put_number(at(row, col), element_, static_cast<double>(numbers()));
  }
  /// Sets each element to bits that no product may read.
  void spoil() {
    for (std::int64_t row = 0; row < rows_; ++row)
      std::memset(at(row, 0), 0xff, static_cast<std::size_t>(cols_ * size()));  // NaN
  }
  /// True if nothing but elements was written to.
  bool is_guarded() {
    Guarded copy = *this;
    for (std::int64_t row = 0; row < rows_; ++row)
      std::memset(copy.at(row, 0), 0xa5, static_cast<std::size_t>(cols_ * size()));
    return std::ranges::all_of(copy.words_, [](auto one) { return one == 0xa5a5a5a5a5a5a5a5u; });
  }
  friend bool operator==(const Guarded&, const Guarded&) = default;

 private:
  std::int64_t rows_;
  std::int64_t cols_;
  std::int64_t stride_;
  Element element_;
  std::vector<std::uint64_t> words_;
};

/// The three matrices of a product.
struct Product {
  Product(const Shape& wanted, Element type, std::int64_t gap = 0)
      : shape(wanted),
        element(type),
        a(shape.m, shape.k, gap, type),
        b(shape.k, shape.n, 2 * gap, type),
        c(shape.m, shape.n, 3 * gap, type) {}

  Gemm gemm(bool adds) {
    return {.type = type_of(element),
            .m = shape.m,
            .n = shape.n,
            .k = shape.k,
            .a = a.data(),
            .a_stride = a.stride(),
            .b = b.data(),
            .b_stride = b.stride(),
            .c = c.data(),
            .c_stride = c.stride(),
            .adds = adds};
  }

  /// a * b, or c + a * b, without any rounding if all numbers are small and whole.
  std::vector<double> sums(bool adds) {
    std::vector<double> all =
        adds ? c.numbers() : std::vector<double>(static_cast<std::size_t>(shape.m * shape.n));
    const std::vector<double> left = a.numbers();
    const std::vector<double> right = b.numbers();
    const double* from = left.data();
    for (std::int64_t i = 0; i < shape.m; ++i)
      for (std::int64_t p = 0; p < shape.k; ++p, ++from)
        for (std::int64_t j = 0; j < shape.n; ++j)
          all[static_cast<std::size_t>(i * shape.n + j)] +=
              *from * right[static_cast<std::size_t>(p * shape.n + j)];
    return all;
  }

  Shape shape;
  Element element;
  Guarded a;
  Guarded b;
  Guarded c;
};

}  // namespace gantry::test
