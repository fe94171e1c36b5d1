#include "image/digest.hpp"

#define XXH_INLINE_ALL
#include <fmt/format.h>
#include <xxhash.h>

#include <cstring>

namespace gantry {
namespace image {
namespace {

ImageDigest hash(ConstByteSpan bytes) noexcept {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits(bytes.data(), bytes.size()));
  ImageDigest digest;
  static_assert(sizeof canonical == sizeof digest.bytes);
  std::memcpy(digest.bytes.data(), &canonical, sizeof canonical);
  return digest;
}

}  // namespace

void ContentHash::add(ConstByteSpan raw_chunk) {
  const ImageDigest one = hash(raw_chunk);
  chunks_.insert(chunks_.end(), one.bytes.begin(), one.bytes.end());
}

ImageDigest ContentHash::finish(ConstByteSpan content) const {
  std::vector<std::byte> all(content.begin(), content.end());
  all.insert(all.end(), chunks_.begin(), chunks_.end());
  return hash(all);
}

}  // namespace image

std::string ImageDigest::text() const {
  std::string text;
  for (const std::byte byte : bytes) text += fmt::format("{:02x}", std::to_integer<unsigned>(byte));
  return text;
}

}  // namespace gantry
