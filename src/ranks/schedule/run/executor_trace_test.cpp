// Property: while somebody records, each operation of a plan is in its rank's track once, by its
// name; also in a process that has no end of a channel.
#include <gmock/gmock.h>

#include <filesystem>
#include <gantry/runtime.hpp>
#include <map>

#include "ranks/schedule/run/test_ranks.hpp"

namespace gantry {
namespace {

using test::Via;
using trace::Event;
using trace::EventKind;
using trace::Track;

constexpr std::string_view kTwoRanks = R"(gantry-plan 1
ranks 2
lanes 1
tensor a 4 8 i64
tensor b 4 8 i64
tensor s 4 8 i64
given a@0 0:4,0:8 = X 0,0
given a@1 0:4,0:8 = Y 0,0
wanted s@1 0:4,0:8 = X 0,0 + Y 0,0
fill 1/0 s@1 0:4,0:8
put 0/0 a@0 0:4,0:8 to b@1 0:4,0:8
reduce 1/0 a@1 0:4,0:8 to s@1 0:4,0:8
reduce 1/0 b@1 0:4,0:8 to s@1 0:4,0:8 after 1
signal 1/0 to 0
get 0/0 s@1 0:2,0:8 to s@0 0:2,0:8 after 4
copy 0/0 s@0 0:2,0:8 to b@0 2:4,0:8
signal 0/0 to 1
barrier 0/0
barrier 1/0 after 7
)";

struct Named {
  std::string what;
  Bytes bytes;
  friend bool operator==(const Named&, const Named&) = default;
  friend void PrintTo(const Named& named, std::ostream* out) {
    *out << named.what << ", " << named.bytes << " bytes";
  }
};

class PlanTrace : public testing::TestWithParam<Via> {
 protected:
  PlanTrace() {
    std::string made = std::filesystem::temp_directory_path() / "gantry-plan-trace-XXXXXX";
    directory_ = ::mkdtemp(made.data());
  }
  ~PlanTrace() override { std::filesystem::remove_all(directory_); }

  void run_both(const Plan& plan, unsigned runs) const {
    const auto body = [&](Group& group) {
      const auto buffers = PlanBuffers::make(plan, group.rank());
      ASSERT_TRUE(buffers) << to_string(buffers.error());
      auto executor = PlanExecutor::prepare(group, plan, buffers->tensors);
      ASSERT_TRUE(executor) << to_string(executor.error());
      for (unsigned run = 0; run < runs; ++run) ASSERT_TRUE(executor->run());
    };
    test::at_all_ranks(2, GetParam(), body, directory_);
  }
  /// By their numbers; each is there as often as the plan ran.
  static std::map<unsigned, Named> events_of(const Track& track, EventKind kind, unsigned runs) {
    std::map<unsigned, Named> found;
    std::map<unsigned, unsigned> times;
    for (const Event& event : track.events) {
      if (event.kind != kind) continue;
      found[event.number] = {event.what, event.bytes};
      ++times[event.number];
    }
    for (const auto& [step, count] : times) EXPECT_EQ(count, runs) << "step " << step;
    return found;
  }

  std::string directory_;
};

TEST_P(PlanTrace, EachOperationIsThereOnceByItsName) {
  constexpr unsigned kRuns = 3;
  const auto plan = parse_plan(kTwoRanks);
  ASSERT_TRUE(plan) << to_string(plan.error());
  auto recording = trace::Recording::start({directory_});
  ASSERT_TRUE(recording) << recording.error().message;
  run_both(*plan, kRuns);
  const auto recorded = recording->finish();
  ASSERT_TRUE(recorded) << recorded.error().message;
  EXPECT_THAT(recorded->notes, testing::IsEmpty());
  std::map<std::string, const Track*> tracks;
  for (const Track& track : recorded->tracks) {
    if (track.kind != trace::EndKind::rank) continue;
    EXPECT_TRUE(tracks.emplace(track.channel, &track).second);
  }
  ASSERT_TRUE(tracks.contains("test, rank 0") && tracks.contains("test, rank 1"));
  const std::map<unsigned, Named> first{{1, {"put b@1 0:4,0:8", 256}},
                                        {5, {"get s@1 0:2,0:8", 128}},
                                        {6, {"copy b@0 2:4,0:8", 128}},
                                        {7, {"signal to 1", 0}},
                                        {8, {"barrier", 0}}};
  const std::map<unsigned, Named> second{{0, {"fill s@1 0:4,0:8", 256}},
                                         {2, {"reduce s@1 0:4,0:8", 256}},
                                         {3, {"reduce s@1 0:4,0:8", 256}},
                                         {4, {"signal to 0", 0}},
                                         {9, {"barrier", 0}}};
  EXPECT_EQ(events_of(*tracks["test, rank 0"], EventKind::step, kRuns), first);
  EXPECT_EQ(events_of(*tracks["test, rank 1"], EventKind::step, kRuns), second);
  const auto came = events_of(*tracks["test, rank 1"], EventKind::arrival, kRuns);
  ASSERT_TRUE(came.contains(1) && came.contains(7) && came.contains(8));
  EXPECT_EQ(came.at(1), (Named{"put b@1 0:4,0:8", 256}));
  for (const auto& [name, track] : tracks)
    for (const Event& event : track->events) {
      if (event.kind != EventKind::wait) continue;
      EXPECT_TRUE(event.what == "ranks" || event.what.starts_with("step ")) << event.what;
    }
}

TEST_P(PlanTrace, NothingIsWrittenWhileNobodyRecords) {
  const auto plan = parse_plan(kTwoRanks);
  ASSERT_TRUE(plan);
  run_both(*plan, 1);
  EXPECT_FALSE(std::filesystem::exists(directory_ + "/trace"));
}

INSTANTIATE_TEST_SUITE_P(Links, PlanTrace, testing::Values(Via::stream, Via::shared, Via::threaded),
                         [](const auto& of) { return test::name_of(of.param); });

}  // namespace
}  // namespace gantry
