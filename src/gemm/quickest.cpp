#include "gemm/quickest.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>

#include "base/result.hpp"

namespace gantry {
namespace {

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
