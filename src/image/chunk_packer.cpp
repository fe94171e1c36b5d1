#include "image/chunk_packer.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "base/result.hpp"

namespace gantry::image {
namespace {

constexpr Bytes kSampledBytes = Bytes{64} << 10;  // of each 512 KiB

// Below it packing is not worth the unpacking.
constexpr Bytes worth(Bytes raw) noexcept {
  return raw - (raw + 19) / 20;
}

}  // namespace

Result<ChunkPacker> ChunkPacker::make(const ImageOptions& options) {
  ChunkPacker packer;
  packer.frame_bytes_ = options.frame_bytes;
  packer.planes_ = options.planes || !options.codec;
  if (!std::has_single_bit(options.frame_bytes) || options.frame_bytes < kLeastFrameBytes ||
      options.frame_bytes > kMostFrameBytes)
    return fail(Code::invalid_argument, fmt::format("frames of {} bytes", options.frame_bytes),
                "choose a power of two from 64 KiB to 512 KiB");
  if (options.codec == Codec::none) return packer;
  if (options.codec) {
    GANTRY_ASSIGN(auto one, codec::Encoder::make(*options.codec, options.level));
    packer.encoders_.push_back(std::move(one));
    return packer;
  }
  for (const Codec codec : {Codec::lz4, Codec::zstd})
    if (auto one = codec::Encoder::make(codec, codec == Codec::zstd ? 1 : 0))
      packer.encoders_.push_back(std::move(*one));
  return packer;
}

// Some bytes of each part: a chunk may hold tensors that differ.
std::optional<Bytes> ChunkPacker::sample_bytes(Way way, ConstByteSpan raw) {
  sample_.clear();
  for (Bytes at = 0; at < raw.size(); at += kMostFrameBytes) {
    const ConstByteSpan piece = raw.subspan(at, std::min(kSampledBytes, raw.size() - at));
    sample_.insert(sample_.end(), piece.begin(), piece.end());
  }
  return way.encoder->encode(coding_of(way), sample_,
                             ByteSpan(packed_).first(worth(sample_.size())));
}

// In the order of preference: who comes later must be smaller by 5 %.
ChunkPacker::Way ChunkPacker::choose(ConstByteSpan raw, std::uint8_t plane_bytes) {
  Way best;
  Bytes least = 0;
  for (codec::Encoder& encoder : encoders_)
    for (const bool split : {false, true}) {
      if (split && plane_bytes == 1) continue;
      const Way way{&encoder, split ? plane_bytes : std::uint8_t{1}};
      const auto bytes = sample_bytes(way, raw);
      if (!bytes || (best.encoder != nullptr && *bytes * 20 > least * 19)) continue;
      best = way;
      least = *bytes;
    }
  return best;
}

ChunkPacker::Packed ChunkPacker::pack(ConstByteSpan raw, unsigned number_bytes) {
  const bool has_planes = planes_ && (number_bytes == 2 || number_bytes == 4);
  const auto plane_bytes = static_cast<std::uint8_t>(has_planes ? number_bytes : 1);
  packed_.resize(kImageChunkBytes);
  Way way;
  if (encoders_.size() == 1) way = {encoders_.data(), plane_bytes};
  if (encoders_.size() > 1) way = choose(raw, plane_bytes);
  if (way.encoder == nullptr) return {{}, raw};
  const auto bytes =
      way.encoder->encode(coding_of(way), raw, ByteSpan(packed_).first(worth(raw.size())));
  if (!bytes) return {{}, raw};
  return {coding_of(way), ConstByteSpan(packed_).first(*bytes)};
}

unsigned number_bytes_of(std::span<const ImageTensor> tensors, Bytes from, Bytes bytes) noexcept {
  std::array<Bytes, 3> counted{};  // of 2 bytes, of 4, of others
  for (const ImageTensor& tensor : tensors) {
    const Bytes begin = std::max(from, tensor.offset);
    const Bytes end = std::min(from + bytes, tensor.offset + tensor.bytes);
    const unsigned bits = unsigned{tensor.tensor.type.bits} * tensor.tensor.type.lanes;
    const bool is_number = tensor.tensor.type.code < DataType::grouped;
    if (begin < end)
      counted[is_number && bits == 16 ? 0 : is_number && bits == 32 ? 1 : 2] += end - begin;
  }
  const auto most = std::ranges::max_element(counted) - counted.begin();
  return most == 0 ? 2 : most == 1 ? 4 : 1;
}

}  // namespace gantry::image
