#pragma once  // snapshot/tables.hpp: what a snapshot's image says of its pages; written and read.

#include <gantry/snapshot.hpp>

#include "image/load/load_job.hpp"
#include "image/snapshot/memory.hpp"

namespace gantry::snapshot {

inline constexpr std::uint64_t kVersion = 2;

/// The tensors of a snapshot's image, in their order: docs/formats/image.md.
enum class Index : std::uint8_t { snapshot, sizes, names, touched, runs, crcs, first, rest };
inline constexpr std::size_t kTensors = 8;
/// The partitions: tables, working set, rest.
[[nodiscard]] constexpr unsigned partition_of(Part part) noexcept {
  return part == Part::first ? 1 : 2;
}

struct Tables {
  std::vector<SnapshotRegion> regions;
  std::vector<std::uint64_t> touched;              // pages of the part `first`, in its order
  std::vector<std::array<std::uint64_t, 2>> runs;  // page and pages, of the part `rest`
  std::vector<std::uint32_t> crcs;  // of the pages of `first`, then of those of `rest`
};

/// As write_image() wants them.
[[nodiscard]] std::vector<ImageTensor> tensors_of(const Tables& tables);
/// The bytes of one of the tables.
[[nodiscard]] std::vector<std::byte> bytes_of(const Tables& tables, Index index);

/// What was read of an image. The map and the CRCs lie in the bytes.
struct Checked {
  std::vector<SnapshotRegion> regions;
  LoadMemory bytes;  ///< Of all tables.
  PageMap pages;
  std::span<const std::uint32_t> crcs;  ///< As Tables::crcs.
};
/// Reads and checks everything but the pages themselves. Errors: `invalid_argument`, with the image
/// and what is wrong; those of Image::read().
[[nodiscard]] Result<Checked> read_tables(Image& image);

/// Writes all pages that are not zero, and those of `touched` first. Reads each page twice: what is
/// the same both times was so at one moment, between the first reading of the last page and the
/// second of the first. Errors: `invalid_argument` (a page that differs, with its number;
/// `touched`); those of write_image().
[[nodiscard]] Result<ImageFacts> save(const std::string& path, const Memory& memory,
                                      const std::vector<std::uint64_t>& touched,
                                      const ImageOptions& packing);

}  // namespace gantry::snapshot
