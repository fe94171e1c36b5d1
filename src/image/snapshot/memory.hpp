#pragma once  // image/snapshot/memory.hpp: the regions of a snapshot, one behind the other.

#include <gantry/image/snapshot.hpp>

#include "base/fd.hpp"
#include "image/snapshot/page_map.hpp"

namespace gantry::snapshot {

inline constexpr std::size_t kMostRegions = 65536;
inline constexpr std::size_t kMostNameBytes = 255;
/// Checks names and sizes. Returns the pages of all. Errors, which name no image:
/// `invalid_argument`, `too_large`.
[[nodiscard]] Result<std::uint64_t> count_pages(std::span<const SnapshotRegion> regions);

/// A memfd with all regions, each from a page on, mapped once. Its pages are made when they are
/// touched, written or copied to it. A fork's copy has no mapping.
class Memory {
 public:
  /// Errors: those of count_pages(), `unsupported`, `system`, `out_of_memory`.
  [[nodiscard]] static Result<Memory> make(std::vector<SnapshotRegion> regions);
  Memory(Memory&& other) noexcept;
  Memory& operator=(Memory&&) = delete;
  ~Memory();

  [[nodiscard]] const std::vector<SnapshotRegion>& regions() const noexcept { return regions_; }
  [[nodiscard]] ByteSpan mapped() const noexcept { return mapped_; }
  [[nodiscard]] std::uint64_t pages() const noexcept { return mapped_.size() / kPageBytes; }
  [[nodiscard]] Result<ByteSpan> region(std::string_view name) const;
  /// "page 3 of 'heap'"
  [[nodiscard]] std::string name_of(std::uint64_t page) const;

  // Past the mapping, so that they raise no faults.
  [[nodiscard]] Result<void> write(std::uint64_t page, ConstByteSpan bytes) const;
  [[nodiscard]] Result<void> read(std::uint64_t page, ByteSpan into) const;
  /// The next pages from `page` on that were ever made; none: {pages(), 0}.
  [[nodiscard]] Run made_from(std::uint64_t page) const noexcept;
  /// In a child of fork(), which has none.
  void forget_mapping() noexcept;
  /// Whoever touches it next raises a fault.
  [[nodiscard]] Result<void> unmap_pages() const;

 private:
  Memory() = default;
  std::vector<SnapshotRegion> regions_;
  Fd fd_;
  ByteSpan mapped_;
};

}  // namespace gantry::snapshot
