#pragma once  // tables.hpp: the bytes of an image, docs/formats/image.md: where tensors and chunks
              // lie, and its tables, written and read from a file that may be anything.

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <gantry/image.hpp>
#include <gantry/types.hpp>
#include <unordered_set>

namespace gantry::image {

static_assert(std::endian::native == std::endian::little);  // as numbers lie in the file

inline constexpr std::uint32_t kVersion = 1;

// Beyond these a file is refused before anything is allocated for it.
inline constexpr std::uint32_t kMostTensors = 1u << 20;
inline constexpr std::uint32_t kMostChunks = 1u << 20;
inline constexpr std::uint32_t kMostNameBytes = 255;

/// The first 4096 bytes.
struct Superblock {
  std::array<char, 8> magic{};
  std::uint32_t version = 0;
  std::uint32_t chunk_bytes = 0;
  std::uint64_t file_bytes = 0;
  std::uint64_t tables_bytes = 0;  // from 4096 on
  std::uint32_t partitions = 0;
  std::uint32_t tensors = 0;
  std::uint32_t chunks = 0;
  std::uint32_t names_bytes = 0;
  std::array<std::byte, 16> digest{};
  std::uint32_t tables_crc32c = 0;
  std::array<std::byte, 4024> zeros{};
  std::uint32_t crc32c = 0;  // of all before
};
static_assert(sizeof(Superblock) == 4096 && offsetof(Superblock, digest) == 48 &&
              offsetof(Superblock, crc32c) == 4092);

struct PartitionEntry {
  std::uint64_t bytes = 0;
  std::uint32_t first_chunk = 0;
  std::uint32_t chunks = 0;
};
static_assert(sizeof(PartitionEntry) == 16);

struct TensorEntry {
  std::uint64_t offset = 0;
  std::uint32_t partition = 0;
  std::uint16_t name_bytes = 0;
  std::uint8_t dimensions = 0;
  std::uint8_t type_code = 0;
  std::uint8_t type_bits = 0;
  std::uint8_t zero = 0;
  std::uint16_t type_lanes = 0;
  std::uint32_t zeros = 0;
  std::array<std::int64_t, 8> shape{};
};
static_assert(sizeof(TensorEntry) == 88 && offsetof(TensorEntry, shape) == 24);

struct ChunkEntry {
  std::uint64_t offset = 0;
  std::uint32_t stored_bytes = 0;
  std::uint32_t raw_bytes = 0;
  std::uint32_t raw_crc32c = 0;
  std::uint32_t stored_crc32c = 0;
  std::uint8_t codec = 0;
  std::uint8_t plane_bytes = 0;
  std::uint8_t frame_bits = 0;  // of kMostFrameBytes 0, else of which power of two they are
  std::array<std::uint8_t, 5> zeros{};
};
static_assert(sizeof(ChunkEntry) == 32);

[[nodiscard]] constexpr Bytes up_to(Bytes bytes, Bytes border) noexcept {
  return (bytes + border - 1) / border * border;
}

/// Of a tensor, or of what is called as one. Errors: `invalid_argument`.
[[nodiscard]] Result<void> check_name(std::string_view name);

/// Lays tensors out one behind the other, and their chunks.
class Layout {
 public:
  /// Sets offset and bytes. Errors, which name no tensor: a name that no tensor may have or that
  /// another has, a tensor without a size, a partition that does not follow, too much in all.
  [[nodiscard]] Result<void> add(ImageTensor& tensor);

  /// With the chunks of those before. One at least, unless nothing was added.
  [[nodiscard]] const std::vector<ImagePartition>& partitions() const noexcept {
    return partitions_;
  }
  [[nodiscard]] std::size_t chunks() const noexcept;

 private:
  std::vector<ImagePartition> partitions_;
  std::unordered_set<std::string> names_;
};

/// What an image consists of.
struct Tables {
  std::vector<ImagePartition> partitions;
  std::vector<ImageTensor> tensors;
  std::vector<ImageChunk> chunks;
};

/// Checks a superblock against the size that the file has. Errors: `invalid_argument`.
[[nodiscard]] Result<Superblock> parse_superblock(const std::string& path, ConstByteSpan bytes,
                                                  Bytes file_bytes);

/// Of a checked superblock.
struct TableSizes {
  explicit TableSizes(const Superblock& block) noexcept;
  Bytes content = 0;  ///< Of what the digest goes over: partitions, tensors, names.
  Bytes all = 0;
};

/// Partitions, tensors, names, chunks.
[[nodiscard]] std::vector<std::byte> write_tables(const Tables& tables);
/// Everything that one table says and another implies is compared. Errors: `invalid_argument`, with
/// the tensor or chunk and the offset of its entry or bytes.
[[nodiscard]] Result<Tables> parse_tables(const std::string& path, const Superblock& block,
                                          ConstByteSpan bytes);

/// Sets what follows from the rest: sizes, both CRCs.
[[nodiscard]] Superblock make_superblock(const Tables& tables, ConstByteSpan written,
                                         Bytes file_bytes, const ImageDigest& digest);

/// "model.gimg: chunk 3 (offset 8192)"; "model.gimg: tensor 4 'w' (offset 4504)".
[[nodiscard]] std::string chunk_place(const std::string& path, std::size_t index, Bytes offset);
[[nodiscard]] std::string tensor_place(const std::string& path, std::size_t index,
                                       std::string_view name, Bytes offset);

}  // namespace gantry::image
