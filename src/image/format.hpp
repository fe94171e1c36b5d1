#pragma once  // image/format.hpp: the bytes of an image: docs/formats/image.md.

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <gantry/types.hpp>

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

}  // namespace gantry::image
