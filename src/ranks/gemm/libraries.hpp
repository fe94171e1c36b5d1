#pragma once  // gemm/libraries.hpp: the libraries that compute products, and the choice among them.

#include <array>
#include <functional>
#include <gantry/gemm.hpp>
#include <optional>

namespace gantry {

enum class Element : std::uint8_t { f64, f32, f16, bf16, i32, i64 };
inline constexpr std::array kAllElements = {Element::f64,  Element::f32, Element::f16,
                                            Element::bf16, Element::i32, Element::i64};
[[nodiscard]] std::optional<Element> element_of(const DataType& type) noexcept;
[[nodiscard]] DataType type_of(Element element) noexcept;
[[nodiscard]] Bytes bytes_of(Element element) noexcept;
[[nodiscard]] std::string_view to_string(Element element) noexcept;
/// "f32", or in numbers what is none of ours.
[[nodiscard]] std::string text_of(const DataType& type);

/// A library that is handed nothing but products that can be computed: sides of at least 1, sound
/// places, a type that it takes.
class CheckedGemm : public GemmLibrary {
 public:
  explicit CheckedGemm(GemmFacts facts) : facts_(std::move(facts)) {}

  [[nodiscard]] const GemmFacts& facts() const noexcept final { return facts_; }
  [[nodiscard]] bool takes(const DataType& type) const noexcept final;
  [[nodiscard]] Result<void> multiply(const Gemm& product) final;

 protected:
  [[nodiscard]] virtual bool takes_element(Element element) const noexcept = 0;
  [[nodiscard]] virtual Result<void> compute(const Gemm& product, Element element) = 0;

 private:
  GemmFacts facts_;
};

/// Sums each element in an order that depends on k alone, so it repeats bits, and so do pieces of
/// rows or columns.
[[nodiscard]] Result<std::shared_ptr<GemmLibrary>> make_builtin_gemm();

/// Errors: `unsupported`.
[[nodiscard]] Result<std::shared_ptr<GemmLibrary>> make_onednn_gemm(unsigned threads);

/// As many threads as it is open with; 1 if it is not.
inline constexpr unsigned kAnyThreads = 0;

/// OpenBLAS has one number of threads for the process: all that is open at a time has the same one.
/// Errors: `unsupported`, `busy` (it is open with another number).
[[nodiscard]] Result<std::shared_ptr<GemmLibrary>> make_openblas_gemm(unsigned threads);

/// Returns the seconds of a product; all products of a type that it is asked for are the same.
using GemmMeasure = std::function<double(GemmLibrary& library, Element element)>;
/// Multiplies squares of 192, a few milliseconds long. Infinity: the library failed.
[[nodiscard]] double measure_gemm(GemmLibrary& library, Element element);

/// Takes for each type the first of `libraries` that has it, or one of the later ones that is
/// quicker by more than a tenth: close calls end alike everywhere. `libraries` is not empty, and
/// the last one takes every type. A type that only one has is not measured.
[[nodiscard]] std::shared_ptr<GemmLibrary> quickest_gemm(
    const std::vector<std::shared_ptr<GemmLibrary>>& libraries, const GemmMeasure& measure);

}  // namespace gantry
