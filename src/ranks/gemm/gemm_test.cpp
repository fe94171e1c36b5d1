// Each library that is installed here, on each type, against sums in three loops.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <thread>

#include "ranks/gemm/test_products.hpp"

namespace gantry {
namespace {

using test::Product;
using test::Shape;
using ::testing::HasSubstr;

// Beside sides of 0 and 1: primes, and what is just below, at and above the blocks and tiles of the
// built-in one.
const Shape kShapes[] = {{0, 0, 0},      {0, 3, 5},      {3, 0, 5},      {3, 5, 0},
                         {1, 1, 1},      {1, 7, 13},     {7, 1, 13},     {7, 13, 1},
                         {2, 3, 5},      {4, 8, 16},     {5, 9, 17},     {31, 37, 41},
                         {63, 255, 257}, {64, 256, 256}, {65, 257, 511}, {129, 67, 101}};

class Products : public ::testing::TestWithParam<std::tuple<std::string, Element>> {
 protected:
  void SetUp() override {
    auto opened = open_gemm({.library = std::get<0>(GetParam())});
    if (!opened) GTEST_SKIP() << to_string(opened.error());
    library_ = *opened;
    ASSERT_TRUE(library_->takes(type_of(element())));
  }
  static Element element() { return std::get<1>(GetParam()); }
  void multiply(Product& product, bool adds = false) {
    const auto done = library_->multiply(product.gemm(adds));
    ASSERT_TRUE(done) << to_string(done.error());
  }

  std::shared_ptr<GemmLibrary> library_;
  test::Random random_{1};
};

std::string name_of_case(const ::testing::TestParamInfo<Products::ParamType>& info) {
  const auto& [library, element] = info.param;
  return (library.empty() ? "quickest" : library) + "_" + std::string(to_string(element));
}
INSTANTIATE_TEST_SUITE_P(OpenBlas, Products,
                         ::testing::Combine(::testing::Values("openblas"),
                                            ::testing::Values(Element::f64, Element::f32)),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(OneDnn, Products, ::testing::Values(std::tuple("onednn", Element::f32)),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(Own, Products,
                         ::testing::Combine(::testing::Values("builtin", ""),
                                            ::testing::ValuesIn(kAllElements)),
                         name_of_case);

void expect_exact(Product& product, Product& before, bool adds) {
  const auto& [m, n, k] = product.shape;
  std::vector<double> wanted = before.sums(adds);
  for (double& one : wanted) one = test::rounded(one, product.element);
  ASSERT_EQ(product.c.numbers(), wanted) << m << " x " << n << " x " << k << ", adds " << adds;
}

TEST_P(Products, OfWholeNumbersAreExactAndTouchNothingElse) {
  for (const Shape& shape : kShapes)
    for (const std::int64_t gap : {0, 1, 5})
      for (const bool adds : {false, true}) {
        Product product(shape, element(), gap);
        std::uniform_int_distribution<int> numbers(-4, 4);
        product.a.fill([&] { return numbers(random_); });
        product.b.fill([&] { return numbers(random_); });
        adds ? product.c.fill([&] { return numbers(random_); }) : product.c.spoil();
        Product before = product;
        multiply(product, adds);
        expect_exact(product, before, adds);
        ASSERT_TRUE(product.c.is_guarded());
        ASSERT_TRUE(product.a == before.a && product.b == before.b);
      }
}

// The unit of the last place of 1 in which a library may sum.
double unit_of_sum(Element element) {
  return element == Element::f64 ? 0x1p-52 : 0x1p-23;
}
double unit_of(Element element) {
  switch (element) {
    case Element::f16:
      return 0x1p-10;
    case Element::bf16:
      return 0x1p-7;
    default:
      return unit_of_sum(element);
  }
}

TEST_P(Products, OfRandomNumbersAreWithinTheBoundOfTheirRoundings) {
  for (const Shape& shape : {Shape{3, 5, 1009}, Shape{67, 71, 259}, Shape{130, 33, 64}})
    for (const bool adds : {false, true}) {
      Product product(shape, element(), 1);
      std::normal_distribution<double> numbers;
      for (auto* const matrix : {&product.a, &product.b, &product.c})
        matrix->fill([&] { return numbers(random_); });
      Product before = product;
      multiply(product, adds);
      for (std::int64_t i = 0; i < shape.m; ++i)
        for (std::int64_t j = 0; j < shape.n; ++j) {
          long double sum = adds ? before.c.number(i, j) : 0;
          long double magnitude = std::abs(sum);
          for (std::int64_t p = 0; p < shape.k; ++p) {
            const long double term =
                static_cast<long double>(product.a.number(i, p)) * product.b.number(p, j);
            sum += term;
            magnitude += std::abs(term);
          }
          const auto bound =
              static_cast<long double>(shape.k + 2) * unit_of_sum(element()) * magnitude +
              std::abs(sum) * unit_of(element());
          ASSERT_NEAR(product.c.number(i, j), static_cast<double>(sum), static_cast<double>(bound));
        }
    }
}

// Bits that are no sign of anything, in every place.
void spread(test::Guarded& matrix, std::int64_t rows, std::int64_t cols, test::Random& random) {
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < cols; ++j) {
      const std::uint64_t bits = random();
      std::memcpy(matrix.at(i, j), &bits, static_cast<std::size_t>(matrix.size()));
    }
}
std::uint64_t bits_at(test::Guarded& matrix, std::int64_t i, std::int64_t j) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, matrix.at(i, j), static_cast<std::size_t>(matrix.size()));
  return bits;
}

TEST(GemmOfIntegers, WrapsAround) {
  test::Random random(1);
  for (const Element element : {Element::i32, Element::i64}) {
    Product product({11, 13, 300}, element, 1);
    spread(product.a, 11, 300, random);
    spread(product.b, 300, 13, random);
    spread(product.c, 11, 13, random);
    Product before = product;
    ASSERT_TRUE(must(open_gemm({.library = "builtin"}))->multiply(product.gemm(true)));
    for (std::int64_t i = 0; i < 11; ++i)
      for (std::int64_t j = 0; j < 13; ++j) {
        std::uint64_t sum = bits_at(before.c, i, j);
        for (std::int64_t p = 0; p < 300; ++p)
          sum += bits_at(product.a, i, p) * bits_at(product.b, p, j);
        ASSERT_EQ(bits_at(product.c, i, j), element == Element::i32 ? sum & 0xffffffffu : sum);
      }
  }
}

/// Memory that ends where nothing may be read.
class AtTheEdge {
 public:
  explicit AtTheEdge(std::int64_t bytes)
      : room_((static_cast<std::size_t>(bytes) / kPage + 1) * kPage),
        size_(static_cast<std::size_t>(bytes)),
        memory_(::mmap(nullptr, room_ + kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                       -1, 0)) {
    EXPECT_NE(memory_, MAP_FAILED);
    EXPECT_EQ(::mprotect(static_cast<std::byte*>(memory_) + room_, kPage, PROT_NONE), 0);
  }
  AtTheEdge(const AtTheEdge&) = delete;
  AtTheEdge& operator=(const AtTheEdge&) = delete;
  ~AtTheEdge() { ::munmap(memory_, room_ + kPage); }
  std::byte* data() { return static_cast<std::byte*>(memory_) + room_ - size_; }

 private:
  static constexpr std::size_t kPage = std::size_t{64} << 10;  // of any machine
  std::size_t room_;
  std::size_t size_;
  void* memory_;
};

TEST_P(Products, ReadNothingBehindTheirMatrices) {
  const auto bytes = static_cast<std::int64_t>(bytes_of(element()));
  for (const auto& [m, n, k] : {Shape{1, 1, 1}, Shape{5, 9, 7}, Shape{65, 257, 31}}) {
    AtTheEdge a(m * k * bytes);
    AtTheEdge b(k * n * bytes);
    AtTheEdge c(m * n * bytes);
    for (std::int64_t i = 0; i < m * k; ++i) test::put_number(a.data() + i * bytes, element(), 1);
    for (std::int64_t i = 0; i < k * n; ++i) test::put_number(b.data() + i * bytes, element(), 2);
    ASSERT_TRUE(library_->multiply({.type = type_of(element()),
                                    .m = m,
                                    .n = n,
                                    .k = k,
                                    .a = a.data(),
                                    .a_stride = k,
                                    .b = b.data(),
                                    .b_stride = n,
                                    .c = c.data(),
                                    .c_stride = n,
                                    .adds = true}));
    for (std::int64_t i = 0; i < m * n; ++i)
      ASSERT_EQ(test::number_at(c.data() + i * bytes, element()), 2.0 * static_cast<double>(k));
  }
}

TEST_P(Products, OfSeveralThreadsDoNotMix) {
  constexpr int kTimes = 20;
  const auto work = [&](int seed, bool& is_right) {
    test::Random random(static_cast<unsigned>(seed));
    std::uniform_int_distribution<int> numbers(-3, 3);
    is_right = true;
    for (int time = 0; time < kTimes; ++time) {
      Product product({40 + seed, 50, 60 + seed}, element(), 1);
      product.a.fill([&] { return numbers(random); });
      product.b.fill([&] { return numbers(random); });
      is_right = is_right && library_->multiply(product.gemm(false));
      const std::vector<double> wanted = product.sums(false);
      is_right =
          is_right && std::ranges::equal(product.c.numbers(), wanted, [](double got, double sum) {
            return got == test::rounded(sum, element());
          });
    }
  };
  bool is_right[2] = {};
  std::thread other([&] { work(1, is_right[1]); });
  work(0, is_right[0]);
  other.join();
  EXPECT_TRUE(is_right[0]);
  EXPECT_TRUE(is_right[1]);
}

TEST_P(Products, WithBadArgumentsAreRefusedAndTouchNothing) {
  Product product({3, 4, 5}, element(), 1);
  product.a.fill([] { return 1; });
  product.b.fill([] { return 1; });
  product.c.fill([] { return 7; });
  const Product before = product;
  const auto refusal = [&](auto change) {
    Gemm gemm = product.gemm(false);
    change(gemm);
    const auto done = library_->multiply(gemm);
    return done ? std::string("none") : to_string(done.error());
  };
  constexpr std::int64_t kHuge = std::int64_t{1} << 62;
  EXPECT_THAT(refusal([](Gemm& one) { one.m = -1; }), HasSubstr("-1 x 5 times 5 x 4"));
  EXPECT_THAT(refusal([](Gemm& one) { one.k = -1; }), HasSubstr("a side is negative"));
  EXPECT_THAT(refusal([](Gemm& one) { one.a = nullptr; }), HasSubstr("a of 3 x 5 is null"));
  EXPECT_THAT(refusal([](Gemm& one) { one.b = nullptr; }), HasSubstr("b of 5 x 4 is null"));
  EXPECT_THAT(refusal([](Gemm& one) { one.c = nullptr; }), HasSubstr("c of 3 x 4 is null"));
  EXPECT_THAT(refusal([](Gemm& one) { one.a_stride = 4; }),
              HasSubstr("a of 3 x 5 has a stride of 4"));
  EXPECT_THAT(refusal([](Gemm& one) { one.b_stride = 3; }),
              HasSubstr("b of 5 x 4 has a stride of 3"));
  EXPECT_THAT(refusal([](Gemm& one) { one.c_stride = -9; }), HasSubstr("a stride of -9"));
  EXPECT_THAT(refusal([](Gemm& one) { one.a += 1; }), HasSubstr("a is misaligned"));
  EXPECT_THAT(refusal([](Gemm& one) { one.c_stride = kHuge; }), HasSubstr("beyond all memory"));
  EXPECT_THAT(refusal([](Gemm& one) { one.c_stride = kHuge / 2; }), HasSubstr("beyond all"));
  EXPECT_THAT(refusal([](Gemm& one) { one.k = one.a_stride = kHuge; }), HasSubstr("beyond all"));
  EXPECT_THAT(refusal([](Gemm& one) { one.type = {DataType::unsigned_int, 8, 1}; }),
              HasSubstr("does not multiply code 1, 8 bits, 1 lanes"));
  EXPECT_THAT(refusal([](Gemm& one) { one.type.lanes = 2; }), HasSubstr("2 lanes"));
  EXPECT_TRUE(product.c == before.c);
}

TEST_P(Products, WhatIsEmptyMayBeNull) {
  for (const Shape& shape : {Shape{0, 4, 5}, Shape{4, 0, 5}, Shape{0, 0, 0}}) {
    const Gemm gemm{.type = type_of(element()), .m = shape.m, .n = shape.n, .k = shape.k};
    Gemm rest = gemm;  // a or b is not empty
    Product product({4, 4, 5}, element());
    rest.a = product.a.data(), rest.a_stride = 5;
    rest.b = product.b.data(), rest.b_stride = 4;
    EXPECT_TRUE(library_->multiply(rest));
  }
}

}  // namespace
}  // namespace gantry
