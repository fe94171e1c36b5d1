#include "core/base/result.hpp"
#include "image/codec/frame_codec.hpp"

#ifdef GANTRY_HAVE_ZSTD
#include <zstd.h>
#endif

namespace gantry::codec {

#ifdef GANTRY_HAVE_ZSTD
namespace {

class Zstd final : public FrameCodec {
 public:
  explicit Zstd(int level) : level_(level) {
    if (!packing_ || !unpacking_) throw std::bad_alloc();
  }

  [[nodiscard]] std::string library() const override {
    return fmt::format("zstd {}", ZSTD_versionString());
  }
  // One call a frame: what it gives goes straight to `raw`, and no window is set aside for a frame
  // that asks for a large one.
  Result<Bytes> unpack(ConstByteSpan stored, ByteSpan raw) override {
    const std::size_t made =
        ZSTD_decompressDCtx(unpacking_.get(), raw.data(), raw.size(), stored.data(), stored.size());
    if (ZSTD_isError(made) != 0)
      return fail(Code::invalid_argument, fmt::format("zstd: {}", ZSTD_getErrorName(made)));
    return made;
  }
  std::optional<Bytes> pack(ConstByteSpan raw, ByteSpan into) override {
    const std::size_t made =
        ZSTD_compressCCtx(packing_.get(), into.data(), into.size(), raw.data(), raw.size(), level_);
    if (ZSTD_isError(made) != 0) return std::nullopt;
    return made;
  }

 private:
  struct Free {
    void operator()(ZSTD_CCtx* context) const noexcept { ZSTD_freeCCtx(context); }
    void operator()(ZSTD_DCtx* context) const noexcept { ZSTD_freeDCtx(context); }
  };
  std::unique_ptr<ZSTD_CCtx, Free> packing_{ZSTD_createCCtx()};
  std::unique_ptr<ZSTD_DCtx, Free> unpacking_{ZSTD_createDCtx()};
  int level_;
};

}  // namespace

Result<std::unique_ptr<FrameCodec>> make_zstd(int level) {
  if (level < 0 || level > ZSTD_maxCLevel())
    return fail(Code::invalid_argument,
                fmt::format("zstd has levels 1 to {}, not {}", ZSTD_maxCLevel(), level));
  return guarded([&]() -> Result<std::unique_ptr<FrameCodec>> {
    return std::make_unique<Zstd>(level == 0 ? ZSTD_CLEVEL_DEFAULT : level);
  });
}
#else
Result<std::unique_ptr<FrameCodec>> make_zstd(int /*level*/) {
  return fail(Code::unsupported, "built without zstd",
              "build it with libzstd-dev and GANTRY_ZSTD=ON");
}
#endif

}  // namespace gantry::codec
