#include "core/base/result.hpp"
#include "image/codec/frame_codec.hpp"

#ifdef GANTRY_HAVE_LZ4
#include <lz4.h>
#endif

namespace gantry::codec {

#ifdef GANTRY_HAVE_LZ4
namespace {

const char* chars(ConstByteSpan bytes) noexcept {
  return reinterpret_cast<const char*>(bytes.data());
}
char* chars(ByteSpan bytes) noexcept {
  return reinterpret_cast<char*>(bytes.data());
}

class Lz4 final : public FrameCodec {
 public:
  [[nodiscard]] std::string library() const override {
    return fmt::format("lz4 {}", LZ4_versionString());
  }
  Result<Bytes> unpack(ConstByteSpan stored, ByteSpan raw) override {
    const int made = LZ4_decompress_safe(chars(stored), chars(raw), static_cast<int>(stored.size()),
                                         static_cast<int>(raw.size()));
    if (made < 0) return fail(Code::invalid_argument, "lz4 cannot read it, or it is longer");
    return static_cast<Bytes>(made);
  }
  std::optional<Bytes> pack(ConstByteSpan raw, ByteSpan into) override {
    const int made = LZ4_compress_default(chars(raw), chars(into), static_cast<int>(raw.size()),
                                          static_cast<int>(into.size()));
    if (made <= 0) return std::nullopt;
    return static_cast<Bytes>(made);
  }
};

}  // namespace

Result<std::unique_ptr<FrameCodec>> make_lz4(int level) {
  if (level != 0) return fail(Code::invalid_argument, "lz4 has no levels");
  return guarded([]() -> Result<std::unique_ptr<FrameCodec>> { return std::make_unique<Lz4>(); });
}
#else
Result<std::unique_ptr<FrameCodec>> make_lz4(int /*level*/) {
  return fail(Code::unsupported, "built without lz4", "build it with liblz4-dev and GANTRY_LZ4=ON");
}
#endif

}  // namespace gantry::codec
