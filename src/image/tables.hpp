#pragma once  // image/tables.hpp: the tables of an image as bytes, and read from a file that may be
              // anything.

#include "image/format.hpp"
#include "image/layout.hpp"

namespace gantry::image {

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
