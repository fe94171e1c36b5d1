#pragma once  // channel/wire/beside_tensor.hpp: the tensor of a payload that lies beside its
              // record.

#include <algorithm>
#include <cstring>
#include <limits>

#include "core/channel/wire/format.hpp"

namespace gantry {

/// What is told of a payload that lies beside its record. `count`: MessageHeader::count of it.
struct BesidePayload {
  Bytes bytes = 0;
  std::uint8_t count = 0;  // with a tensor: its dimensions and 1
  BesideTensor tensor{};   // unless count is 0

  [[nodiscard]] static BesidePayload read(const MessageRecord& record) noexcept {
    BesidePlace place;  // NOLINT: copied
    BesidePayload payload;
    std::memcpy(&place, record.body.data(), sizeof place);
    std::memcpy(&payload.tensor, record.body.data() + sizeof place, sizeof payload.tensor);
    payload.bytes = place.bytes;
    payload.count = record.header.count;
    return payload;
  }
};

/// Nothing: it has more dimensions, longer ones or gaps, or is larger than its bytes.
[[nodiscard]] inline std::optional<BesidePayload> payload_beside(Bytes bytes,
                                                                 const Tensor& tensor) noexcept {
  BesidePayload payload{bytes, 0, {tensor.type, {}}};
  if (tensor.dimensions > payload.tensor.shape.size()) return std::nullopt;
  for (unsigned i = 0; i < tensor.dimensions; ++i) {
    if (tensor.shape[i] < 0 || tensor.shape[i] > std::numeric_limits<std::uint32_t>::max())
      return std::nullopt;
    payload.tensor.shape[i] = static_cast<std::uint32_t>(tensor.shape[i]);
  }
  payload.count = static_cast<std::uint8_t>(1 + tensor.dimensions);
  const std::span shape(tensor.shape.data(), tensor.dimensions);
  if (tensor != Tensor::dense(tensor.type, shape) || !tensor.fits(bytes)) return std::nullopt;
  return payload;
}

/// Of a payload with a tensor. Nothing: no honest producer writes it.
[[nodiscard]] inline std::optional<Tensor> tensor_beside(const BesidePayload& payload) noexcept {
  const std::size_t dimensions = payload.count - std::size_t{1};
  if (dimensions > payload.tensor.shape.size()) return std::nullopt;
  std::array<std::int64_t, kBesideDimensions> shape{};
  std::ranges::copy(payload.tensor.shape, shape.begin());
  const Tensor tensor = Tensor::dense(payload.tensor.type, std::span(shape).first(dimensions));
  if (!tensor.fits(payload.bytes)) return std::nullopt;
  return tensor;
}

}  // namespace gantry
