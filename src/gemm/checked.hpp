#pragma once  // gemm/checked.hpp: what every library's products have in common.

#include <array>
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

}  // namespace gantry
