#include "ranks/gemm/test_bits.hpp"

#include <algorithm>
#include <array>
#include <random>

#include "core/base/half_float.hpp"
#include "core/base/result.hpp"
#include "ranks/gemm/libraries.hpp"

namespace gantry {
namespace {

struct Shape {
  std::int64_t m;
  std::int64_t n;
  std::int64_t k;
};
// Between them they refute what OpenBLAS 0.3.21 and oneDNN 2.6.3 do not grant at other shapes.
constexpr std::array kShapes = {Shape{26, 19, 1031}, Shape{97, 97, 97}, Shape{128, 8, 512}};
// Sizes of the tiles in which libraries compute, and their parts.
constexpr std::array<std::int64_t, 12> kGrains = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 60};
// The sizes of pieces in grains, one after another and then again from the first.
constexpr std::array<std::array<std::int64_t, 2>, 3> kCuts = {{{1, 1}, {2, 1}, {3, 3}}};

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
  Result<bool> repeats() {
    spoil();
    GANTRY_TRY(multiply(pieces_, {0, shape_.m}, {0, shape_.n}));
    return pieces_ == whole_;
  }

  /// True if pieces of so many rows, or columns, have the bits of the whole.
  Result<bool> keeps(bool is_by_rows, const std::array<std::int64_t, 2>& sizes) {
    spoil();
    const std::int64_t end = is_by_rows ? shape_.m : shape_.n;
    std::int64_t first = 0;
    for (std::size_t i = 0; first < end; first += sizes[i++ % 2]) {
      const Part part{first, std::min(sizes[i % 2], end - first)};
      GANTRY_TRY(is_by_rows ? multiply(pieces_, part, {0, shape_.n})
                            : multiply(pieces_, {0, shape_.m}, part));
    }
    return pieces_ == whole_;
  }

 private:
  struct Part {
    std::int64_t first;
    std::int64_t count;
  };

  void spoil() { std::ranges::fill(pieces_, std::byte{0xff}); }

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
  DataType type_;
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

Result<bool> keeps_all(std::vector<Trial>& trials, bool is_by_rows, std::int64_t grain) {
  for (Trial& trial : trials)
    for (const auto& [one, other] : kCuts) {
      GANTRY_ASSIGN(const bool keeps, trial.keeps(is_by_rows, {one * grain, other * grain}));
      if (!keeps) return false;
    }
  return true;
}

Result<std::int64_t> least_grain(std::vector<Trial>& trials, bool is_by_rows) {
  for (const std::int64_t grain : kGrains) {
    GANTRY_ASSIGN(const bool keeps, keeps_all(trials, is_by_rows, grain));
    if (keeps) return grain;
  }
  return 0;
}

Result<GemmBits> probe(std::vector<Trial>& trials) {
  GemmBits bits{.repeats = true};
  for (Trial& trial : trials) {
    GANTRY_TRY(trial.multiply_whole());
    GANTRY_ASSIGN(const bool repeats, trial.repeats());
    bits.repeats = bits.repeats && repeats;
  }
  if (!bits.repeats) return bits;
  GANTRY_ASSIGN(bits.row_grain, least_grain(trials, true));
  GANTRY_ASSIGN(bits.column_grain, least_grain(trials, false));
  return bits;
}

}  // namespace

Result<GemmBits> probe_gemm(GemmLibrary& library, const DataType& type) {
  const auto element = element_of(type);
  if (!element || !library.takes(type))
    return fail(Code::unsupported, fmt::format("gemm: {} does not multiply {}",
                                               library.facts().library, text_of(type)));
  std::vector<Trial> trials;
  for (const Shape& shape : kShapes) trials.emplace_back(library, type, *element, shape);
  return probe(trials);
}

}  // namespace gantry
