#include <isa-l/igzip_lib.h>

#include <array>

#include "core/base/result.hpp"
#include "image/codec/frame_codec.hpp"

namespace gantry::codec {
namespace {

constexpr int kMostLevel = 3;
constexpr int kDefaultLevel = 1;
constexpr std::array<std::uint32_t, kMostLevel + 1> kLevelBytes{
    0, ISAL_DEF_LVL1_DEFAULT, ISAL_DEF_LVL2_DEFAULT, ISAL_DEF_LVL3_DEFAULT};

// ISA-L does not know const.
std::uint8_t* start_of(ConstByteSpan bytes) noexcept {
  return const_cast<std::uint8_t*>(reinterpret_cast<const std::uint8_t*>(bytes.data()));
}

class Deflate final : public FrameCodec {
 public:
  explicit Deflate(int level)
      : level_(static_cast<std::uint32_t>(level)),
        level_memory_(std::make_unique<std::uint8_t[]>(kLevelBytes[level_])),
        packing_(std::make_unique<isal_zstream>()),
        unpacking_(std::make_unique<inflate_state>()) {}

  [[nodiscard]] std::string library() const override { return "ISA-L"; }
  Result<Bytes> unpack(ConstByteSpan stored, ByteSpan raw) override {
    inflate_state& state = *unpacking_;
    isal_inflate_init(&state);
    state.next_in = start_of(stored);
    state.avail_in = static_cast<std::uint32_t>(stored.size());
    state.next_out = start_of(raw);
    state.avail_out = static_cast<std::uint32_t>(raw.size());
    const int done = isal_inflate_stateless(&state);
    if (done == ISAL_OUT_OVERFLOW) return fail(Code::invalid_argument, "deflate: it is longer");
    if (done != ISAL_DECOMP_OK)
      return fail(Code::invalid_argument, fmt::format("deflate cannot read it ({})", done));
    if (state.block_state != ISAL_BLOCK_FINISH || state.avail_in != 0)
      return fail(Code::invalid_argument, "deflate: it does not end where it must");
    return raw.size() - state.avail_out;
  }

  std::optional<Bytes> pack(ConstByteSpan raw, ByteSpan into) override {
    isal_zstream& stream = *packing_;
    isal_deflate_stateless_init(&stream);
    stream.end_of_stream = 1;
    stream.level = level_;
    stream.level_buf = level_memory_.get();
    stream.level_buf_size = kLevelBytes[level_];
    stream.next_in = start_of(raw);
    stream.avail_in = static_cast<std::uint32_t>(raw.size());
    stream.next_out = start_of(into);
    stream.avail_out = static_cast<std::uint32_t>(into.size());
    if (isal_deflate_stateless(&stream) != COMP_OK || stream.avail_in != 0) return std::nullopt;
    return into.size() - stream.avail_out;
  }

 private:
  std::uint32_t level_;
  std::unique_ptr<std::uint8_t[]> level_memory_;
  std::unique_ptr<isal_zstream> packing_;
  std::unique_ptr<inflate_state> unpacking_;
};

}  // namespace

Result<std::unique_ptr<FrameCodec>> make_deflate(int level) {
  if (level < 0 || level > kMostLevel)
    return fail(Code::invalid_argument, fmt::format("deflate has levels 1 to 3, not {}", level));
  return guarded([&]() -> Result<std::unique_ptr<FrameCodec>> {
    return std::make_unique<Deflate>(level == 0 ? kDefaultLevel : level);
  });
}

}  // namespace gantry::codec
