#include "subject.hpp"

#include <algorithm>

namespace gantry::bench {

Bytes Case::largest_segment() const noexcept {
  return *std::max_element(segments.begin(), segments.end());
}

std::vector<ConstByteSpan> parts_of(const Case& what, ConstByteSpan bytes) {
  std::vector<ConstByteSpan> parts;
  for (const Bytes size : what.segments) {
    parts.push_back(bytes.first(size));
    bytes = bytes.subspan(size);
  }
  return parts;
}

}  // namespace gantry::bench
