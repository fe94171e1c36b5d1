#include <gantry/gemm.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>
#include <map>
#include <mutex>

#include "core/base/result.hpp"
#include "ranks/gemm/libraries.hpp"

namespace gantry {
namespace {

constexpr unsigned kMostThreads = 1024;

struct GemmMaker {
  std::string_view name;
  Result<std::shared_ptr<GemmLibrary>> (*make)(unsigned threads);
};

// In the order of preference. The last one takes every type and is there everywhere.
constexpr std::array kGemmMakers = {
    GemmMaker{"openblas", make_openblas_gemm},
    GemmMaker{"onednn", make_onednn_gemm},
    GemmMaker{"builtin", [](unsigned) { return make_builtin_gemm(); }},
};

Result<std::shared_ptr<GemmLibrary>> open_named(const GemmOptions& options) {
  std::string names;
  for (const GemmMaker& maker : kGemmMakers) {
    if (maker.name == options.library) return maker.make(options.threads);
    names += (names.empty() ? "" : ", ") + std::string(maker.name);
  }
  return fail(Code::not_found, fmt::format("gemm: library '{}': there is none", options.library),
              "the libraries are " + names);
}

/// What was measured in this process.
struct Measured {
  struct Key {
    std::string library;
    unsigned threads;
    Element element;
    auto operator<=>(const Key&) const = default;
  };
  std::mutex mutex;
  std::map<Key, double> seconds;
};

std::shared_ptr<GemmLibrary> open_quickest(Measured& measured, unsigned threads) {
  const std::lock_guard lock(measured.mutex);
  std::vector<std::shared_ptr<GemmLibrary>> usable;
  for (const GemmMaker& maker : kGemmMakers)
    if (auto made = maker.make(threads)) usable.push_back(std::move(*made));
  return quickest_gemm(usable, [&](GemmLibrary& library, Element element) {
    const auto [at, is_new] =
        measured.seconds.try_emplace({library.facts().library, threads, element});
    if (is_new) at->second = measure_gemm(library, element);
    return at->second;
  });
}

std::string about(const GemmFacts& facts) {
  return fmt::format("{}{}kernels: {}", facts.version, facts.version.empty() ? "" : ", ",
                     facts.core);
}

struct ElementRow {
  Element element;
  std::string_view name;
  DataType type;
};
constexpr std::array kElements = {
    ElementRow{Element::f64, "f64", {DataType::floating, 64, 1}},
    ElementRow{Element::f32, "f32", {DataType::floating, 32, 1}},
    ElementRow{Element::f16, "f16", {DataType::floating, 16, 1}},
    ElementRow{Element::bf16, "bf16", {DataType::bfloat, 16, 1}},
    ElementRow{Element::i32, "i32", {DataType::signed_int, 32, 1}},
    ElementRow{Element::i64, "i64", {DataType::signed_int, 64, 1}},
};

const ElementRow& row_of(Element element) noexcept {
  return kElements[static_cast<std::size_t>(element)];
}

tl::unexpected<Error> wrong(std::string what, std::string hint = {}) {
  return fail(Code::invalid_argument, "gemm: " + std::move(what), std::move(hint));
}

struct Matrix {
  std::string_view name;
  const std::byte* data;
  std::int64_t rows;
  std::int64_t cols;
  std::int64_t stride;
};

// True if the bytes from its first element to its last one can be counted.
bool is_countable(const Matrix& matrix, std::int64_t element_bytes) noexcept {
  std::int64_t last = 0;
  return !__builtin_mul_overflow(matrix.rows - 1, matrix.stride, &last) &&
         !__builtin_add_overflow(last, matrix.cols, &last) &&
         !__builtin_mul_overflow(last, element_bytes, &last);
}

Result<void> check_matrix(const Matrix& matrix, Bytes element_bytes) {
  const auto& [name, data, rows, cols, stride] = matrix;
  if (rows == 0 || cols == 0) return {};
  if (data == nullptr) return wrong(fmt::format("{} of {} x {} is null", name, rows, cols));
  if (std::bit_cast<std::uintptr_t>(data) % element_bytes != 0)
    return wrong(fmt::format("{} is misaligned", name),
                 fmt::format("give it an address that {} divides", element_bytes));
  if (stride < cols)
    return wrong(fmt::format("{} of {} x {} has a stride of {}", name, rows, cols, stride),
                 "a stride counts elements and is at least as long as a row");
  if (!is_countable(matrix, static_cast<std::int64_t>(element_bytes)))
    return wrong(
        fmt::format("{} of {} x {}, stride {}, is beyond all memory", name, rows, cols, stride));
  return {};
}

Result<void> check(const Gemm& product, Bytes element_bytes) {
  const auto& [type, m, n, k, a, a_stride, b, b_stride, c, c_stride, adds] = product;
  if (m < 0 || n < 0 || k < 0)
    return wrong(fmt::format("{} x {} times {} x {}: a side is negative", m, k, k, n));
  GANTRY_TRY(check_matrix({"a", a, m, k, a_stride}, element_bytes));
  GANTRY_TRY(check_matrix({"b", b, k, n, b_stride}, element_bytes));
  return check_matrix({"c", c, m, n, c_stride}, element_bytes);
}

void clear(const Gemm& product, Bytes element_bytes) {
  for (std::int64_t row = 0; row < product.m; ++row)
    std::memset(product.c + row * product.c_stride * static_cast<std::int64_t>(element_bytes), 0,
                static_cast<Bytes>(product.n) * element_bytes);
}

constexpr std::int64_t kSide = 192;
constexpr double kFlops = 2.0 * kSide * kSide * kSide;
constexpr double kClearlyLess = 1 / 1.1;
constexpr int kRounds = 4;
constexpr double kBudgetSeconds = 1.5e-3;  // of a library and type; a round may be longer
constexpr double kNever = std::numeric_limits<double>::infinity();

double seconds_of(GemmLibrary& library, const Gemm& product) {
  const auto begin = std::chrono::steady_clock::now();
  if (!library.multiply(product)) return kNever;
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

struct Candidate {
  std::shared_ptr<GemmLibrary> library;
  double seconds = 0;
};

/// Who computes products of a type, and what it was compared with.
struct Choice {
  std::shared_ptr<GemmLibrary> library;
  std::string why;
};

std::string speed_text(const Candidate& one) {
  return fmt::format("{} {:.3g}", one.library->facts().library, kFlops / one.seconds * 1e-9);
}

// "openblas 47.1 GFLOP/s, onednn 46, builtin 9.8"
std::string text_of(const std::vector<Candidate>& candidates, const Candidate& best) {
  if (candidates.size() == 1) return best.library->facts().library;
  std::string text = speed_text(best) + " GFLOP/s";
  for (const Candidate& one : candidates)
    if (&one != &best) text += ", " + speed_text(one);
  return text;
}

Choice choose(const std::vector<std::shared_ptr<GemmLibrary>>& libraries, Element element,
              const GemmMeasure& measure) {
  std::vector<Candidate> candidates;
  for (const auto& library : libraries)
    if (library->takes(type_of(element))) candidates.push_back({library, 0});
  if (candidates.size() > 1)
    for (Candidate& one : candidates) one.seconds = measure(*one.library, element);
  const Candidate* best = &candidates.front();
  for (const Candidate& one : candidates)
    if (one.seconds < best->seconds * kClearlyLess) best = &one;
  return {best->library, text_of(candidates, *best)};
}

class QuickestGemm final : public GemmLibrary {
 public:
  using Choices = std::array<Choice, kAllElements.size()>;

  explicit QuickestGemm(Choices choices)
      : choices_(std::move(choices)), facts_(choice_for(Element::f32).library->facts()) {
    facts_.why = "quickest here at 192 x 192 x 192";
    for (const Element element : kAllElements)
      facts_.why += fmt::format("; {}: {}", to_string(element), choice_for(element).why);
  }

  [[nodiscard]] const GemmFacts& facts() const noexcept override { return facts_; }
  [[nodiscard]] bool takes(const DataType& type) const noexcept override {
    return element_of(type).has_value();
  }
  [[nodiscard]] Result<void> multiply(const Gemm& product) override {
    // A type that is none is refused by whichever.
    const Element element = element_of(product.type).value_or(Element::f32);
    return choice_for(element).library->multiply(product);
  }

 private:
  const Choice& choice_for(Element element) const noexcept {
    return choices_[static_cast<std::size_t>(element)];
  }

  Choices choices_;
  GemmFacts facts_;
};

}  // namespace

GemmLibrary::~GemmLibrary() = default;

Result<std::shared_ptr<GemmLibrary>> open_gemm(const GemmOptions& options) {
  if (options.threads == 0 || options.threads > kMostThreads)
    return fail(Code::invalid_argument, fmt::format("gemm: {} threads", options.threads),
                fmt::format("ask for 1 to {}", kMostThreads));
  if (!options.library.empty()) return open_named(options);
  static Measured measured;
  return open_quickest(measured, options.threads);
}

std::vector<EngineStatus> list_gemm_libraries() {
  std::vector<EngineStatus> all;
  for (const GemmMaker& maker : kGemmMakers) {
    const auto made = maker.make(kAnyThreads);
    if (made)
      all.push_back({std::string(maker.name), true, about((*made)->facts()), {}});
    else
      all.push_back({std::string(maker.name), false, made.error().message, made.error().hint});
  }
  return all;
}

// ---- what every library's products have in common ---------------------------------------------

std::optional<Element> element_of(const DataType& type) noexcept {
  for (const ElementRow& one : kElements)
    if (one.type == type) return one.element;
  return std::nullopt;
}

DataType type_of(Element element) noexcept {
  return row_of(element).type;
}

Bytes bytes_of(Element element) noexcept {
  return row_of(element).type.bits / 8u;
}

std::string_view to_string(Element element) noexcept {
  return row_of(element).name;
}

std::string text_of(const DataType& type) {
  if (const auto element = element_of(type)) return std::string(to_string(*element));
  return fmt::format("code {}, {} bits, {} lanes", type.code, type.bits, type.lanes);
}

bool CheckedGemm::takes(const DataType& type) const noexcept {
  const auto element = element_of(type);
  return element && takes_element(*element);
}

Result<void> CheckedGemm::multiply(const Gemm& product) {
  const auto element = element_of(product.type);
  if (!element || !takes_element(*element))
    return fail(Code::unsupported,
                fmt::format("gemm: {} does not multiply {}", facts_.library, text_of(product.type)),
                "open the library `builtin`, or none by name");
  GANTRY_TRY(check(product, bytes_of(*element)));
  if (product.m == 0 || product.n == 0) return {};
  if (product.k > 0) return compute(product, *element);
  if (!product.adds) clear(product, bytes_of(*element));
  return {};
}

// ---- the quickest -----------------------------------------------------------------------------

double measure_gemm(GemmLibrary& library, Element element) {
  const Bytes bytes = static_cast<Bytes>(kSide * kSide) * bytes_of(element);
  std::vector<std::uint64_t> memory(3 * bytes / sizeof(std::uint64_t));
  auto* const at = reinterpret_cast<std::byte*>(memory.data());
  const Gemm product{.type = type_of(element),
                     .m = kSide,
                     .n = kSide,
                     .k = kSide,
                     .a = at,
                     .a_stride = kSide,
                     .b = at + bytes,
                     .b_stride = kSide,
                     .c = at + 2 * bytes,
                     .c_stride = kSide};
  // The first one does not count: it may have to make its code or its buffers.
  if (seconds_of(library, product) == kNever) return kNever;
  double best = kNever;
  double spent = 0;
  for (int round = 0; round < kRounds && spent < kBudgetSeconds; ++round) {
    const double seconds = seconds_of(library, product);
    best = std::min(best, seconds);
    spent += seconds;
  }
  return best;
}

std::shared_ptr<GemmLibrary> quickest_gemm(
    const std::vector<std::shared_ptr<GemmLibrary>>& libraries, const GemmMeasure& measure) {
  QuickestGemm::Choices choices;
  for (const Element element : kAllElements)
    choices[static_cast<std::size_t>(element)] = choose(libraries, element, measure);
  return std::make_shared<QuickestGemm>(std::move(choices));
}

}  // namespace gantry
