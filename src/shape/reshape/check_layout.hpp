#pragma once  // reshape/check_layout.hpp: what must be true of the two tensors of a reshape.

#include <gantry/shape.hpp>

namespace gantry::shape {

/// Of the source: a known type, 1 to 8 dimensions of at least one element, strides that are neither
/// negative nor let elements overlap, 63 bits of bytes. Returns the bytes that it reaches over.
[[nodiscard]] Result<Bytes> check_source(const Tensor& from);
/// The same of the destination, which besides is row-major without gaps.
[[nodiscard]] Result<Bytes> check_destination(const Tensor& to);

/// Options with every list as long as it must be, checked against each other and both shapes.
struct Layout {
  std::array<unsigned, Tensor::kMaxDimensions> order{};
  std::array<std::int64_t, Tensor::kMaxDimensions> crop_from{}, pad_before{}, inner{};
  std::vector<unsigned> channels;    ///< Empty: as they are.
  std::vector<float> scale, offset;  ///< Both empty, or both as long as there are channels, or 1.
};
[[nodiscard]] Result<Layout> check_options(const Tensor& to, const Tensor& from,
                                           const ReshapeOptions& options);

}  // namespace gantry::shape
