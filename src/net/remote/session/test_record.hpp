#pragma once  // remote/session/test_record.hpp: heads that tests make, and what must hold of every
              // other.

#include "net/remote/session/remote_record.hpp"

namespace gantry::test {

/// A tensor of `bytes` bytes, all of them in its last dimension; of one without dimensions.
inline Tensor bytes_tensor(unsigned dimensions, Bytes bytes) {
  std::array<std::int64_t, Tensor::kMaxDimensions> shape{};
  shape.fill(1);
  if (dimensions > 0) shape[dimensions - 1] = static_cast<std::int64_t>(bytes);
  return Tensor::dense({DataType::unsigned_int, 8, 1}, std::span(shape).first(dimensions));
}

/// What a decoded head promises: its parts are its bytes, and tensors lie within them.
inline bool is_consistent(const RemoteHead& head, Bytes payload) {
  if (head.parts.empty() || head.parts.size() > kMaxSegments) return false;
  Bytes sum = 0;
  for (const RemoteHead::Part& part : head.parts) {
    if (part.bytes > head.bytes - sum) return false;  // no sum that wraps
    sum += part.bytes;
    if (part.tensor && !part.tensor->fits(part.bytes)) return false;
    if (!head.has_payload && part.bytes > 0 &&
        (part.offset > part.region.bytes || part.bytes > part.region.bytes - part.offset ||
         part.region.access == RemoteAccess::write))
      return false;
  }
  if (head.place != 0 && (head.parts.size() != 1 || head.bytes == 0 || head.has_payload))
    return false;
  return sum == head.bytes && payload == (head.has_payload ? head.bytes : 0);
}

}  // namespace gantry::test
