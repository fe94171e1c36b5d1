#pragma once  // schedule/collectives/meaning.hpp: whether a plan is the collective that it is said
              // to be.

#include <gantry/collectives.hpp>

namespace gantry {

/// Tensors of a program that are its user's, by name; all others are scratch.
inline constexpr std::string_view kCollectiveTensor = "x";
inline constexpr std::string_view kCollectiveResult = "y";

/// Elements of a rank's tensor, and what they have to come to: the sum of as many elements of the
/// sources, one of each.
struct MeantSpan {
  /// An element of a rank's kCollectiveTensor as it was given: the first one.
  struct Source {
    unsigned rank = 0;
    std::int64_t first = 0;
    friend auto operator<=>(const Source&, const Source&) = default;
  };
  unsigned rank = 0;
  std::int64_t first = 0;
  std::int64_t last = 0;  // one beyond
  std::vector<Source> sources = {};
};

/// What a collective means. It knows no program.
struct CollectiveMeaning {
  std::string_view wanted_in = kCollectiveTensor;
  std::int64_t given_size = 0;   // of kCollectiveTensor
  std::int64_t wanted_size = 0;  // of the tensor `wanted_in`: its least
  std::vector<MeantSpan> given;  // without sources
  std::vector<MeantSpan> wanted;
};

/// `shape`: ranks, size, root and counts of it count. Counts must fit into size.
[[nodiscard]] CollectiveMeaning meaning_of(CollectiveKind kind, const CollectiveShape& shape);

/// Compares where the plan's wanted elements come from with what is meant. The plan's names of
/// matrices say nothing. It has been expanded; check_plan() says whether it comes to what it wants.
/// Errors: `invalid_argument`: which element, of which rank, and why.
[[nodiscard]] Result<void> check_meaning(const Plan& plan, const CollectiveMeaning& meaning);

}  // namespace gantry
