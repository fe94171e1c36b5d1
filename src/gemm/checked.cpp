#include "gemm/checked.hpp"

#include "base/result.hpp"

namespace gantry {
namespace {

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

}  // namespace

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

}  // namespace gantry
