#include "core/tensor/plan_source.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace gantry::shape {

bool is_alike(const Tensor& plan, const Tensor& other) noexcept {
  if (plan.type != other.type || plan.dimensions != other.dimensions) return false;
  for (unsigned i = 0; i < plan.dimensions; ++i)
    if (plan.shape[i] != other.shape[i] ||
        (plan.shape[i] > 1 && plan.strides[i] != other.strides[i]))
      return false;
  return true;
}

Bytes gap_behind(const Tensor& tensor) noexcept {
  std::uint64_t last = 0, whole = 1;  // numbers: before the last one; with what lies behind it
  for (unsigned i = 0; i < tensor.dimensions; ++i) {
    const auto extent = static_cast<std::uint64_t>(tensor.shape[i]);
    const auto step = static_cast<std::uint64_t>(tensor.strides[i]);
    if (extent == 0) return 0;
    if (extent == 1) continue;  // its step says nothing
    last += (extent - 1) * step;
    whole = std::max(whole, extent * step);
  }
  const std::uint64_t gap = whole - std::min(whole, last + 1);
  return gap * tensor.type.bits * tensor.type.lanes / 8;
}

std::string text_of(const Tensor& tensor) {
  std::string text = to_string(tensor.type) + " [";
  for (unsigned i = 0; i < std::min(tensor.dimensions, Tensor::kMaxDimensions); ++i)
    text += fmt::format("{}{}", i == 0 ? "" : ", ", tensor.shape[i]);
  return text + "]";
}

Error does_not_fit(const Tensor& tensor, Bytes bytes) {
  return {
      Code::invalid_argument,
      fmt::format("a tensor of {} does not fit its segment of {} bytes", text_of(tensor), bytes),
      "send all bytes that its shape and strides reach, in at most 8 dimensions"};
}

}  // namespace gantry::shape
