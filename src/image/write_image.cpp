#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <gantry/image.hpp>

#include "core/base/assert.hpp"
#include "core/base/crc32c.hpp"
#include "core/base/text_lines.hpp"
#include "image/codec/codec.hpp"
#include "image/digest.hpp"
#include "image/new_file.hpp"
#include "image/tables.hpp"

namespace gantry::image {
namespace {

constexpr Bytes kSampledBytes = Bytes{64} << 10;  // of each 512 KiB

// Below it packing is not worth the unpacking.
constexpr Bytes worth(Bytes raw) noexcept {
  return raw - (raw + 19) / 20;
}

/// Packs chunks as the options say. For one thread at a time.
class ChunkPacker {
 public:
  /// Errors: those of codec::make_codec().
  [[nodiscard]] static Result<ChunkPacker> make(const ImageOptions& options) {
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

  /// A chunk as it is stored. Valid until the next call, and as long as `raw`.
  struct Packed {
    Coding coding;
    ConstByteSpan bytes;
  };
  /// `number_bytes`: of most of its numbers.
  [[nodiscard]] Packed pack(ConstByteSpan raw, unsigned number_bytes) {
    GANTRY_DEBUG_ASSERT(!raw.empty());
    GANTRY_DEBUG_ASSERT(raw.size() <= kImageChunkBytes);
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

 private:
  struct Way {
    codec::Encoder* encoder = nullptr;
    std::uint8_t plane_bytes = 1;
  };
  ChunkPacker() = default;
  [[nodiscard]] Coding coding_of(Way way) const {
    return {way.encoder->codec(), way.plane_bytes, frame_bytes_};
  }
  // In the order of preference: who comes later must be smaller by 5 %.
  [[nodiscard]] Way choose(ConstByteSpan raw, std::uint8_t plane_bytes) {
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

  // Some bytes of each part: a chunk may hold tensors that differ.
  [[nodiscard]] std::optional<Bytes> sample_bytes(Way way, ConstByteSpan raw) {
    sample_.clear();
    for (Bytes at = 0; at < raw.size(); at += kMostFrameBytes) {
      const ConstByteSpan piece = raw.subspan(at, std::min(kSampledBytes, raw.size() - at));
      sample_.insert(sample_.end(), piece.begin(), piece.end());
    }
    return way.encoder->encode(coding_of(way), sample_,
                               ByteSpan(packed_).first(worth(sample_.size())));
  }

  std::vector<codec::Encoder> encoders_;  // none: stored as they are; two: whichever is better
  bool planes_ = false;
  std::uint32_t frame_bytes_ = kMostFrameBytes;
  std::vector<std::byte> packed_;
  std::vector<std::byte> sample_;
};

// Bytes of most numbers in bytes [from, from + bytes) of a partition, among whose tensors these
// are.
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

}  // namespace
}  // namespace gantry::image

namespace gantry {
namespace {

Result<image::Tables> lay_out(std::span<const ImageTensor> given) {
  if (given.empty()) return fail(Code::invalid_argument, "an image of no tensors", "name some");
  image::Tables tables;
  image::Layout layout;
  for (std::size_t i = 0; i < given.size(); ++i) {
    ImageTensor tensor = given[i];
    const Tensor& shape = given[i].tensor;
    tensor.tensor = Tensor::dense(
        shape.type,
        std::span(shape.shape).first(std::min(shape.dimensions, Tensor::kMaxDimensions)));
    tensor.tensor.dimensions = shape.dimensions;  // too many are refused
    if (auto added = layout.add(tensor); !added)
      return prefixed(added.error(), "tensor {} '{}'", i, tensor.name.substr(0, 40));
    tables.tensors.push_back(std::move(tensor));
  }
  tables.partitions = layout.partitions();
  tables.chunks.resize(layout.chunks());
  return tables;
}

/// Fills and writes chunks, from front to back.
class Writer {
 public:
  Writer(image::Tables& tables, image::NewFile& file, image::ChunkPacker& packer,
         const ImageSource& source)
      : tables_(tables), file_(file), packer_(packer), source_(source) {}

  /// From `border` on; returns where the last one ends, at a border.
  Result<Bytes> write_chunks(Bytes border) {
    raw_.resize(kImageChunkBytes);
    for (unsigned p = 0; p < tables_.partitions.size(); ++p) {
      const ImagePartition& partition = tables_.partitions[p];
      for (std::size_t i = 0; i < partition.chunks; ++i) {
        const Bytes from = i * kImageChunkBytes;
        const ByteSpan raw =
            ByteSpan(raw_).first(std::min(kImageChunkBytes, partition.bytes - from));
        const auto within = tensors_of(p, from, raw.size());
        GANTRY_TRY(fill(within, from, raw));
        ImageChunk& chunk = tables_.chunks[partition.first_chunk + i];
        const auto packed = packer_.pack(raw, image::number_bytes_of(within, from, raw.size()));
        chunk = {border,
                 static_cast<std::uint32_t>(packed.bytes.size()),
                 static_cast<std::uint32_t>(raw.size()),
                 crc32c(raw),
                 crc32c(packed.bytes),
                 packed.coding};
        hash_.add(raw);
        GANTRY_TRY(file_.write(packed.bytes, border));
        border = image::up_to(border + packed.bytes.size(), kImageBorder);
      }
    }
    return border;
  }

  [[nodiscard]] const image::ContentHash& hash() const noexcept { return hash_; }

 private:
  // Those that have bytes there; `next_` is the first that may.
  std::span<const ImageTensor> tensors_of(unsigned partition, Bytes from, Bytes bytes) {
    const std::span<const ImageTensor> all = tables_.tensors;
    const auto is_before = [&](const ImageTensor& one) {
      return one.partition < partition ||
             (one.partition == partition && one.offset + one.bytes <= from);
    };
    while (next_ < all.size() && is_before(all[next_])) ++next_;
    std::size_t end = next_;
    while (end < all.size() && all[end].partition == partition && all[end].offset < from + bytes)
      ++end;
    return all.subspan(next_, end - next_);
  }

  Result<void> fill(std::span<const ImageTensor> within, Bytes from, ByteSpan raw) {
    std::ranges::fill(raw, std::byte{0});
    for (std::size_t i = 0; i < within.size(); ++i) {
      const ImageTensor& tensor = within[i];
      const Bytes begin = std::max(from, tensor.offset);
      const Bytes end = std::min(from + raw.size(), tensor.offset + tensor.bytes);
      if (begin >= end) continue;
      GANTRY_TRY(source_(next_ + i, begin - tensor.offset, raw.subspan(begin - from, end - begin)));
    }
    return {};
  }

  image::Tables& tables_;
  image::NewFile& file_;
  image::ChunkPacker& packer_;
  const ImageSource& source_;
  image::ContentHash hash_;
  std::size_t next_ = 0;
  std::vector<std::byte> raw_;
};

Result<ImageFacts> write(const std::string& path, image::Tables& tables,
                         const ImageOptions& options, const ImageSource& source) {
  GANTRY_ASSIGN(auto packer, image::ChunkPacker::make(options));
  GANTRY_ASSIGN(image::NewFile file, image::NewFile::create(path));
  Writer writer(tables, file, packer, source);
  const Bytes tables_end = kImageBorder + image::write_tables(tables).size();  // as it will be
  GANTRY_ASSIGN(const Bytes end, writer.write_chunks(image::up_to(tables_end, kImageBorder)));
  GANTRY_TRY(file.set_size(end));
  const auto written = image::write_tables(tables);
  const Bytes content = written.size() - tables.chunks.size() * sizeof(image::ChunkEntry);
  const ImageDigest digest = writer.hash().finish(ConstByteSpan(written).first(content));
  const image::Superblock block = image::make_superblock(tables, written, end, digest);
  GANTRY_TRY(file.write(written, kImageBorder));
  GANTRY_TRY(file.write(std::as_bytes(std::span(&block, 1)), 0));
  GANTRY_TRY(file.keep());
  ImageFacts facts{end, 0, digest};
  for (const ImagePartition& partition : tables.partitions) facts.raw_bytes += partition.bytes;
  return facts;
}

}  // namespace

Result<ImageFacts> write_image(const std::string& path, std::span<const ImageTensor> tensors,
                               const ImageOptions& options, const ImageSource& source) {
  return guarded([&]() -> Result<ImageFacts> {
    auto tables = lay_out(tensors);
    if (!tables) return prefixed(tables.error(), "{}", path);
    return write(path, *tables, options, source);
  });
}

}  // namespace gantry
