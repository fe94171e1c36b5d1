#pragma once  // image/snapshot/page_map.hpp: where a snapshot's pages lie in its image.

#include <array>
#include <gantry/types.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

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

}  // namespace gantry::snapshot
