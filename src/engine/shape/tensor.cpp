#include <algorithm>
#include <gantry/shape/tensor.hpp>

#include "engine/shape/element.hpp"
#include "engine/shape/groups.hpp"

namespace gantry {

Tensor Tensor::dense(DataType type, std::span<const std::int64_t> shape) noexcept {
  Tensor tensor;
  tensor.type = type;
  tensor.dimensions = static_cast<unsigned>(std::min<std::size_t>(shape.size(), kMaxDimensions));
  std::int64_t stride = 1;
  for (unsigned i = tensor.dimensions; i-- > 0;) {
    tensor.shape[i] = shape[i];
    tensor.strides[i] = stride;
    if (__builtin_mul_overflow(stride, shape[i], &stride)) stride = 0;  // fits() refuses it
  }
  return tensor;
}

namespace {

// Numbers from the first to the one farthest from it, both included; nothing on overflow.
std::optional<std::uint64_t> reach_of(const Tensor& tensor) noexcept {
  std::int64_t last = 0;
  for (unsigned i = 0; i < tensor.dimensions; ++i) {
    if (tensor.strides[i] == 0 && tensor.shape[i] > 1) return std::nullopt;
    std::int64_t reach = 0;
    if (__builtin_mul_overflow(tensor.shape[i] - 1, tensor.strides[i], &reach) ||
        __builtin_add_overflow(last, reach, &last))
      return std::nullopt;
  }
  return static_cast<std::uint64_t>(last) + 1;
}

// Groups run along the last dimension, whole and without gaps.
std::optional<std::uint64_t> bits_of_groups(const Tensor& tensor, const Groups& groups,
                                            std::uint64_t numbers) noexcept {
  const unsigned last = tensor.dimensions - 1;
  if (tensor.dimensions == 0 || tensor.strides[last] != 1 || tensor.shape[last] % groups.size != 0)
    return std::nullopt;
  for (unsigned i = 0; i < last; ++i)
    if (tensor.shape[i] > 1 && tensor.strides[i] % groups.size != 0) return std::nullopt;
  std::uint64_t bits = 0;
  if (__builtin_mul_overflow(numbers / groups.size, shape::bytes_of(groups) * 8, &bits))
    return std::nullopt;
  return bits;
}

}  // namespace

bool Tensor::fits(Bytes bytes) const noexcept {
  if (dimensions > kMaxDimensions || type.bits == 0 || type.lanes == 0) return false;
  const std::optional<Groups> groups = groups_of(type);
  bool empty = false;
  for (unsigned i = 0; i < dimensions; ++i) {
    if (shape[i] < 0 || strides[i] < 0) return false;
    empty = empty || shape[i] == 0;
  }
  if (empty) return true;  // whatever its strides are
  const std::optional<std::uint64_t> numbers = reach_of(*this);
  if (!numbers) return false;
  std::uint64_t bits = 0;
  if (groups) {
    const std::optional<std::uint64_t> all = bits_of_groups(*this, *groups, *numbers);
    if (!all) return false;
    bits = *all;
  } else if (__builtin_mul_overflow(*numbers, std::uint64_t{type.bits} * type.lanes, &bits)) {
    return false;
  }
  return bits / 8 + (bits % 8 != 0 ? 1 : 0) <= bytes;  // rounding bits up could wrap
}

}  // namespace gantry
