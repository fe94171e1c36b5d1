#include <algorithm>
#include <array>
#include <random>

#include "base/half_float.hpp"
#include "base/result.hpp"
#include "gemm/checked.hpp"

namespace gantry {
namespace {

struct Shape {
  std::int64_t m;
  std::int64_t n;
  std::int64_t k;
};
// Odd sides, as well as such that libraries cut into blocks; a k that they cut, too.
constexpr std::array kShapes = {Shape{64, 64, 64}, Shape{61, 53, 71}, Shape{37, 31, 1031}};
constexpr std::array<std::int64_t, 5> kPieces = {1, 3, 8, 17, 32};  // rows or columns

/// A product of random numbers with two results to compare.
class Trial {
 public:
  Trial(GemmLibrary& library, const DataType& type, Element element, const Shape& shape)
      : library_(library),
        type_(type),
        element_bytes_(static_cast<std::int64_t>(bytes_of(element))),
        shape_(shape),
        a_(random(shape.m * shape.k, element)),
        b_(random(shape.k * shape.n, element)),
        whole_(static_cast<std::size_t>(shape.m * shape.n * element_bytes_)),
        pieces_(whole_.size()) {}

  Result<void> multiply_whole() { return multiply(whole_, {0, shape_.m}, {0, shape_.n}); }

  /// Multiplies pieces of so many rows and columns, and compares with the whole.
  Result<bool> agrees(std::int64_t rows, std::int64_t cols) {
    std::ranges::fill(pieces_, std::byte{0xff});
    for (std::int64_t row = 0; row < shape_.m; row += rows)
      for (std::int64_t col = 0; col < shape_.n; col += cols)
        GANTRY_TRY(multiply(pieces_, {row, std::min(rows, shape_.m - row)},
                            {col, std::min(cols, shape_.n - col)}));
    return pieces_ == whole_;
  }
  [[nodiscard]] const Shape& shape() const noexcept { return shape_; }

 private:
  struct Part {
    std::int64_t first;
    std::int64_t count;
  };

  static std::vector<std::byte> random(std::int64_t count, Element element);

  Result<void> multiply(std::vector<std::byte>& to, Part rows, Part cols) {
    return library_.multiply(
        {.type = type_,
         .m = rows.count,
         .n = cols.count,
         .k = shape_.k,
         .a = a_.data() + rows.first * shape_.k * element_bytes_,
         .a_stride = shape_.k,
         .b = b_.data() + cols.first * element_bytes_,
         .b_stride = shape_.n,
         .c = to.data() + (rows.first * shape_.n + cols.first) * element_bytes_,
         .c_stride = shape_.n});
  }

  GemmLibrary& library_;
  const DataType& type_;
  std::int64_t element_bytes_;
  Shape shape_;
  std::vector<std::byte> a_;
  std::vector<std::byte> b_;
  std::vector<std::byte> whole_;
  std::vector<std::byte> pieces_;
};

template <class T>
void put(std::vector<std::byte>& bytes, std::int64_t index, T value) {
  std::memcpy(bytes.data() + index * static_cast<std::int64_t>(sizeof value), &value, sizeof value);
}

void put_as(std::vector<std::byte>& bytes, std::int64_t index, Element element, double value) {
  switch (element) {
    case Element::f64:
      return put(bytes, index, value);
    case Element::f32:
      return put(bytes, index, static_cast<float>(value));
    case Element::f16:
      return put(bytes, index, f16_of_float(static_cast<float>(value)));
    case Element::bf16:
      return put(bytes, index, bf16_of_float(static_cast<float>(value)));
    case Element::i32:
      return put(bytes, index, static_cast<std::int32_t>(value * 1e9));
    case Element::i64:
      return put(bytes, index, static_cast<std::int64_t>(value * 1e18));
  }
}

// Between -1 and 1, with all of their digits: sums in another order round otherwise.
std::vector<std::byte> Trial::random(std::int64_t count, Element element) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(count) * bytes_of(element));
  std::minstd_rand numbers(7);
  std::uniform_real_distribution<double> distribution(-1, 1);
  for (std::int64_t i = 0; i < count; ++i) put_as(bytes, i, element, distribution(numbers));
  return bytes;
}

Result<void> probe(Trial& trial, GemmBits& bits) {
  const auto [m, n, k] = trial.shape();
  GANTRY_TRY(trial.multiply_whole());
  GANTRY_ASSIGN(const bool repeats, trial.agrees(m, n));
  bits.repeats = bits.repeats && repeats;
  for (const std::int64_t piece : kPieces) {
    if (bits.rows_keep) {
      GANTRY_ASSIGN(bits.rows_keep, trial.agrees(piece, n));
    }
    if (bits.columns_keep) {
      GANTRY_ASSIGN(bits.columns_keep, trial.agrees(m, piece));
    }
  }
  return {};
}

}  // namespace

Result<GemmBits> probe_gemm(GemmLibrary& library, const DataType& type) {
  const auto element = element_of(type);
  if (!element || !library.takes(type))
    return fail(Code::unsupported, fmt::format("gemm: {} does not multiply {}",
                                               library.facts().library, text_of(type)));
  GemmBits bits{true, true, true};
  for (const Shape& shape : kShapes) {
    Trial trial(library, type, *element, shape);
    GANTRY_TRY(probe(trial, bits));
  }
  return bits;
}

}  // namespace gantry
