// Property: a plan is taken for a collective if its wanted elements come from where the
// collective's name says, and only then. Method: the library's programs for each kind, and plans
// with one thing changed.
#include "ranks/schedule/collectives/meaning.hpp"

#include <gtest/gtest.h>

#include "ranks/schedule/program/test_collectives.hpp"

namespace gantry {
namespace {

constexpr std::array kKinds = {CollectiveKind::all_gather, CollectiveKind::reduce_scatter,
                               CollectiveKind::all_reduce, CollectiveKind::all_to_all,
                               CollectiveKind::broadcast};

bool is_of(const CollectiveProgram& program, CollectiveKind kind) {
  return program.name().starts_with(to_string(kind));
}

TEST(Meaning, TheLibrarysProgramsAreWhatTheyAreCalledAndNothingElse) {
  test::Random random(3);
  const auto programs = list_collectives();
  ASSERT_TRUE(programs);
  unsigned taken = 0;
  for (const auto& program : *programs)
    for (unsigned ranks = 1; ranks <= 5; ++ranks)
      for (const std::int64_t size : {0, 1, 5, 24}) {
        CollectiveShape shape = test::shape_for(program.name(), ranks, size, 1 + size % 3, random);
        shape.root = ranks - 1;
        const auto plan = expand(program, shape);
        ASSERT_TRUE(plan) << to_string(plan.error());
        for (const CollectiveKind kind : kKinds) {
          const auto checked = check_meaning(*plan, meaning_of(kind, shape));
          if (is_of(program, kind)) {
            ++taken;
            EXPECT_TRUE(checked) << program.name() << ", " << ranks << " ranks, size " << size
                                 << ": " << to_string(checked.error());
          } else if (ranks > 1 && size == 24) {
            EXPECT_FALSE(checked) << program.name() << " as " << to_string(kind);
          }
        }
      }
  EXPECT_EQ(taken, programs->size() * 5 * 4);
}

/// A plan of the library's, to be changed.
struct Changed {
  CollectiveShape shape{.ranks = 3, .size = 8};
  Plan plan;
  CollectiveMeaning meaning;

  Changed(CollectiveKind kind, const std::string& program) {
    plan = expand(load_collective(program).value(), shape).value();
    meaning = meaning_of(kind, shape);
  }
  std::string error() const {
    const auto checked = check_meaning(plan, meaning);
    return checked ? "none" : checked.error().message;
  }
};

Changed sum() {
  return {CollectiveKind::all_reduce, "all-reduce-direct"};
}

TEST(Meaning, WhatIsWantedIsNeitherLessNorAnotherSum) {
  Changed less = sum();
  less.plan.wanted.front().sum.pop_back();
  EXPECT_EQ(less.error(),
            "rank 0: element 0 is x@0[0] + x@1[0] and should be x@0[0] + x@1[0] + x@2[0]");
  Changed twice = sum();
  twice.plan.wanted.back().sum[1] = twice.plan.wanted.back().sum[0];
  EXPECT_EQ(twice.error(),
            "rank 2: element 0 is x@0[0] + x@0[0] + x@2[0] and should be x@0[0] + x@1[0] + x@2[0]");
  Changed shifted = sum();
  PlanValue& part = shifted.plan.wanted.front();
  part.place.rect.cols = 7;
  part.sum[2].col = 1;
  EXPECT_EQ(shifted.error(),
            "rank 0: element 0 is x@0[0] + x@1[0] + x@2[1] and should be x@0[0] + x@1[0] + x@2[0]");
  Changed shorter = sum();
  shorter.plan.wanted[1].place.rect.cols = 7;
  EXPECT_EQ(shorter.error(), "rank 1: nothing known is wanted at element 7");
  Changed unknown = sum();
  unknown.plan.wanted[1].sum[0].left = "Y";
  EXPECT_EQ(unknown.error(), "rank 1: nothing known is wanted at element 0");
  Changed product = sum();
  product.plan.wanted[1].sum[0].right = "X_0";
  EXPECT_EQ(product.error(), "rank 1: nothing known is wanted at element 0");
}

TEST(Meaning, NothingElseIsWanted) {
  Changed rest(CollectiveKind::reduce_scatter, "reduce-scatter-at-once");
  rest.plan.wanted.push_back(rest.plan.wanted.front());
  rest.plan.wanted.back().place.rect.col = 6;
  EXPECT_EQ(rest.error(), "rank 0: it wants more: x 6:8");
  Changed scratch = sum();
  scratch.plan.wanted.push_back(scratch.plan.wanted.front());
  scratch.plan.wanted.back().place.tensor = 1;
  EXPECT_EQ(scratch.error(), "rank 0: it wants more: t 0:8");
}

TEST(Meaning, WhatIsGivenIsWhatTheCallerHas) {
  Changed scratch = sum();
  scratch.plan.given.push_back(scratch.plan.given.front());
  scratch.plan.given.back().place.tensor = 1;
  scratch.plan.given.back().sum.front().left = "T";
  EXPECT_EQ(scratch.error(), "rank 0: it takes t 0:8 for given");
  Changed more(CollectiveKind::all_gather, "all-gather-ring");
  more.plan.given[1].place.rect.cols += 1;
  EXPECT_EQ(more.error(), "rank 1: it takes x 2:6 for given");
  Changed twice = sum();
  twice.plan.given[1].sum = twice.plan.given[0].sum;
  EXPECT_NE(twice.error().find("given at rank"), std::string::npos) << twice.error();
  Changed added = sum();
  added.plan.given[1].sum.push_back({"Y"});
  EXPECT_EQ(added.error(), "rank 1: what is given is one matrix");
}

TEST(Meaning, TensorsHaveTheCallersSize) {
  Changed longer = sum();
  longer.plan.tensors.front().cols = 9;
  EXPECT_EQ(longer.error(), "its tensor x is 1 x 9, and not 1 x 8");
  Changed unnamed = sum();
  unnamed.plan.tensors.front().name = "z";
  EXPECT_EQ(unnamed.error(), "it has no tensor x");
  Changed short_result(CollectiveKind::all_to_all, "all-to-all");
  short_result.plan.tensors[1].cols = 8;
  EXPECT_EQ(short_result.error(), "its tensor y is 1 x 8, and not 1 x 9");
}

// The names of matrices are the program's.
TEST(Meaning, MatricesMayBeNamedAndCutInAnyWay) {
  Changed cut = sum();
  PlanValue half = cut.plan.wanted.front();
  half.place.rect.col = 3;
  half.place.rect.cols = 5;
  cut.plan.wanted.front().place.rect.cols = 3;
  cut.plan.wanted.push_back(half);
  for (PlanValue* const value : {&cut.plan.given[0], &cut.plan.given[1], &cut.plan.given[2]}) {
    value->sum.front().left = "All";  // a row of one matrix each
    value->sum.front().row = value->place.rank;
    value->sum.front().col = 100;
  }
  for (PlanValue& value : cut.plan.wanted)
    for (unsigned i = 0; i < value.sum.size(); ++i) value.sum[i] = {"All", "", i, 100};
  EXPECT_EQ(cut.error(), "none");
}

}  // namespace
}  // namespace gantry
