// Which program is taken: at each side of each threshold, and that there is such a program.
#include <gmock/gmock.h>

#include <gantry/collectives.hpp>
#include <limits>

namespace gantry {
namespace {

constexpr CollectiveThresholds kSizes{.eager = 100,
                                      .direct = 300,
                                      .at_once = 1000,
                                      .moved_at_once = 900,
                                      .chunk = 250,
                                      .most_chunks = 4};

std::string picked(std::string_view collective, unsigned ranks, Bytes bytes) {
  const auto choice = pick_collective(collective, ranks, bytes, kSizes);
  if (!choice) return to_string(choice.error());
  return choice->program + ' ' + choice->variant + ' ' + std::to_string(choice->chunks);
}

TEST(PickCollective, GoesFromOneStepToRings) {
  EXPECT_EQ(picked("all-reduce", 4, 0), "all-reduce-direct eager 1");
  EXPECT_EQ(picked("all-reduce", 4, 100), "all-reduce-direct eager 1");
  EXPECT_EQ(picked("all-reduce", 4, 101), "all-reduce-at-once eager 1");
  EXPECT_EQ(picked("all-reduce", 4, 1000), "all-reduce-at-once rendezvous 1");
  EXPECT_EQ(picked("all-reduce", 4, 1001), "all-reduce-ring rendezvous 1");
  EXPECT_EQ(picked("all-reduce", 4, 1999), "all-reduce-ring rendezvous 1");
  EXPECT_EQ(picked("all-reduce", 4, 2000), "all-reduce-ring rendezvous 2");
  EXPECT_EQ(picked("all-reduce", 4, 1 << 30), "all-reduce-ring rendezvous 4");
  EXPECT_EQ(picked("all-reduce", 20, 2000), "all-reduce-ring eager 1");
  EXPECT_EQ(picked("all-gather", 4, 900), "all-gather-at-once rendezvous 1");
  EXPECT_EQ(picked("all-gather", 4, 901), "all-gather-ring rendezvous 1");
  EXPECT_EQ(picked("reduce-scatter", 2, 200), "reduce-scatter-at-once eager 1");
  EXPECT_EQ(picked("reduce-scatter", 2, 1001), "reduce-scatter-ring rendezvous 2");
  EXPECT_EQ(picked("broadcast", 5, 225), "broadcast-at-once rendezvous 1");
  EXPECT_EQ(picked("broadcast", 5, 226), "broadcast-chain rendezvous 1");
  EXPECT_EQ(picked("broadcast", 2, 900), "broadcast-at-once rendezvous 1");
  EXPECT_EQ(picked("all-to-all", 4, 400), "all-to-all eager 1");
  EXPECT_EQ(picked("all-to-all-counts", 4, 404), "all-to-all-counts rendezvous 1");
}

TEST(PickCollective, TakesAnySizeAndAnyThresholds) {
  constexpr Bytes kAll = std::numeric_limits<Bytes>::max();
  EXPECT_EQ(picked("all-reduce", 1, kAll), "all-reduce-ring rendezvous 4");
  EXPECT_EQ(picked("all-reduce", 3, kAll / 2 + 2), "all-reduce-ring rendezvous 4")
      << "what a rank would send to all is beyond all numbers";
  const auto choice = pick_collective("all-gather", 2, 4, {0, 0, 0, 0, 0, 0});
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->program, "all-gather-ring");
  EXPECT_EQ(choice->chunks, 1);
  EXPECT_EQ(picked("all-reduce", 0, 1), "a collective of 0 ranks");
  EXPECT_THAT(picked("gather", 2, 1), testing::StartsWith("there is no collective 'gather'; all-"));
}

TEST(PickCollective, KeepsToWhatCanBeProved) {
  constexpr Bytes kLarge = Bytes{1} << 40;
  const auto of_ranks = [](std::string_view collective, unsigned ranks) {
    return pick_collective(collective, ranks, kLarge).value();
  };
  EXPECT_EQ(of_ranks("all-reduce", 78).chunks, 16);
  EXPECT_THAT(of_ranks("all-reduce", 78).reason, testing::EndsWith(" bytes, above 65536"));
  EXPECT_EQ(of_ranks("all-reduce", 128).chunks, 3);
  EXPECT_THAT(of_ranks("all-reduce", 128).reason,
              testing::EndsWith(" bytes, above 65536; more chunks could not be proved"));
  EXPECT_EQ(of_ranks("all-reduce", 201).program, "all-reduce-ring");
  for (const char* const sum : {"all-reduce", "reduce-scatter"}) {
    EXPECT_EQ(of_ranks(sum, 202).program, std::string(sum) + "-at-once");
    EXPECT_THAT(of_ranks(sum, 202).reason,
                testing::HasSubstr(": a ring of so many ranks could not be proved: each with"));
  }
  EXPECT_EQ(of_ranks("all-gather", 256).program, "all-gather-ring");
  EXPECT_EQ(of_ranks("broadcast", 4096).program, "broadcast-at-once");
}

TEST(PickCollective, NamesProgramsThatThereAreAndSaysWhy) {
  for (const char* const collective : {"all-gather", "reduce-scatter", "all-reduce", "all-to-all",
                                       "all-to-all-counts", "broadcast"})
    for (const Bytes bytes : {Bytes{1}, Bytes{500}, Bytes{100'000}}) {
      const auto choice = pick_collective(collective, 4, bytes, kSizes);
      ASSERT_TRUE(choice) << to_string(choice.error());
      const auto program = load_collective(choice->program);
      ASSERT_TRUE(program) << to_string(program.error());
      EXPECT_THAT(program->variants(), testing::Contains(choice->variant));
      EXPECT_THAT(choice->reason, testing::HasSubstr(std::to_string(bytes) + " bytes in 4 ranks"));
    }
}

}  // namespace
}  // namespace gantry
