// As many ranks as a group may have: what is picked for them, at each size and on each kind of
// link, is the collective that was asked for, and can be proved. Nothing is run. A program is
// proved once for so many ranks: in the variant that takes more steps.
#include <gtest/gtest.h>

#include <array>
#include <set>

#include "ranks/schedule/collectives/meaning.hpp"

namespace gantry {
namespace {

constexpr std::int64_t kFloatBytes = 4;

struct Asked {
  CollectiveKind kind;
  bool has_counts = false;
};

std::string name_of(const Asked& asked) {
  return std::string(to_string(asked.kind)) + (asked.has_counts ? "-counts" : "");
}

class ManyRanks : public testing::TestWithParam<unsigned> {
 protected:
  [[nodiscard]] CollectiveShape shape_of(const Asked& asked, std::int64_t size) const {
    CollectiveShape shape{.ranks = GetParam(), .size = size, .root = GetParam() - 1};
    if (asked.kind != CollectiveKind::broadcast) shape.root = 0;
    if (asked.has_counts) shape.counts.assign(std::size_t{shape.ranks} * shape.ranks, 1);
    return shape;
  }

  void prove(const Asked& asked, CollectiveShape shape, const CollectiveThresholds& thresholds) {
    const auto choice = pick_collective(name_of(asked), shape.ranks,
                                        static_cast<Bytes>(shape.size * kFloatBytes), thresholds);
    ASSERT_TRUE(choice) << to_string(choice.error());
    if (!proved_.insert(choice->program).second) return;
    SCOPED_TRACE(choice->program + ' ' + choice->variant + ' ' + std::to_string(choice->chunks));
    shape.variant = choice->variant;
    shape.chunks = choice->chunks;
    const auto plan = expand(load_collective(choice->program).value(), shape);
    ASSERT_TRUE(plan) << to_string(plan.error());
    const auto means = check_meaning(*plan, meaning_of(asked.kind, shape));
    ASSERT_TRUE(means) << to_string(means.error());
    const auto facts = check_plan(*plan);
    ASSERT_TRUE(facts) << to_string(facts.error());
  }

 private:
  std::set<std::string> proved_;
};

// 102 were once too many. With 202 no sum goes round a ring: 201 of them is the dearest one.
TEST_P(ManyRanks, CanDoWhatIsPicked) {
  const unsigned ranks = GetParam();
  constexpr std::array kLinks = {LinkKind::shared, LinkKind::stream};
  for (const Asked& asked :
       {Asked{CollectiveKind::all_gather}, Asked{CollectiveKind::reduce_scatter},
        Asked{CollectiveKind::all_reduce}, Asked{CollectiveKind::all_to_all},
        Asked{CollectiveKind::all_to_all, true}, Asked{CollectiveKind::broadcast}})
    for (const LinkKind link : kLinks)
      // The last one makes a piece that is an element shorter than the others.
      for (const std::int64_t size :
           {std::int64_t{ranks}, std::int64_t{1} << 20, (std::int64_t{1} << 28) * ranks - 1})
        ASSERT_NO_FATAL_FAILURE(
            prove(asked, shape_of(asked, size), collective_thresholds(link, ranks)));
}

INSTANTIATE_TEST_SUITE_P(Collectives, ManyRanks, testing::Values(1u, 2u, 201u, kMostGroupRanks));

}  // namespace
}  // namespace gantry
