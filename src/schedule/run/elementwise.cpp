#include "schedule/run/elementwise.hpp"

#include <cstring>

#include "base/half_float.hpp"

namespace gantry {
namespace {

struct Float16 {
  std::uint16_t bits = 0;
};
struct Bfloat16 {
  std::uint16_t bits = 0;
};

template <class Number>
Number sum(Number one, Number other) noexcept {
  return static_cast<Number>(one + other);
}
Float16 sum(Float16 one, Float16 other) noexcept {
  return {f16_of_float(float_of_f16(one.bits) + float_of_f16(other.bits))};
}
Bfloat16 sum(Bfloat16 one, Bfloat16 other) noexcept {
  return {bf16_of_float(float_of_bf16(one.bits) + float_of_bf16(other.bits))};
}

// The blocks are what the compiler turns into vectors.
template <class Number>
void add_row(Number* to, const Number* from, std::size_t count) noexcept {
  constexpr std::size_t kBlock = 64 / sizeof(Number);
  std::size_t i = 0;
  for (; i + kBlock <= count; i += kBlock) {
    Number block[kBlock];
    for (std::size_t j = 0; j < kBlock; ++j) block[j] = sum(to[i + j], from[i + j]);
    std::memcpy(to + i, block, sizeof block);
  }
  for (; i < count; ++i) to[i] = sum(to[i], from[i]);
}

template <class Number>
void add_rows(const LocalRect& to, const LocalRect& from) noexcept {
  for (Bytes row = 0; row < to.rows; ++row)
    add_row(reinterpret_cast<Number*>(to.data + row * to.stride),
            reinterpret_cast<const Number*>(from.data + row * from.stride),
            to.row_bytes / sizeof(Number));
}

}  // namespace

void copy_rect(const LocalRect& to, const LocalRect& from) noexcept {
  if (to.row_bytes == 0) return;
  if (to.stride == to.row_bytes && from.stride == to.row_bytes) {
    std::memmove(to.data, from.data, to.rows * to.row_bytes);
    return;
  }
  for (Bytes row = 0; row < to.rows; ++row)
    std::memmove(to.data + row * to.stride, from.data + row * from.stride, to.row_bytes);
}

void fill_rect(const LocalRect& to) noexcept {
  if (to.row_bytes == 0) return;
  for (Bytes row = 0; row < to.rows; ++row) std::memset(to.data + row * to.stride, 0, to.row_bytes);
}

void add_rect(DataType type, const LocalRect& to, const LocalRect& from) noexcept {
  if (type.code == DataType::signed_int)
    return type.bits == 64 ? add_rows<std::uint64_t>(to, from) : add_rows<std::uint32_t>(to, from);
  if (type.code == DataType::bfloat) return add_rows<Bfloat16>(to, from);
  switch (type.bits) {
    case 64:
      return add_rows<double>(to, from);
    case 32:
      return add_rows<float>(to, from);
    default:
      return add_rows<Float16>(to, from);
  }
}

}  // namespace gantry
