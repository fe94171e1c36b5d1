// Opening, choosing and probing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <limits>

#include "core/base/result.hpp"
#include "ranks/gemm/libraries.hpp"
#include "ranks/gemm/library_file.hpp"
#include "ranks/gemm/test_bits.hpp"

namespace gantry {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr DataType kF64{DataType::floating, 64, 1};
constexpr DataType kF32{DataType::floating, 32, 1};

std::size_t threads_here() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return static_cast<std::size_t>(std::distance(begin(tasks), end(tasks)));
}

TEST(GemmLibraries, BadOptionsAreRefused) {
  const auto refusal = [](const GemmOptions& options) {
    const auto opened = open_gemm(options);
    return opened ? std::string("none") : to_string(opened.error());
  };
  EXPECT_EQ(refusal({.library = "mkl"}),
            "gemm: library 'mkl': there is none; the libraries are openblas, onednn, builtin");
  EXPECT_EQ(refusal({.threads = 0}), "gemm: 0 threads; ask for 1 to 1024");
  EXPECT_EQ(refusal({.library = "builtin", .threads = 1025}),
            "gemm: 1025 threads; ask for 1 to 1024");
}

TEST(GemmLibraries, WhatIsNotInstalledOrTooOldSaysSo) {
  const auto absent = LibraryFile::open("libnowhere.so.9", "nowhere", "apt install nowhere");
  ASSERT_FALSE(absent);
  EXPECT_EQ(absent.error().code, Code::unsupported);
  EXPECT_EQ(to_string(absent.error()),
            "gemm: nowhere: libnowhere.so.9 cannot be opened; apt install nowhere");
  const auto maths = LibraryFile::open("libm.so.6", "maths", "");
  ASSERT_TRUE(maths);
  EXPECT_FALSE(maths->is_ours());
  double (*found)(double) = nullptr;
  EXPECT_TRUE(maths->find("cos", found));
  EXPECT_EQ(found(0), 1);
  const auto lacking = maths->find("cblas_sgemm", found);
  ASSERT_FALSE(lacking);
  EXPECT_THAT(to_string(lacking.error()), HasSubstr("maths: its library has no cblas_sgemm"));
}

TEST(GemmLibraries, AreListedWithWhatTheyAre) {
  std::vector<std::string> names;
  for (const EngineStatus& status : list_gemm_libraries()) {
    names.push_back(status.name);
    EXPECT_EQ(status.usable, open_gemm({.library = status.name}).has_value()) << status.name;
    EXPECT_NE(status.why, "") << status.name;
    EXPECT_EQ(status.usable, status.mend.empty()) << status.name;
  }
  EXPECT_THAT(names, ElementsAre("openblas", "onednn", "builtin"));
}

TEST(GemmLibraries, ThatAreOpenedSayWhatTheyAre) {
  for (const std::string name : {"openblas", "onednn"}) {
    const auto opened = open_gemm({.library = name});
    if (!opened) continue;
    const GemmFacts& facts = (*opened)->facts();
    EXPECT_EQ(facts.library, name);
    EXPECT_THAT(facts.version, ::testing::MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+.*"));
    EXPECT_NE(facts.core, "");
    EXPECT_EQ(facts.threads, 1u);
  }
}

// 0: the process has as many threads as before.
int status_after_products() {
  const std::size_t before = threads_here();
  for (const std::string name : {"openblas", "onednn", "builtin"}) {
    const auto opened = open_gemm({.library = name});
    if (!opened) continue;
    if (measure_gemm(**opened, Element::f32) <= 0) return 1;  // large enough to be shared out
    if (threads_here() != before) return 2;
  }
  return 0;
}

TEST(GemmLibraries, WithOneThreadStartNoOthers) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // a process that has not loaded them
  EXPECT_EXIT(std::exit(status_after_products()), ::testing::ExitedWithCode(0), "");
}

TEST(GemmLibraries, OpenBlasHasOneNumberOfThreads) {
  auto two = open_gemm({.library = "openblas", .threads = 2});
  if (!two) GTEST_SKIP() << to_string(two.error());
  const auto one = open_gemm({.library = "openblas"});
  ASSERT_FALSE(one);
  EXPECT_EQ(one.error().code, Code::busy);
  EXPECT_THAT(to_string(one.error()), HasSubstr("openblas is open with threads = 2"));
  EXPECT_EQ(*two, must(open_gemm({.library = "openblas", .threads = 2})));
  EXPECT_TRUE(list_gemm_libraries().front().usable);
  // Who does not ask for it by name gets another one.
  EXPECT_THAT(must(open_gemm())->facts().why, Not(HasSubstr("openblas")));
  two->reset();
  EXPECT_EQ(must(open_gemm({.library = "openblas"}))->facts().threads, 1u);
}

TEST(GemmLibraries, OneDnnLeavesTheCallersNumberOfThreadsAlone) {
  const auto opened = open_gemm({.library = "onednn"});
  if (!opened) GTEST_SKIP() << to_string(opened.error());
  const auto file = LibraryFile::open("libdnnl.so.2", "onednn", "");
  ASSERT_TRUE(file);
  EXPECT_FALSE(file->is_ours());
  const auto open_mp = OpenMp::of(*file);
  if (!open_mp) GTEST_SKIP() << to_string(open_mp.error());
  open_mp->set_threads(3);
  EXPECT_GT(measure_gemm(**opened, Element::f32), 0);
  EXPECT_EQ(open_mp->get_threads(), 3);
  {
    const OpenMpLimit limit(*open_mp, 2);
    EXPECT_EQ(open_mp->get_threads(), 2);
  }
  EXPECT_EQ(open_mp->get_threads(), 3);
}

// ---- which one -------------------------------------------------------------------------------

/// Takes f32, and f64 if it is `wide`, and counts its products.
class CountingGemm final : public GemmLibrary {
 public:
  CountingGemm(std::string name, bool is_wide)
      : facts_{std::move(name), "1.2.3", "fancy", 1, {}}, is_wide_(is_wide) {}
  [[nodiscard]] const GemmFacts& facts() const noexcept override { return facts_; }
  [[nodiscard]] bool takes(const DataType& type) const noexcept override {
    return type == kF32 || (is_wide_ && type == kF64);
  }
  [[nodiscard]] Result<void> multiply(const Gemm&) override {
    ++products;
    return {};
  }
  int products = 0;

 private:
  GemmFacts facts_;
  bool is_wide_;
};

struct Choosing {
  std::shared_ptr<CountingGemm> first = std::make_shared<CountingGemm>("first", true);
  std::shared_ptr<CountingGemm> second = std::make_shared<CountingGemm>("second", false);
  std::vector<std::string> measured{};

  std::shared_ptr<GemmLibrary> choose(double first_ms, double second_ms) {
    const double builtin_ms = 9;
    return quickest_gemm(
        {first, second, must(make_builtin_gemm())},
        [&, first_ms, second_ms](GemmLibrary& library, Element element) {
          const std::string& name = library.facts().library;
          measured.push_back(name + " " + std::string(to_string(element)));
          return 1e-3 * (name == "first" ? first_ms : name == "second" ? second_ms : builtin_ms);
        });
  }
};

TEST(QuickestGemm, IsChosenForEachTypeAndSaysWhy) {
  Choosing choosing;
  const auto chosen = choosing.choose(2, 1);
  EXPECT_THAT(choosing.measured,
              ElementsAre("first f64", "builtin f64", "first f32", "second f32", "builtin f32"));
  EXPECT_TRUE(chosen->multiply({.type = kF32}));
  EXPECT_TRUE(chosen->multiply({.type = kF64}));
  EXPECT_EQ(choosing.first->products, 1);
  EXPECT_EQ(choosing.second->products, 1);
  for (const Element element : kAllElements) EXPECT_TRUE(chosen->takes(type_of(element)));
  EXPECT_EQ(chosen->facts().library, "second");
  EXPECT_EQ(chosen->facts().why,
            "quickest here at 192 x 192 x 192; f64: first 7.08 GFLOP/s, builtin 1.57; f32: second "
            "14.2 GFLOP/s, first 7.08, builtin 1.57; f16: builtin; bf16: builtin; i32: builtin; "
            "i64: builtin");
}

TEST(QuickestGemm, CloseCallsGoToTheFirst) {
  EXPECT_EQ(Choosing().choose(1.05, 1)->facts().library, "first");
  EXPECT_EQ(Choosing().choose(1.2, 1)->facts().library, "second");
  EXPECT_EQ(Choosing().choose(std::numeric_limits<double>::infinity(), 1)->facts().library,
            "second");
}

TEST(QuickestGemm, IsMeasuredOnce) {
  const auto one = must(open_gemm());
  EXPECT_EQ(one->facts().why, must(open_gemm())->facts().why);  // its figures would differ
  EXPECT_THAT(one->facts().why, AllOf(HasSubstr("builtin"), HasSubstr("f32: ")));
}

// ---- bits ------------------------------------------------------------------------------------

/// Changes a bit of products that are told by their number or shape.
class UnsteadyGemm final : public GemmLibrary {
 public:
  using IsOdd = bool (*)(int call, const Gemm& product);
  explicit UnsteadyGemm(IsOdd is_odd) : is_odd_(is_odd) {}
  [[nodiscard]] const GemmFacts& facts() const noexcept override { return builtin_->facts(); }
  [[nodiscard]] bool takes(const DataType& type) const noexcept override { return type == kF32; }
  [[nodiscard]] Result<void> multiply(const Gemm& product) override {
    GANTRY_TRY(builtin_->multiply(product));
    if (is_odd_(++calls_, product)) product.c[0] ^= std::byte{1};
    return {};
  }

 private:
  std::shared_ptr<GemmLibrary> builtin_ = must(make_builtin_gemm());
  IsOdd is_odd_;
  int calls_ = 0;
};

GemmBits bits_of(UnsteadyGemm::IsOdd is_odd) {
  UnsteadyGemm unsteady(is_odd);
  return must(probe_gemm(unsteady, kF32));
}

TEST(GemmProbe, SeesWhatDiffers) {
  EXPECT_FALSE(bits_of([](int call, const Gemm&) { return call % 2 == 1; }).repeats);
  // Pieces of 3, 7 ... rows: only such cuts as have none of them keep bits.
  const GemmBits rows = bits_of([](int, const Gemm& one) { return one.m % 4 == 3; });
  EXPECT_TRUE(rows.repeats);
  EXPECT_EQ(rows.column_grain, 1);
  EXPECT_EQ(rows.row_grain, 2);
  const GemmBits columns = bits_of([](int, const Gemm& one) { return one.n < 8 && one.n > 1; });
  EXPECT_EQ(columns.row_grain, 1);
  EXPECT_EQ(columns.column_grain, 24);
  const GemmBits none = bits_of([](int, const Gemm& one) { return one.m < 97 && one.m != 26; });
  EXPECT_TRUE(none.repeats);
  EXPECT_EQ(none.row_grain, 0);
}

TEST(GemmProbe, TheBuiltInOneKeepsBits) {
  const auto builtin = must(make_builtin_gemm());
  for (const Element element : kAllElements) {
    const GemmBits bits = must(probe_gemm(*builtin, type_of(element)));
    EXPECT_TRUE(bits.repeats) << to_string(element);
    EXPECT_EQ(bits.row_grain, 1) << to_string(element);
    EXPECT_EQ(bits.column_grain, 1) << to_string(element);
  }
  const auto refused = probe_gemm(*builtin, {DataType::floating, 8, 1});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::unsupported);
}

}  // namespace
}  // namespace gantry
