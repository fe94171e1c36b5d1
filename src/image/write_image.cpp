#include <algorithm>
#include <gantry/image.hpp>

#include "base/crc32c.hpp"
#include "base/result.hpp"
#include "image/chunk_packer.hpp"
#include "image/digest.hpp"
#include "image/new_file.hpp"
#include "image/tables.hpp"

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
      return fail(
          added.error().code,
          fmt::format("tensor {} '{}': {}", i, tensor.name.substr(0, 40), added.error().message),
          added.error().hint);
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
    if (!tables)
      return fail(tables.error().code, fmt::format("{}: {}", path, tables.error().message),
                  tables.error().hint);
    return write(path, *tables, options, source);
  });
}

}  // namespace gantry
