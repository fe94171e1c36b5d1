#pragma once  // digest.hpp: names what an image holds.

#include <gantry/image.hpp>

namespace gantry::image {

/// Takes chunks one by one: each is hashed for itself, so that they may be hashed side by side.
class ContentHash {
 public:
  void add(ConstByteSpan raw_chunk);
  /// With the tables of content before the chunks.
  [[nodiscard]] ImageDigest finish(ConstByteSpan content) const;

 private:
  std::vector<std::byte> chunks_;  // their hashes, one behind the other
};

}  // namespace gantry::image
