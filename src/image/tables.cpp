#include "image/tables.hpp"

#include <algorithm>
#include <cstring>

#include "core/base/crc32c.hpp"
#include "core/base/result.hpp"
#include "core/tensor/groups.hpp"

namespace gantry::image {
namespace {

constexpr Bytes kMostRaw = kMostChunks * kImageChunkBytes;

std::string shown(std::string_view name) {
  constexpr std::size_t kShown = 40;
  std::string text(name.substr(0, kShown));
  std::ranges::replace_if(text, [](unsigned char c) { return c < 0x20 || c == 0x7f; }, '?');
  return name.size() > kShown ? text + "..." : text;
}

}  // namespace

Result<void> check_name(std::string_view name) {
  constexpr const char* kHint = "name it anew; '.' can stand for '/'";
  if (name.empty() || name.size() > kMostNameBytes)
    return fail(Code::invalid_argument,
                fmt::format("its name '{}' has {} bytes, of 1 to {}", shown(name), name.size(),
                            kMostNameBytes),
                kHint);
  const auto is_wrong = [](unsigned char c) { return c == '/' || c < 0x20 || c == 0x7f; };
  if (std::ranges::any_of(name, is_wrong) || name == "." || name == "..")
    return fail(Code::invalid_argument,
                fmt::format("'{}' is no name of a tensor: it has a '/' or a control character, or "
                            "is that of a folder",
                            shown(name)),
                kHint);
  return {};
}

Result<void> Layout::add(ImageTensor& tensor) {
  GANTRY_TRY(check_name(tensor.name));
  GANTRY_ASSIGN(tensor.bytes, dense_bytes(tensor.tensor));
  if (names_.size() == kMostTensors)
    return fail(Code::too_large, fmt::format("there are more than {} tensors", kMostTensors));
  if (!names_.insert(tensor.name).second)
    return fail(Code::invalid_argument, "another tensor has its name");
  const std::size_t last = partitions_.size();
  if (tensor.partition > last || tensor.partition + 1 < last)
    return fail(
        Code::invalid_argument,
        fmt::format("partition {} does not follow: there are {} so far", tensor.partition, last));
  if (tensor.partition == last) partitions_.push_back({0, chunks(), 0});
  ImagePartition& partition = partitions_.back();
  tensor.offset = up_to(partition.bytes, kImageTensorBorder);
  const Bytes before = partition.first_chunk * kImageChunkBytes;
  if (tensor.bytes > kMostRaw - std::min(kMostRaw, before + tensor.offset))
    return fail(Code::too_large, fmt::format("an image has at most {} bytes", kMostRaw));
  partition.bytes = tensor.offset + tensor.bytes;
  partition.chunks = up_to(partition.bytes, kImageChunkBytes) / kImageChunkBytes;
  return {};
}

std::size_t Layout::chunks() const noexcept {
  return partitions_.empty() ? 0 : partitions_.back().first_chunk + partitions_.back().chunks;
}

namespace {

constexpr const char* kAnew = "copy it again from where it came, or pack it anew";

tl::unexpected<Error> bad(const std::string& place, std::string_view why) {
  return fail(Code::invalid_argument, fmt::format("{}: {}", place, why), kAnew);
}

template <class Entry>
Entry entry_at(ConstByteSpan bytes, Bytes offset) noexcept {
  Entry entry;
  std::memcpy(&entry, bytes.data() + offset, sizeof entry);
  return entry;
}

template <class Entry>
void append(std::vector<std::byte>& to, const Entry& entry) {
  const auto bytes = std::as_bytes(std::span(&entry, 1));
  to.insert(to.end(), bytes.begin(), bytes.end());
}

TensorEntry entry_of(const ImageTensor& tensor) noexcept {
  TensorEntry entry;
  entry.offset = tensor.offset;
  entry.partition = tensor.partition;
  entry.name_bytes = static_cast<std::uint16_t>(tensor.name.size());
  entry.dimensions = static_cast<std::uint8_t>(tensor.tensor.dimensions);
  entry.type_code = tensor.tensor.type.code;
  entry.type_bits = tensor.tensor.type.bits;
  entry.type_lanes = tensor.tensor.type.lanes;
  std::copy_n(tensor.tensor.shape.begin(), tensor.tensor.dimensions, entry.shape.begin());
  return entry;
}

ChunkEntry entry_of(const ImageChunk& chunk) noexcept {
  ChunkEntry entry;
  entry.offset = chunk.offset;
  entry.stored_bytes = chunk.stored_bytes;
  entry.raw_bytes = chunk.raw_bytes;
  entry.raw_crc32c = chunk.raw_crc32c;
  entry.stored_crc32c = chunk.stored_crc32c;
  entry.codec = static_cast<std::uint8_t>(chunk.coding.codec);
  entry.plane_bytes = chunk.coding.plane_bytes;
  if (chunk.coding.frame_bytes != kMostFrameBytes)
    entry.frame_bits = static_cast<std::uint8_t>(std::countr_zero(chunk.coding.frame_bytes));
  return entry;
}

constexpr std::uint8_t kLeastFrameBits = std::countr_zero(kLeastFrameBytes);
constexpr std::uint8_t kMostFrameBits = std::countr_zero(kMostFrameBytes);

/// Reads tables whose sizes are checked, from front to back.
class Parser {
 public:
  Parser(const std::string& path, const Superblock& block, ConstByteSpan bytes)
      : path_(path), block_(block), bytes_(bytes), sizes_(block) {}

  Result<Tables> all() {
    tables_.tensors.reserve(block_.tensors);
    tables_.chunks.reserve(block_.chunks);
    for (std::size_t i = 0; i < block_.tensors; ++i) GANTRY_TRY(tensor(i));
    if (name_at_ != sizes_.content)
      return bad(path_, fmt::format("the names of its tensors end at byte {} of the tables, not {}",
                                    name_at_, sizes_.content));
    GANTRY_TRY(partitions());
    for (std::size_t p = 0; p < tables_.partitions.size(); ++p) {
      const ImagePartition& partition = tables_.partitions[p];
      for (std::size_t i = 0; i < partition.chunks; ++i)
        GANTRY_TRY(chunk(partition.first_chunk + i, partition.bytes - i * kImageChunkBytes));
    }
    if (border_ == block_.file_bytes) return std::move(tables_);
    return bad(path_,
               fmt::format("its chunks end at {}, the file at {}", border_, block_.file_bytes));
  }

 private:
  Result<void> tensor(std::size_t index) {
    const Bytes at = block_.partitions * sizeof(PartitionEntry) + index * sizeof(TensorEntry);
    const auto entry = entry_at<TensorEntry>(bytes_, at);
    ImageTensor tensor;
    const Bytes name_bytes = std::min<Bytes>(entry.name_bytes, sizes_.content - name_at_);
    tensor.name.assign(reinterpret_cast<const char*>(bytes_.data()) + name_at_, name_bytes);
    const auto place = [&] { return tensor_place(path_, index, tensor.name, kImageBorder + at); };
    if (name_bytes != entry.name_bytes)
      return bad(place(), fmt::format("its name has {} bytes, of which the tables hold {}",
                                      entry.name_bytes, name_bytes));
    name_at_ += name_bytes;
    if (entry.dimensions > Tensor::kMaxDimensions)
      return bad(place(), fmt::format("{} dimensions are more than 8", entry.dimensions));
    const DataType type{entry.type_code, entry.type_bits, entry.type_lanes};
    tensor.tensor = Tensor::dense(type, std::span(entry.shape).first(entry.dimensions));
    tensor.partition = entry.partition;
    if (auto added = layout_.add(tensor); !added) return bad(place(), added.error().message);
    if (tensor.offset != entry.offset)
      return bad(place(), fmt::format("it is at byte {} of partition {}; what is before it ends "
                                      "for {}",
                                      entry.offset, entry.partition, tensor.offset));
    if (auto same = entry_of(tensor); std::memcmp(&same, &entry, sizeof entry) != 0)
      return bad(place(), "there is something where nothing must be");
    tables_.tensors.push_back(std::move(tensor));
    return {};
  }

  Result<void> partitions() {
    tables_.partitions = layout_.partitions();
    if (tables_.partitions.size() != block_.partitions || layout_.chunks() != block_.chunks)
      return bad(path_,
                 fmt::format("its tensors need {} partitions and {} chunks; it has {} and {}",
                             tables_.partitions.size(), layout_.chunks(), block_.partitions,
                             block_.chunks));
    for (std::size_t i = 0; i < tables_.partitions.size(); ++i) {
      const ImagePartition& ours = tables_.partitions[i];
      const Bytes at = i * sizeof(PartitionEntry);
      const auto entry = entry_at<PartitionEntry>(bytes_, at);
      if (entry.bytes != ours.bytes || entry.first_chunk != ours.first_chunk ||
          entry.chunks != ours.chunks)
        return bad(
            fmt::format("{}: partition {} (offset {})", path_, i, kImageBorder + at),
            fmt::format("{} bytes in {} chunks from {} on; its tensors need {} in {} from {} "
                        "on",
                        entry.bytes, entry.chunks, entry.first_chunk, ours.bytes, ours.chunks,
                        ours.first_chunk));
    }
    return {};
  }

  Result<void> chunk(std::size_t index, Bytes rest) {
    const auto entry = entry_at<ChunkEntry>(bytes_, sizes_.content + index * sizeof(ChunkEntry));
    const auto place = [&] { return chunk_place(path_, index, entry.offset); };
    if (entry.offset != border_)
      return bad(place(), fmt::format("what is before it ends for {}", border_));
    if (entry.raw_bytes != std::min(rest, kImageChunkBytes))
      return bad(place(), fmt::format("{} raw bytes, of {}", entry.raw_bytes,
                                      std::min(rest, kImageChunkBytes)));
    const bool is_packed = entry.codec != 0;
    if (entry.codec >= kCodecs) return bad(place(), fmt::format("codec {}", entry.codec));
    const bool has_planes = entry.plane_bytes == 2 || entry.plane_bytes == 4;
    if (entry.plane_bytes != 1 && !(is_packed && has_planes))
      return bad(place(), fmt::format("planes of numbers of {} bytes", entry.plane_bytes));
    const std::uint8_t frame_bits = entry.frame_bits == 0 ? kMostFrameBits : entry.frame_bits;
    if (frame_bits < kLeastFrameBits || frame_bits > kMostFrameBits ||
        (!is_packed && entry.frame_bits != 0))
      return bad(place(), fmt::format("frames of 2^{} bytes", frame_bits));
    if (entry.stored_bytes == 0 || entry.stored_bytes > entry.raw_bytes ||
        (entry.stored_bytes == entry.raw_bytes) == is_packed)
      return bad(place(),
                 fmt::format("{} bytes are stored of {}", entry.stored_bytes, entry.raw_bytes));
    if (!is_packed && entry.stored_crc32c != entry.raw_crc32c)
      return bad(place(), "two CRCs of the same bytes");
    if (entry.stored_bytes > block_.file_bytes - border_)
      return bad(place(), fmt::format("{} bytes are stored; the file ends at {}",
                                      entry.stored_bytes, block_.file_bytes));
    tables_.chunks.push_back(
        {entry.offset,
         entry.stored_bytes,
         entry.raw_bytes,
         entry.raw_crc32c,
         entry.stored_crc32c,
         {static_cast<Codec>(entry.codec), entry.plane_bytes, 1U << frame_bits}});
    if (auto same = entry_of(tables_.chunks.back()); std::memcmp(&same, &entry, sizeof same) != 0)
      return bad(place(), "there is something where nothing must be");
    border_ = up_to(border_ + entry.stored_bytes, kImageBorder);
    return {};
  }

  const std::string& path_;
  const Superblock& block_;
  ConstByteSpan bytes_;
  TableSizes sizes_;
  Layout layout_;
  Tables tables_;
  Bytes name_at_ =
      block_.partitions * sizeof(PartitionEntry) + block_.tensors * sizeof(TensorEntry);
  Bytes border_ = up_to(kImageBorder + sizes_.all, kImageBorder);
};

std::uint32_t crc_of(const Superblock& block) noexcept {
  return crc32c(std::as_bytes(std::span(&block, 1)).first(offsetof(Superblock, crc32c)));
}

}  // namespace

std::string chunk_place(const std::string& path, std::size_t index, Bytes offset) {
  return fmt::format("{}: chunk {} (offset {})", path, index, offset);
}

std::string tensor_place(const std::string& path, std::size_t index, std::string_view name,
                         Bytes offset) {
  std::string shown(name.substr(0, 40));
  std::ranges::replace_if(shown, [](unsigned char c) { return c < 0x20 || c == 0x7f; }, '?');
  return fmt::format("{}: tensor {} '{}' (offset {})", path, index, shown, offset);
}

TableSizes::TableSizes(const Superblock& block) noexcept
    : content(Bytes{block.partitions} * sizeof(PartitionEntry) +
              Bytes{block.tensors} * sizeof(TensorEntry) + block.names_bytes),
      all(content + Bytes{block.chunks} * sizeof(ChunkEntry)) {}

Result<Superblock> parse_superblock(const std::string& path, ConstByteSpan bytes,
                                    Bytes file_bytes) {
  const auto block = entry_at<Superblock>(bytes, 0);
  const std::string place = path + ": superblock (offset 0)";
  if (block.magic != kImageMagic)
    return fail(Code::invalid_argument, path + ": it is no image", "gantry pack makes one");
  if (block.version != kVersion)
    return fail(Code::invalid_argument,
                fmt::format("{}: it is of version {}; this Gantry reads {}", place, block.version,
                            kVersion),
                "pack it anew with this version");
  if (block.crc32c != crc_of(block)) return bad(place, "it is not as it was written");
  if (block.zeros != decltype(block.zeros){} || block.chunk_bytes != kImageChunkBytes)
    return bad(place, "there is something that this version does not know");
  if (block.file_bytes != file_bytes)
    return bad(place,
               fmt::format("the image has {} bytes, the file {}: it was {}", block.file_bytes,
                           file_bytes, file_bytes < block.file_bytes ? "cut off" : "made longer"));
  const bool is_counted = block.tensors >= 1 && block.tensors <= kMostTensors &&
                          block.partitions >= 1 && block.partitions <= block.tensors &&
                          block.chunks <= kMostChunks &&
                          block.names_bytes <= Bytes{block.tensors} * kMostNameBytes;
  if (!is_counted)
    return bad(place,
               fmt::format("{} partitions, {} tensors with {} bytes of names, {} chunks",
                           block.partitions, block.tensors, block.names_bytes, block.chunks));
  const TableSizes sizes(block);
  if (sizes.all != block.tables_bytes || file_bytes % kImageBorder != 0 ||
      sizes.all > file_bytes - kImageBorder ||
      block.chunks > (file_bytes - kImageBorder) / kImageBorder)
    return bad(place, fmt::format("{} bytes of tables and {} chunks do not go into {} bytes",
                                  block.tables_bytes, block.chunks, file_bytes));
  return block;
}

std::vector<std::byte> write_tables(const Tables& tables) {
  std::vector<std::byte> bytes;
  for (const ImagePartition& partition : tables.partitions)
    append(bytes, PartitionEntry{partition.bytes, static_cast<std::uint32_t>(partition.first_chunk),
                                 static_cast<std::uint32_t>(partition.chunks)});
  for (const ImageTensor& tensor : tables.tensors) append(bytes, entry_of(tensor));
  for (const ImageTensor& tensor : tables.tensors) {
    const auto name = std::as_bytes(std::span(tensor.name));
    bytes.insert(bytes.end(), name.begin(), name.end());
  }
  for (const ImageChunk& chunk : tables.chunks) append(bytes, entry_of(chunk));
  return bytes;
}

Result<Tables> parse_tables(const std::string& path, const Superblock& block, ConstByteSpan bytes) {
  if (crc32c(bytes) != block.tables_crc32c)
    return bad(fmt::format("{}: tables (offset {})", path, kImageBorder),
               "they are not as they were written");
  return Parser(path, block, bytes).all();
}

Superblock make_superblock(const Tables& tables, ConstByteSpan written, Bytes file_bytes,
                           const ImageDigest& digest) {
  Superblock block;
  block.magic = kImageMagic;
  block.version = kVersion;
  block.chunk_bytes = kImageChunkBytes;
  block.file_bytes = file_bytes;
  block.tables_bytes = written.size();
  block.partitions = static_cast<std::uint32_t>(tables.partitions.size());
  block.tensors = static_cast<std::uint32_t>(tables.tensors.size());
  block.chunks = static_cast<std::uint32_t>(tables.chunks.size());
  for (const ImageTensor& tensor : tables.tensors)
    block.names_bytes += static_cast<std::uint32_t>(tensor.name.size());
  block.digest = digest.bytes;
  block.tables_crc32c = crc32c(written);
  block.crc32c = crc_of(block);
  return block;
}

}  // namespace gantry::image

namespace gantry {

Result<Bytes> dense_bytes(const Tensor& tensor) {
  const auto wrong = [&](std::string_view why) {
    return fail(Code::invalid_argument, fmt::format("its type or shape is none: {}", why));
  };
  if (tensor.dimensions > Tensor::kMaxDimensions) return wrong("more than 8 dimensions");
  if (tensor.type.bits == 0 || tensor.type.lanes == 0) return wrong("a type without bits");
  const std::optional<Groups> groups = groups_of(tensor.type);
  if (!groups && tensor.type.code >= DataType::grouped) return wrong("groups that nobody knows");
  const auto shape = std::span(tensor.shape).first(tensor.dimensions);
  if (std::ranges::any_of(shape, [](std::int64_t one) { return one < 0; }))
    return wrong("a negative dimension");
  std::int64_t numbers = std::ranges::find(shape, 0) == shape.end() ? 1 : 0;
  for (const std::int64_t one : shape) {
    if (__builtin_mul_overflow(numbers, one, &numbers))
      return fail(Code::too_large, "it has more numbers than can be counted");
  }
  if (groups && (shape.empty() || shape.back() % groups->size != 0))
    return wrong("the last dimension has no whole number of groups");
  const std::int64_t units = groups ? numbers / groups->size : numbers;
  const auto unit_bits = static_cast<std::int64_t>(
      groups ? gantry::shape::bytes_of(*groups) * 8 : Bytes{tensor.type.bits} * tensor.type.lanes);
  std::int64_t bits = 0;
  if (__builtin_mul_overflow(units, unit_bits, &bits))
    return fail(Code::too_large, "it has more bits than can be counted");
  return static_cast<Bytes>(bits / 8 + (bits % 8 != 0 ? 1 : 0));
}

}  // namespace gantry
