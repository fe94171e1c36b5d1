#pragma once  // image/snapshot/memory.hpp: the regions of a snapshot, one behind the other.

#include <gantry/image/snapshot.hpp>
#include <unordered_map>

#include "base/fd.hpp"
#include "image/snapshot/page_map.hpp"

namespace gantry::snapshot {

inline constexpr std::size_t kMostRegions = 65536;
inline constexpr std::size_t kMostNameBytes = 255;
/// Checks names and sizes. Returns the pages of all. Errors, which name no image:
/// `invalid_argument`, `too_large`.
[[nodiscard]] Result<std::uint64_t> count_pages(std::span<const SnapshotRegion> regions);

/// One mapping with all regions, each from a page on. Its pages are made when they are touched,
/// written or copied to it. A fork's copy has no mapping.
class Memory {
 public:
  /// `shared`: of a memfd, whose pages may be there and not mapped, as recording needs. `own`: as a
  /// heap's, whose pages take a third less time to make.
  enum class Kind : std::uint8_t { shared, own };
  /// Nobody may touch it before open(). Errors: those of count_pages(), `unsupported`, `system`,
  /// `out_of_memory`.
  [[nodiscard]] static Result<Memory> make(std::vector<SnapshotRegion> regions, Kind kind);
  /// By then it is watched, if ever. Errors: `out_of_memory`.
  [[nodiscard]] Result<void> open() const;
  Memory(Memory&& other) noexcept;
  Memory& operator=(Memory&&) = delete;
  ~Memory();

  [[nodiscard]] const std::vector<SnapshotRegion>& regions() const noexcept { return regions_; }
  [[nodiscard]] Kind kind() const noexcept { return fd_ ? Kind::shared : Kind::own; }
  [[nodiscard]] ByteSpan mapped() const noexcept { return mapped_; }
  [[nodiscard]] std::uint64_t pages() const noexcept { return mapped_.size() / kPageBytes; }
  [[nodiscard]] Result<ByteSpan> region(std::string_view name) const;
  /// "page 3 of 'heap'"
  [[nodiscard]] std::string name_of(std::uint64_t page) const;

  /// Past the mapping if it is shared, so that it raises no faults. Own memory is not watched then.
  [[nodiscard]] Result<void> write(std::uint64_t page, ConstByteSpan bytes) const;
  /// In a child of fork(), which has none.
  void forget_mapping() noexcept;
  /// Of shared memory: whoever touches it next raises a fault.
  [[nodiscard]] Result<void> unmap_pages() const;

 private:
  friend class MemoryReader;
  Memory() = default;
  std::vector<SnapshotRegion> regions_;
  std::unordered_map<std::string_view, ByteSpan> by_name_;  // of regions_
  Fd fd_;                                                   // of shared memory
  ByteSpan mapped_;
};

}  // namespace gantry::snapshot
