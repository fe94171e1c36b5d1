#pragma once  // image/snapshot/page_map.hpp: where a snapshot's pages lie in its image.

#include <array>
#include <gantry/types.hpp>
#include <optional>
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

/// Finds the place of a page, and the pages of a place.
class PageMap {
 public:
  /// `touched`: pages of the part `first`, in its order. `runs`: pairs of page and pages, of the
  /// part `rest`. Errors, which name no image: a page that does not exist or is there twice, runs
  /// that are empty or do not go up.
  [[nodiscard]] static Result<PageMap> make(std::uint64_t pages,
                                            const std::vector<std::uint64_t>& touched,
                                            const std::vector<std::array<std::uint64_t, 2>>& runs);

  struct Place {
    Part part{};
    std::uint64_t at = 0;  ///< Pages before it in the part.
  };
  /// Nothing: the page is zero.
  [[nodiscard]] std::optional<Place> find(std::uint64_t page) const noexcept;

  [[nodiscard]] std::uint64_t pages_of(Part part) const noexcept;
  /// Those that pages [at, at + pages) of a part consist of, in their order.
  [[nodiscard]] std::vector<Run> runs_of(Part part, std::uint64_t at, std::uint64_t pages) const;

 private:
  struct Known {
    Run run;
    Part part{};
  };
  [[nodiscard]] const std::vector<Run>& runs(Part part) const noexcept {
    return runs_[static_cast<std::size_t>(part)];
  }
  std::array<std::vector<Run>, 2> runs_;  // of a part, in its order
  std::vector<Known> by_page_;
};

}  // namespace gantry::snapshot
