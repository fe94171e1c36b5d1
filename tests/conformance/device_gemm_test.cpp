#include <gmock/gmock.h>

#include <gantry/gemm.hpp>
#include <limits>
#include <random>

#include "core/base/test_effort.hpp"
#include "device_suite.hpp"
#include "ranks/gemm/test_bits.hpp"
#include "ranks/gemm/test_products.hpp"

// Products on every device: each element against sums of its own, and nothing else touched.
namespace gantry {
namespace {

using test::Guarded;
using test::Product;
using testing::HasSubstr;

// Beside sides of 0 and 1: primes, and what is just below, at and above the tiles of our kernels.
const test::Shape kShapes[] = {{0, 3, 5},   {3, 0, 5},     {3, 5, 0},    {1, 1, 1},
                               {7, 13, 1},  {1, 65, 17},   {63, 64, 16}, {64, 65, 15},
                               {65, 1, 33}, {97, 67, 101}, {193, 31, 8}};

class DeviceProducts : public DeviceConformance {
 protected:
  void SetUp() override {
    DeviceConformance::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    auto opened = open_gemm(device_);
    ASSERT_TRUE(opened) << to_string(opened.error());
    library_ = *opened;
  }

  [[nodiscard]] std::vector<Element> elements() const {
    std::vector<Element> all;
    for (const Element element : kAllElements)
      if (library_->takes(type_of(element))) all.push_back(element);
    return all;
  }

  DeviceBuffer upload(Guarded& matrix) {
    DeviceBuffer made = buffer(matrix.bytes().size());
    ok(compute_->copy_in(made, 0, matrix.bytes()));
    return made;
  }
  static DeviceMatrix place(const DeviceBuffer& buffer, Guarded& matrix) {
    return {&buffer, static_cast<Bytes>(Guarded::kMargin), matrix.stride()};
  }

  /// On the device, with all that surrounds the elements.
  void multiply(Product& product, bool adds) {
    const DeviceBuffer a = upload(product.a);
    const DeviceBuffer b = upload(product.b);
    const DeviceBuffer c = upload(product.c);
    ok(library_->multiply(*compute_, {.type = type_of(product.element),
                                      .m = product.shape.m,
                                      .n = product.shape.n,
                                      .k = product.shape.k,
                                      .a = place(a, product.a),
                                      .b = place(b, product.b),
                                      .c = place(c, product.c),
                                      .adds = adds}));
    ok(compute_->copy_out(c, 0, product.c.bytes()));
    ok(compute_->drain());
  }

  void expect_whole_numbers(const test::Shape& shape, Element element, std::int64_t gap,
                            bool adds) {
    Product product(shape, element, gap);
    std::uniform_int_distribution<int> numbers(-4, 4);
    product.a.fill([&] { return numbers(random_); });
    product.b.fill([&] { return numbers(random_); });
    adds ? product.c.fill([&] { return numbers(random_); }) : product.c.spoil();
    Product before = product;
    multiply(product, adds);
    std::vector<double> wanted = before.sums(adds);
    for (double& one : wanted) one = test::rounded(one, element);
    ASSERT_EQ(product.c.numbers(), wanted)
        << to_string(element) << ": " << shape.m << " x " << shape.n << " x " << shape.k << ", gap "
        << gap << ", adds " << adds;
    ASSERT_TRUE(product.c.is_guarded());
  }

  std::shared_ptr<DeviceGemmLibrary> library_;
  test::Random random_{1};
};
INSTANTIATE_TEST_SUITE_P(Devices, DeviceProducts, testing::ValuesIn(kDevices), device_name);

TEST_P(DeviceProducts, SayWhoComputesThem) {
  const GemmFacts& facts = library_->facts();
  const std::vector<Element> all(kAllElements.begin(), kAllElements.end());
  if (device_->facts().kind == DeviceKind::cpu) {
    const auto on_cpu = must(open_gemm());
    EXPECT_EQ(facts.library, on_cpu->facts().library);
    EXPECT_EQ(facts.core, on_cpu->facts().core);
    EXPECT_EQ(facts.why, on_cpu->facts().why);
    for (const Element element : all)
      EXPECT_EQ(library_->takes(type_of(element)), on_cpu->takes(type_of(element)))
          << to_string(element);
    return;
  }
  const bool has_library = device_->gemm_program().has_value();
  EXPECT_EQ(facts.library, has_library ? "cublas" : "gantry");
  EXPECT_EQ(facts.core, device_->facts().about);
  EXPECT_EQ(facts.why,
            has_library ? "the device's own library" : device_->gemm_program().error().message);
  std::vector<Element> wanted = all;
  if (device_->facts().kind == DeviceKind::cuda && !has_library)
    std::erase_if(wanted, [](Element element) { return bytes_of(element) <= 2; });
  EXPECT_EQ(elements(), wanted);
}

TEST_P(DeviceProducts, OfWholeNumbersAreExactAndTouchNothingElse) {
  for (const Element element : elements())
    for (const test::Shape& shape : kShapes)
      for (const std::int64_t gap : {0, 3})
        for (const bool adds : {false, true})
          ASSERT_NO_FATAL_FAILURE(expect_whole_numbers(shape, element, gap, adds));
}

TEST_P(DeviceProducts, OfRandomNumbersAreWithinTheBoundOfTheirRoundings) {
  for (const Element element : {Element::f64, Element::f32}) {
    Product product({67, 71, 259}, element, 1);
    std::normal_distribution<double> numbers;
    for (auto* const matrix : {&product.a, &product.b, &product.c})
      matrix->fill([&] { return numbers(random_); });
    Product magnitudes = product;
    for (auto* const matrix : {&magnitudes.a, &magnitudes.b, &magnitudes.c}) {
      const std::vector<double> all = matrix->numbers();
      matrix->fill([at = all.begin()]() mutable { return std::abs(*at++); });
    }
    const std::vector<double> wanted = product.sums(true);
    const std::vector<double> most = magnitudes.sums(true);
    multiply(product, true);
    const std::vector<double> seen = product.c.numbers();
    const double unit = element == Element::f64 ? 0x1p-52 : 0x1p-23;
    for (std::size_t i = 0; i < seen.size(); ++i)
      ASSERT_NEAR(seen[i], wanted[i], 262 * unit * most[i]) << to_string(element) << ", " << i;
  }
}

TEST_P(DeviceProducts, OfWholeIntegersWrapAround) {
  Product product({5, 6, 70}, Element::i32, 1);
  if (!library_->takes(type_of(product.element))) GTEST_SKIP() << "it takes no integers";
  std::vector<std::uint32_t> left(5 * 70);
  std::vector<std::uint32_t> right(70 * 6);
  const auto draw = [&](Guarded& matrix, std::vector<std::uint32_t>& values, int cols) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<std::uint32_t>(random_());
      const auto at = static_cast<std::int64_t>(i);
      std::memcpy(matrix.at(at / cols, at % cols), &values[i], sizeof values[i]);
    }
  };
  draw(product.a, left, 70);
  draw(product.b, right, 6);
  multiply(product, false);
  for (std::size_t i = 0; i < 5; ++i)
    for (std::size_t j = 0; j < 6; ++j) {
      std::uint32_t sum = 0;
      for (std::size_t p = 0; p < 70; ++p) sum += left[i * 70 + p] * right[p * 6 + j];
      std::uint32_t seen = 0;
      std::memcpy(&seen, product.c.at(static_cast<std::int64_t>(i), static_cast<std::int64_t>(j)),
                  sizeof seen);
      ASSERT_EQ(seen, sum) << i << ", " << j;
    }
}

TEST_P(DeviceProducts, ThatDoNotFitAreRefusedBeforeAnythingIsQueued) {
  const DeviceBuffer a = buffer(4 * 6 * 4);
  const DeviceBuffer b = buffer(6 * 5 * 4);
  const DeviceBuffer c = buffer(4 * 5 * 4);
  const DataType f32 = type_of(Element::f32);
  const DeviceGemm right{f32, 4, 5, 6, {&a, 0, 6}, {&b, 0, 5}, {&c, 0, 5}, false};
  ok(library_->multiply(*compute_, right));
  ok(compute_->drain());
  const auto refused = [&](auto change, Code code, const char* words) {
    DeviceGemm wrong = right;
    change(wrong);
    const Error error = error_of(library_->multiply(*compute_, wrong));
    EXPECT_EQ(error.code, code) << error.message;
    EXPECT_THAT(error.message, HasSubstr(words));
  };
  constexpr auto kWrong = Code::invalid_argument;
  refused([](auto& one) { one.m = 5; }, kWrong,
          "a of 5 x 6, stride 6, from byte 0 on, ends behind");
  refused([](auto& one) { one.a.offset = 4; }, kWrong, "ends behind its buffer of 96 bytes");
  refused([](auto& one) { one.b.stride = 6; }, kWrong, "b of 6 x 5, stride 6");
  refused([](auto& one) { one.b.stride = 4; }, kWrong, "b of 6 x 5 has a stride of 4");
  refused([](auto& one) { one.c.offset = 2; }, kWrong, "c begins at byte 2");
  refused([](auto& one) { one.c.offset = 1000; }, kWrong, "ends behind its buffer");
  refused([](auto& one) { one.c.buffer = nullptr; }, kWrong, "c is empty");
  refused([](auto& one) { one.n = -1; }, kWrong, "a side is negative");
  refused([](auto& one) { one.m = std::numeric_limits<std::int64_t>::max(); }, kWrong,
          "ends behind its buffer");
  refused([](auto& one) { one.type = {DataType::unsigned_int, 8, 1}; }, Code::unsupported,
          "does not multiply");
  ok(compute_->drain());
}

TEST_P(DeviceProducts, OnAQueueOfAnotherDeviceAreRefused) {
  auto other = GetParam().make(0);
  ASSERT_TRUE(other);
  const auto queue = (*other)->open_queue(QueueRole::compute);
  ASSERT_TRUE(queue);
  const DeviceBuffer all = buffer(4);
  const DeviceMatrix one{&all, 0, 1};
  EXPECT_EQ(
      error_of(library_->multiply(**queue, {type_of(Element::f32), 1, 1, 1, one, one, one})).code,
      Code::invalid_argument);
}

TEST_P(DeviceProducts, OfHostMemoryComeBackThere) {
  auto made = make_host_gemm(device_, library_);
  ASSERT_TRUE(made) << to_string(made.error());
  GemmLibrary& host = **made;
  for (const test::Shape& shape : {test::Shape{65, 33, 17}, test::Shape{3, 200, 5}})
    for (const bool adds : {false, true}) {
      Product product(shape, Element::f64, 2);
      std::uniform_int_distribution<int> numbers(-9, 9);
      for (auto* const matrix : {&product.a, &product.b, &product.c})
        matrix->fill([&] { return numbers(random_); });
      Product before = product;
      ok(host.multiply(product.gemm(adds)));
      ASSERT_EQ(product.c.numbers(), before.sums(adds));
      ASSERT_TRUE(product.c.is_guarded());
    }
}

// More rows than a launch takes, and a row whose stride is nobody's.
TEST_P(DeviceProducts, OfManyRowsAndOfOne) {
  Product many({(std::int64_t{1} << 21) + 3, 1, 2}, Element::f32);
  many.a.fill([&] { return random_() % 3; });
  many.b.fill([&] { return 1 + random_() % 3; });
  many.c.spoil();
  Product before = many;
  multiply(many, false);
  ASSERT_EQ(many.c.numbers(), before.sums(false));
  const DeviceBuffer all = zeros(16);
  constexpr std::int64_t kFar = std::int64_t{1} << 40;
  ok(library_->multiply(
      *compute_,
      {type_of(Element::f32), 1, 2, 1, {&all, 0, kFar}, {&all, 8, kFar}, {&all, 32, kFar}, false}));
  ok(compute_->drain());
}

// Whenever it happens, nothing is written to the caller's memory when multiply() has returned.
TEST_P(DeviceProducts, OfADeviceThatIsGivenUpLeaveTheCallersMemory) {
  for (int i = 0; i < 40; i += kTestStride) {
    auto device = GetParam().make(0);
    ASSERT_TRUE(device) << to_string(device.error());
    auto library = open_gemm(*device);
    ASSERT_TRUE(library) << to_string(library.error());
    auto host = make_host_gemm(*device, *library);
    ASSERT_TRUE(host) << to_string(host.error());
    Product product({700, 700, 4}, Element::f64);
    product.a.fill([] { return 1; });
    product.b.fill([] { return 1; });
    std::thread killer([&, pause = std::chrono::microseconds(random_() % 6000)] {
      std::this_thread::sleep_for(pause);  // any moment will do
      (*device)->abandon("as a test does");
    });
    const auto done = (*host)->multiply(product.gemm(false));
    product.c.spoil();
    const Guarded spoilt = product.c;
    killer.join();
    host->reset();
    library->reset();
    device->reset();
    for (int looks = 0; looks < 2000; ++looks) std::this_thread::yield();
    ASSERT_TRUE(product.c == spoilt) << "after " << (done ? "success" : to_string(done.error()));
  }
}

// Kernels of ours sum each element in one order, wherever its tile begins.
TEST_P(DeviceProducts, TellWhatCutsDoToTheirBits) {
  auto made = make_host_gemm(device_, library_);
  ASSERT_TRUE(made) << to_string(made.error());
  const auto bits = probe_gemm(**made, type_of(Element::f32));
  ASSERT_TRUE(bits) << to_string(bits.error());
  EXPECT_TRUE(bits->repeats);
  RecordProperty("row_grain", static_cast<int>(bits->row_grain));
  RecordProperty("column_grain", static_cast<int>(bits->column_grain));
  if (library_->facts().library != "gantry") return;
  EXPECT_EQ(bits->row_grain, 1);
  EXPECT_EQ(bits->column_grain, 1);
}

// ---- cuBLAS --------------------------------------------------------------------------------

TEST(DeviceGemmOfCuda, SaysWhatIsMissingAndUsesItsOwnKernels) {
  CudaDeviceOptions options = cuda_stub_options(0);
  options.products = "libcublas-that-there-is-not.so";
  const auto device = make_cuda_device(options);
  ASSERT_TRUE(device) << to_string(device.error());
  const auto program = (*device)->gemm_program();
  ASSERT_FALSE(program);
  EXPECT_EQ(program.error().code, Code::unsupported);
  EXPECT_THAT(program.error().hint, HasSubstr("apt install"));
  const auto library = open_gemm(*device);
  ASSERT_TRUE(library) << to_string(library.error());
  EXPECT_EQ((*library)->facts().library, "gantry");
  EXPECT_THAT((*library)->facts().why, HasSubstr("cannot be opened"));
  EXPECT_TRUE((*library)->takes(type_of(Element::i32)));
  EXPECT_FALSE((*library)->takes(type_of(Element::f16)));
}

TEST(DeviceGemmOfCuda, SaysWhichVersionComputes) {
  const auto device = make_cuda_device(cuda_stub_options(0));
  ASSERT_TRUE(device) << to_string(device.error());
  const auto library = open_gemm(*device);
  ASSERT_TRUE(library) << to_string(library.error());
  EXPECT_EQ((*library)->facts().library, "cublas");
  EXPECT_EQ((*library)->facts().version, "cuBLAS 13.1.0");
  const auto program = (*device)->gemm_program();
  ASSERT_TRUE(program);
  EXPECT_EQ(program->kernel("i8").error().code, Code::not_found);
}

TEST(DeviceGemm, NeedsADevice) {
  EXPECT_EQ(open_gemm(std::shared_ptr<Device>()).error().code, Code::invalid_argument);
  EXPECT_EQ(make_host_gemm(nullptr, nullptr).error().code, Code::invalid_argument);
}

}  // namespace
}  // namespace gantry
