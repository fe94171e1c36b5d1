#include "device/pipeline/chunk_planner.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace gantry {
namespace {

using std::chrono::nanoseconds;
using testing::AllOf;
using testing::Ge;
using testing::Le;

/// What chunks take whose streams have these starts and rates.
MeasuredChunk chunk(std::uint64_t steps, double in_ns, double compute_ns, double out_ns,
                    std::int64_t start_ns = 0) {
  const auto time = [&](double each) {
    return nanoseconds(start_ns + static_cast<std::int64_t>(each * static_cast<double>(steps)));
  };
  MeasuredChunk measured{steps, time(in_ns), time(compute_ns), time(out_ns), {}};
  measured.all = measured.copy_in + measured.compute + measured.copy_out;
  return measured;
}

PlanInput million() {
  PlanInput input;
  input.steps = 100'000'000;
  input.step_bytes = 8;
  input.device_bytes = Bytes{1} << 30;
  return input;
}

ChunkChoice choose(const PlanInput& input, double in, double compute, double out,
                   std::int64_t start_ns) {
  PipelinePlan plan;
  return choose_by_measure(input, chunk(1000, in, compute, out, start_ns),
                           chunk(100'000, in, compute, out, start_ns), plan);
}

TEST(ChunkPlanner, FindsStartsAndRates) {
  PipelinePlan plan;
  const PlanInput input = million();
  static_cast<void>(
      choose_by_measure(input, chunk(1000, 2, 3, 4, 500), chunk(9000, 2, 3, 4, 500), plan));
  EXPECT_NEAR(plan.copy_in.ns_per_step, 2, 0.01);
  EXPECT_NEAR(plan.compute.ns_per_step, 3, 0.01);
  EXPECT_NEAR(plan.copy_out.ns_per_step, 4, 0.01);
  EXPECT_EQ(plan.compute.start, nanoseconds(500));
  EXPECT_GE(plan.predicted, nanoseconds(4 * input.steps));
  EXPECT_LE(plan.predicted, nanoseconds(5 * input.steps));
  EXPECT_FALSE(plan.reasons.empty());
}

TEST(ChunkPlanner, WhereSizesTellNothingHalfIsTakenForTheStart) {
  PipelinePlan plan;
  static_cast<void>(
      choose_by_measure(million(), chunk(1000, 0, 0, 0, 6'000), chunk(4000, 0, 0, 0, 4'000), plan));
  EXPECT_EQ(plan.copy_in.start, nanoseconds(2'000));
  EXPECT_NEAR(plan.copy_in.ns_per_step, 0.5, 1e-9);
}

// Streams of the same length: with n chunks the run takes n + 2 of their times; a start of a makes
// the best n about sqrt(2 T / a). Twenty percent of time is a wide valley.
TEST(ChunkPlanner, ChunksAreLargerWhereStartsAreDear) {
  std::uint64_t before = 0;
  for (const std::int64_t start : {1'000, 30'000, 1'000'000}) {
    const ChunkChoice choice = choose(million(), 1, 1, 1, start);
    EXPECT_GT(choice.chunk_steps, before);
    before = choice.chunk_steps;
    const double best = std::sqrt(1e8 * static_cast<double>(start) / 2);
    EXPECT_THAT(static_cast<double>(choice.chunk_steps), AllOf(Ge(best / 2), Le(best * 2)));
    EXPECT_EQ(choice.depth, 4u);  // one for each stream and one to spare
  }
}

TEST(ChunkPlanner, SlotsThatAreDearToMakeAreSmall) {
  PlanInput input = million();
  const std::uint64_t cheap = choose(input, 1, 1, 1, 30'000).chunk_steps;
  input.making_ns_per_byte = 5;
  EXPECT_LT(choose(input, 1, 1, 1, 30'000).chunk_steps, cheap / 2);
}

TEST(ChunkPlanner, StreamsThatAreNotFeltNeedNoSlots) {
  EXPECT_EQ(choose(million(), 1, 100, 0.1, 0).depth, 2u);
  EXPECT_EQ(choose(million(), 50, 100, 0.1, 0).depth, 3u);
  PlanInput staged = million();
  staged.is_staged_in = staged.is_staged_out = true;
  EXPECT_EQ(choose(staged, 100, 100, 100, 0).depth, 6u);
}

TEST(ChunkPlanner, SlotsTakeNoMoreThanTheDeviceHas) {
  PlanInput input = million();
  input.fixed_bytes = 1000;
  for (const Bytes bytes : {Bytes{10'000}, Bytes{1} << 20, Bytes{1} << 24}) {
    input.device_bytes = bytes;
    const ChunkChoice choice = choose(input, 1, 1, 1, 1'000'000);
    EXPECT_LE(choice.depth * (choice.chunk_steps * input.step_bytes + input.fixed_bytes), bytes);
    PipelinePlan plan;
    const ChunkChoice plain = default_chunks(input, plan);
    EXPECT_LE(plain.depth * (plain.chunk_steps * input.step_bytes + input.fixed_bytes), bytes);
  }
  input.device_bytes = 10;
  EXPECT_EQ(choose(input, 1, 1, 1, 1000).chunk_steps, 1u);
}

// The host's copies of a ring are a stream like the device's: the longest one sets the pace.
TEST(ChunkPlanner, TheRingsCopiesCountInThePrediction) {
  const auto predicted = [](double stage_in, double stage_out) {
    MeasuredChunk small = chunk(1000, 1, 1, 1, 0), large = chunk(9000, 1, 1, 1, 0);
    for (MeasuredChunk* one : {&small, &large}) {
      const auto steps = static_cast<double>(one->steps);
      one->stage_in = nanoseconds(static_cast<std::int64_t>(stage_in * steps));
      one->stage_out = nanoseconds(static_cast<std::int64_t>(stage_out * steps));
      one->all += one->stage_in + one->stage_out;
    }
    PipelinePlan plan;
    static_cast<void>(choose_by_measure(million(), small, large, plan));
    return static_cast<double>(plan.predicted.count());
  };
  const double bare = predicted(0, 0);
  EXPECT_LT(predicted(0.5, 0.5), bare * 1.1);
  EXPECT_NEAR(predicted(10, 1) / bare, 10, 1);
  EXPECT_NEAR(predicted(1, 10) / bare, 10, 1);
}

// Of as many steps as can be counted, too: they need no bytes.
TEST(ChunkPlanner, ChunksAreOfOneSizeAndNeverMoreThanTheJob) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
  for (const std::uint64_t steps : {std::uint64_t{1}, std::uint64_t{2}, std::uint64_t{3},
                                    std::uint64_t{1000}, std::uint64_t{1'234'567}, kMost}) {
    PlanInput input = million();
    input.steps = steps;
    if (steps == kMost) input.step_bytes = 0;
    PipelinePlan plan;
    for (const ChunkChoice choice : {choose(input, 1, 2, 1, 10'000), default_chunks(input, plan)}) {
      EXPECT_LE(choice.chunk_steps, steps);
      ASSERT_GE(choice.chunk_steps, 1u);
      const std::uint64_t chunks = 1 + (steps - 1) / choice.chunk_steps;
      EXPECT_GE(choice.depth, 1u);
      EXPECT_LE(choice.depth, chunks);
      if (steps == kMost) continue;
      EXPECT_LT(chunks * choice.chunk_steps - steps, std::max<std::uint64_t>(chunks, 2));
    }
  }
}

}  // namespace
}  // namespace gantry
