#pragma once  // snapshot/memory.hpp: the regions of a snapshot, one behind the other, and where
              // their pages lie in its image.

#include <array>
#include <gantry/snapshot.hpp>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/base/os/fd.hpp"

namespace gantry::snapshot {

inline constexpr Bytes kPageBytes = 4096;
/// Pages that are made together, and read together out of turn.
inline constexpr std::uint64_t kGrainPages = 16;
inline constexpr std::uint64_t kMostPages = (std::uint64_t{4} << 40) / kPageBytes;

/// Pages that lie together in memory and in the image.
struct Run {
  std::uint64_t page = 0;  ///< The first.
  std::uint64_t pages = 0;
  std::uint64_t at = 0;  ///< Pages before it in its part.
};
/// The working set, and what is neither that nor zero.
enum class Part : std::uint8_t { first, rest };

/// Finds the place of a page, and the pages of a place. It refers to the tables that it was made
/// of, and adds little of its own: each page of memory that is new delays the first chunk.
class PageMap {
 public:
  using PageRun = std::array<std::uint64_t, 2>;  ///< Page and pages.
  /// `touched`: pages of the part `first`, in its order. `runs`: of the part `rest`. Both outlive
  /// the map. Errors, which name no image: a page that does not exist or is there twice, runs that
  /// are empty or do not go up.
  [[nodiscard]] static Result<PageMap> make(std::uint64_t pages,
                                            std::span<const std::uint64_t> touched,
                                            std::span<const PageRun> runs);

  struct Place {
    Part part{};
    std::uint64_t at = 0;  ///< Pages before it in the part.
  };
  /// Nothing: the page is zero.
  [[nodiscard]] std::optional<Place> find(std::uint64_t page) const noexcept;

  /// Of the part `first`, in its order.
  [[nodiscard]] std::span<const std::uint64_t> touched() const noexcept { return touched_; }
  [[nodiscard]] std::uint64_t pages_of(Part part) const noexcept {
    return part == Part::first ? touched_.size() : rest_pages_;
  }
  /// Those that pages [at, at + pages) of a part consist of, in their order.
  [[nodiscard]] std::vector<Run> runs_of(Part part, std::uint64_t at, std::uint64_t pages) const;

 private:
  [[nodiscard]] Result<void> check_once() const;

  std::span<const std::uint64_t> touched_;
  std::vector<std::uint64_t> by_page_;  // sorted: touched page << 32 | place
  std::span<const PageRun> runs_;
  std::vector<std::uint32_t> run_at_;  // pages of the part before each run
  std::uint64_t rest_pages_ = 0;
};

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

/// Reads pages whatever the program has done to their mapping (mprotect, MADV_DONTNEED of shared
/// memory), and raises no faults. Everything is there, and own memory is not watched any more.
class MemoryReader {
 public:
  /// `memory` outlives it. Errors: `permission_denied` (own memory is read by way of /proc), others
  /// of open(2).
  [[nodiscard]] static Result<MemoryReader> make(const Memory& memory);
  [[nodiscard]] Result<void> read(std::uint64_t page, ByteSpan into) const;
  /// What the kernel last said of pages. Whoever goes through the memory once has one for that.
  struct States {
    std::uint64_t page = 0;  // the first
    std::vector<std::uint64_t> words;
  };
  /// The next pages from `page` on that were ever made; none: {pages(), 0}. Errors: `system`.
  [[nodiscard]] Result<Run> made_from(std::uint64_t page, States& states) const;

 private:
  explicit MemoryReader(const Memory& memory) noexcept : memory_(&memory) {}
  [[nodiscard]] std::uint64_t first_page() const noexcept;
  [[nodiscard]] Result<std::uint64_t> state_of(std::uint64_t page, States& states) const;

  const Memory* memory_;
  Fd contents_, page_map_;  // of own memory: /proc's mem and pagemap
};

}  // namespace gantry::snapshot
