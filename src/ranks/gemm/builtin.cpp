#include "ranks/gemm/libraries.hpp"

#include <algorithm>
#include <type_traits>

#include "core/base/half_float.hpp"
#include "core/base/result.hpp"

namespace gantry {
namespace {

// Elements in memory, and what they are summed as.
template <class T>
struct Plain {
  using Sum = T;
  static constexpr std::int64_t kBytes = sizeof(T);
  static Sum load(const std::byte* from) noexcept {
    Sum value;
    std::memcpy(&value, from, sizeof value);
    return value;
  }
  static void store(std::byte* to, Sum value) noexcept { std::memcpy(to, &value, sizeof value); }
};

template <float (*widen)(std::uint16_t), std::uint16_t (*narrow)(float)>
struct Half {
  using Sum = float;
  static constexpr std::int64_t kBytes = sizeof(std::uint16_t);
  static Sum load(const std::byte* from) noexcept {
    return widen(Plain<std::uint16_t>::load(from));
  }
  static void store(std::byte* to, Sum value) noexcept {
    Plain<std::uint16_t>::store(to, narrow(value));
  }
};

// A block of c takes place in the cache of the second level with the pieces of a and b that are
// being multiplied; a tile of it, in registers.
constexpr std::int64_t kBlockRows = 64;
constexpr std::int64_t kBlockCols = 256;
constexpr std::int64_t kBlockDepth = 256;
constexpr std::int64_t kTileRows = 4;
constexpr std::int64_t kTileCols = 8;
static_assert(kBlockRows % kTileRows == 0 && kBlockCols % kTileCols == 0);

constexpr std::int64_t rounded_up(std::int64_t size, std::int64_t unit) noexcept {
  return (size + unit - 1) / unit * unit;
}

/// Adds the product of a strip of a (kTileRows x depth, column by column) and a strip of b (depth x
/// kTileCols, row by row) to a tile.
template <class Sum>
void add_tile(const Sum* a, const Sum* b, std::int64_t depth, Sum* tile, std::int64_t stride) {
  Sum sums[kTileRows][kTileCols] = {};
  for (std::int64_t p = 0; p < depth; ++p, a += kTileRows, b += kTileCols)
    for (std::int64_t i = 0; i < kTileRows; ++i)
      for (std::int64_t j = 0; j < kTileCols; ++j) sums[i][j] += a[i] * b[j];
  for (std::int64_t i = 0; i < kTileRows; ++i)
    for (std::int64_t j = 0; j < kTileCols; ++j) tile[i * stride + j] += sums[i][j];
}

/// One product, block by block. Strips are filled up with zeros to the size of a tile, so that each
/// element is summed in the same way wherever it lies.
template <class Type>
class BlockedProduct {
 public:
  using Sum = typename Type::Sum;

  explicit BlockedProduct(const Gemm& product)
      : product_(product),
        depth_(std::min(product.k, kBlockDepth)),
        a_(buffer(rounded_up(std::min(product.m, kBlockRows), kTileRows) * depth_)),
        b_(buffer(rounded_up(std::min(product.n, kBlockCols), kTileCols) * depth_)),
        c_(buffer(rounded_up(std::min(product.m, kBlockRows), kTileRows) *
                  rounded_up(std::min(product.n, kBlockCols), kTileCols))) {}

  void compute() {
    for (std::int64_t col = 0; col < product_.n; col += kBlockCols)
      for (std::int64_t row = 0; row < product_.m; row += kBlockRows)
        compute_block(row, std::min(kBlockRows, product_.m - row), col,
                      std::min(kBlockCols, product_.n - col));
  }

 private:
  static std::vector<Sum> buffer(std::int64_t size) {
    return std::vector<Sum>(static_cast<std::size_t>(size));
  }

  void compute_block(std::int64_t row, std::int64_t rows, std::int64_t col, std::int64_t cols) {
    const std::int64_t stride = rounded_up(cols, kTileCols);
    begin(row, rows, col, cols, stride);
    for (std::int64_t first = 0; first < product_.k; first += kBlockDepth) {
      const std::int64_t depth = std::min(kBlockDepth, product_.k - first);
      pack_a(row, rows, first, depth);
      pack_b(first, depth, col, cols);
      for (std::int64_t i = 0; i < rows; i += kTileRows)
        for (std::int64_t j = 0; j < cols; j += kTileCols)
          add_tile(&a_[index(i * depth)], &b_[index(j * depth)], depth, &c_[index(i * stride + j)],
                   stride);
    }
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < cols; ++j)
        Type::store(c_at(row + i, col + j), c_[index(i * stride + j)]);
  }

  void begin(std::int64_t row, std::int64_t rows, std::int64_t col, std::int64_t cols,
             std::int64_t stride) {
    std::ranges::fill(c_, Sum{});
    if (!product_.adds) return;
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < cols; ++j)
        c_[index(i * stride + j)] = Type::load(c_at(row + i, col + j));
  }

  void pack_a(std::int64_t row, std::int64_t rows, std::int64_t first, std::int64_t depth) {
    Sum* to = a_.data();
    for (std::int64_t strip = 0; strip < rows; strip += kTileRows)
      for (std::int64_t p = 0; p < depth; ++p)
        for (std::int64_t i = strip; i < strip + kTileRows; ++i)
          *to++ = i < rows ? load(product_.a, product_.a_stride, row + i, first + p) : Sum{};
  }

  void pack_b(std::int64_t first, std::int64_t depth, std::int64_t col, std::int64_t cols) {
    Sum* to = b_.data();
    for (std::int64_t strip = 0; strip < cols; strip += kTileCols)
      for (std::int64_t p = 0; p < depth; ++p, to += kTileCols) {
        const std::int64_t count = std::min(kTileCols, cols - strip);
        for (std::int64_t j = 0; j < count; ++j)
          to[j] = load(product_.b, product_.b_stride, first + p, col + strip + j);
        std::fill(to + count, to + kTileCols, Sum{});
      }
  }

  static Sum load(const std::byte* matrix, std::int64_t stride, std::int64_t row,
                  std::int64_t col) noexcept {
    return Type::load(matrix + (row * stride + col) * Type::kBytes);
  }
  std::byte* c_at(std::int64_t row, std::int64_t col) const noexcept {
    return product_.c + (row * product_.c_stride + col) * Type::kBytes;
  }
  static std::size_t index(std::int64_t at) noexcept { return static_cast<std::size_t>(at); }

  const Gemm& product_;
  std::int64_t depth_;
  std::vector<Sum> a_;
  std::vector<Sum> b_;
  std::vector<Sum> c_;
};

template <class Type>
Result<void> compute_as(const Gemm& product) {
  return guarded([&]() -> Result<void> {
    BlockedProduct<Type>(product).compute();
    return {};
  });
}

class BuiltinGemm final : public CheckedGemm {
 public:
  BuiltinGemm() : CheckedGemm({"builtin", "", "as compiled", 1, "asked for"}) {}

 protected:
  bool takes_element(Element) const noexcept override { return true; }

  Result<void> compute(const Gemm& product, Element element) override {
    switch (element) {
      case Element::f64:
        return compute_as<Plain<double>>(product);
      case Element::f32:
        return compute_as<Plain<float>>(product);
      case Element::f16:
        return compute_as<Half<float_of_f16, f16_of_float>>(product);
      case Element::bf16:
        return compute_as<Half<float_of_bf16, bf16_of_float>>(product);
      case Element::i32:  // without a sign: the same bits, and it wraps around
        return compute_as<Plain<std::uint32_t>>(product);
      case Element::i64:
        break;
    }
    return compute_as<Plain<std::uint64_t>>(product);
  }
};

}  // namespace

Result<std::shared_ptr<GemmLibrary>> make_builtin_gemm() {
  return std::make_shared<BuiltinGemm>();
}

}  // namespace gantry
