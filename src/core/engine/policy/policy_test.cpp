#include <gantry/shape.hpp>

#include "core/base/sizes.hpp"
#include "core/engine/policy/policy.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gantry {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using enum Move::Kind;

constexpr std::size_t kInline = 0, kThread = 1, kDsa = 2;

const std::vector<Move::Kind> kAllKinds{copy, fill, reshape};

EngineCosts costs_of(std::string name, double start_ns, double queued_start_ns, double caller_ns,
                     double bytes_per_ns) {
  EngineCosts costs{std::move(name), false, {}};
  for (Bytes bytes = 64; bytes <= 256 * kMiB; bytes *= 4) {
    const double moving = static_cast<double>(bytes) / bytes_per_ns;
    costs.points.push_back({bytes, start_ns + moving, queued_start_ns + moving,
                            caller_ns > 0 ? caller_ns : start_ns + moving});
  }
  return costs;
}

// inline 10 B/ns; thread 12 B/ns (a waiter helps) and 20 us late; dsa 30 B/ns and 1.2 us late.
Calibration calibration() {
  Calibration all;
  all.source = Calibration::Source::full;
  all.streaming_from = 16 * kMiB;
  all.cache_share = 4 * kMiB;
  all.engines = {costs_of("inline", 30, 30, 0, 10), costs_of("thread", 20'000, 2'000, 1'000, 12),
                 costs_of("dsa", 1'200, 300, 250, 30)};
  return all;
}

Policy policy_over(std::size_t engines, const Calibration& measured = calibration()) {
  const std::vector<Member> all{{"inline", CopyEngine::inline_, kAllKinds, 64},
                                {"thread", CopyEngine::thread, kAllKinds, 64},
                                {"dsa", CopyEngine::dsa, {copy}, 64}};
  return Policy(measured, {all.begin(), all.begin() + static_cast<std::ptrdiff_t>(engines)});
}

// Nothing is read: a policy looks at addresses, not at what is there.
Move move_of(Bytes bytes, Move::Kind kind = copy) {
  Move move;
  move.kind = kind;
  move.bytes = bytes;
  move.resident = true;
  return move;
}

Situation situation_of(SubmitMode mode) {
  Situation situation;
  situation.use = mode;
  return situation;
}

// ---- the table -----------------------------------------------------------------------------

struct Row {
  const char* what;
  std::size_t engines;
  SubmitMode use;
  Move move;
  void (*change)(Situation&, Move&);
  std::size_t expected;
};
void PrintTo(const Row& row, std::ostream* out) {
  *out << row.what;
}
constexpr auto kAsIs = [](Situation&, Move&) {};

class PolicyTable : public ::testing::TestWithParam<Row> {};

TEST_P(PolicyTable, Chooses) {
  const Row& row = GetParam();
  const Policy policy = policy_over(row.engines);
  Situation situation = situation_of(row.use);
  Move move = row.move;
  row.change(situation, move);
  EXPECT_EQ(policy.choose(move, situation), row.expected);
}

const Row kTable[] = {
    {"small, awaited", 3, SubmitMode::synchronous, move_of(64), kAsIs, kInline},
    {"small, queued", 3, SubmitMode::queued, move_of(64), kAsIs, kInline},
    {"8 KiB, awaited: the device starts too late", 3, SubmitMode::synchronous, move_of(8 * kKiB),
     kAsIs, kInline},
    {"64 KiB, awaited: the device is sooner", 3, SubmitMode::synchronous, move_of(64 * kKiB), kAsIs,
     kDsa},
    {"256 KiB, awaited, no device: waking costs more", 2, SubmitMode::synchronous,
     move_of(256 * kKiB), kAsIs, kInline},
    {"64 MiB, awaited, no device: help gains", 2, SubmitMode::synchronous, move_of(64 * kMiB),
     kAsIs, kThread},
    {"16 MiB, queued, no device: frees the caller", 2, SubmitMode::queued, move_of(16 * kMiB),
     kAsIs, kThread},
    {"the same, and no CPU is free", 2, SubmitMode::queued, move_of(16 * kMiB),
     [](Situation& s, Move&) { s.free_cpus = 0; }, kInline},
    {"64 MiB, awaited, and no CPU is free", 2, SubmitMode::synchronous, move_of(64 * kMiB),
     [](Situation& s, Move&) { s.free_cpus = 0; }, kInline},
    {"64 KiB, awaited, the device busy with 64 MiB", 3, SubmitMode::synchronous, move_of(64 * kKiB),
     [](Situation& s, Move&) { s.ahead[kDsa] = 64 * kMiB; }, kInline},
    {"64 MiB, queued, the device busy with 256 MiB", 3, SubmitMode::queued, move_of(64 * kMiB),
     [](Situation& s, Move&) { s.ahead[kDsa] = 256 * kMiB; }, kThread},
    {"24 KiB, awaited, aligned", 3, SubmitMode::synchronous, move_of(24 * kKiB), kAsIs, kDsa},
    {"24 KiB, awaited, not aligned", 3, SubmitMode::synchronous, move_of(24 * kKiB),
     [](Situation&, Move& m) { m.source = reinterpret_cast<const std::byte*>(1); }, kInline},
    {"24 KiB, awaited, pages unknown", 3, SubmitMode::synchronous, move_of(24 * kKiB),
     [](Situation&, Move& m) { m.resident = false; }, kInline},
    {"a kind that the device has not", 3, SubmitMode::synchronous, move_of(64 * kKiB, fill), kAsIs,
     kInline},
    {"64 KiB, awaited, the device refused", 3, SubmitMode::synchronous, move_of(64 * kKiB),
     [](Situation& s, Move&) { s.refused[kDsa] = true; }, kInline},
    {"all but the device refused", 3, SubmitMode::synchronous, move_of(64),
     [](Situation& s, Move&) { s.refused[kInline] = s.refused[kThread] = true; }, kDsa},
};
INSTANTIATE_TEST_SUITE_P(Rows, PolicyTable, ::testing::ValuesIn(kTable));

// ---- what holds for all sizes --------------------------------------------------------------

// By its own predictions, which is all that a policy can promise.
TEST(Policies, AreNeverATenthBehindTheBestEngine) {
  const Policy policy = policy_over(3);
  for (const SubmitMode use : {SubmitMode::synchronous, SubmitMode::queued})
    for (Bytes bytes = 64; bytes <= 1024 * kMiB; bytes += bytes / 3) {
      const Move move = move_of(bytes);
      const Verdicts verdicts = policy.weigh(move, situation_of(use));
      const auto best =
          std::min({verdicts[0].predicted_ns, verdicts[1].predicted_ns, verdicts[2].predicted_ns});
      const std::size_t chosen = policy.choose(move, situation_of(use));
      EXPECT_LE(verdicts[chosen].predicted_ns, best * 1.1) << bytes << " bytes, " << to_string(use);
    }
}

TEST(Policies, CallSmallOnlyWhatTheFirstEngineTakes) {
  for (const std::size_t engines : {1, 2, 3}) {
    const Policy policy = policy_over(engines);
    for (const SubmitMode use : {SubmitMode::synchronous, SubmitMode::queued})
      for (Bytes bytes = 1; bytes <= 1024 * kMiB; bytes += bytes / 4 + 1) {
        const Move move = move_of(bytes);
        if (!policy.is_small(move, use)) break;
        EXPECT_EQ(policy.choose(move, situation_of(use)), kInline) << bytes;
      }
  }
}

TEST(Policies, OverOneEngineNeverChoose) {
  const Policy policy = policy_over(1);
  EXPECT_TRUE(policy.is_small(move_of(1024 * kMiB), SubmitMode::queued));
}

TEST(Policies, CloseToTheFirstPreferIt) {
  Calibration close = calibration();
  close.engines = {costs_of("inline", 30, 30, 0, 10), costs_of("thread", 30, 30, 20, 10.4)};
  const Policy policy(close, {{"inline", CopyEngine::inline_, kAllKinds, 64},
                              {"thread", CopyEngine::thread, kAllKinds, 64}});
  EXPECT_TRUE(policy.is_small(move_of(256 * kMiB), SubmitMode::synchronous));
}

// As a quick calibration for one CPU once had it: 2.1 us beside 1.7, and 8.8 beside 10 at 128 KiB.
TEST(Policies, TakeNoGainOfASingleSizeForOne) {
  Calibration disturbed;
  disturbed.engines = {{"inline",
                        false,
                        {{1024, 250, 250, 250},
                         {16 * kKiB, 2100, 1450, 1450},
                         {128 * kKiB, 8830, 8860, 8860},
                         {kMiB, 73'000, 72'000, 72'000}}},
                       {"thread",
                        false,
                        {{1024, 440, 9'000, 114},
                         {16 * kKiB, 1660, 20'000, 600},
                         {128 * kKiB, 9980, 47'000, 1000},
                         {kMiB, 120'000, 83'000, 500}}}};
  const Policy policy(disturbed, {{"inline", CopyEngine::inline_, kAllKinds, 64},
                                  {"thread", CopyEngine::thread, kAllKinds, 64}});
  EXPECT_TRUE(policy.is_small(move_of(16 * kKiB), SubmitMode::synchronous));
  EXPECT_TRUE(policy.is_small(move_of(kMiB), SubmitMode::synchronous));
}

TEST(Policies, EstimateWhatWasNotMeasured) {
  const Policy policy(default_calibration(32 * kMiB, 2),
                      {{"inline", CopyEngine::inline_, kAllKinds, 64},
                       {"thread", CopyEngine::thread, kAllKinds, 64}});
  EXPECT_TRUE(policy.is_small(move_of(64 * kKiB), SubmitMode::queued));
  const Move large = move_of(64 * kMiB);
  EXPECT_EQ(policy.choose(large, situation_of(SubmitMode::queued)), kThread);
  EXPECT_EQ(policy.choose(large, situation_of(SubmitMode::synchronous)), kInline);
}

// ---- reshapes ------------------------------------------------------------------------------

/// In halves, in doubles, or turned round; so many bytes are made.
ReshapePlan plan_of(ReshapeClass kind, Bytes bytes) {
  const auto count = static_cast<std::int64_t>(bytes / 4);
  const std::array<std::int64_t, 1> row{kind == ReshapeClass::narrowing ? 2 * count : count};
  if (kind == ReshapeClass::narrowing)
    return *ReshapePlan::make(types::bf16, Tensor::dense(types::f32, row));
  if (kind == ReshapeClass::widening)
    return *ReshapePlan::make(types::f32, Tensor::dense(types::u8, row));
  const std::array<std::int64_t, 2> wide{count / 4, 4}, high{4, count / 4};
  return *ReshapePlan::make(Tensor::dense(types::f32, high), Tensor::dense(types::f32, wide),
                            {.order = {1, 0}});
}

Move reshape_of(const ReshapePlan& plan) {
  Move move = move_of(plan.destination_bytes(), reshape);
  move.plan = &plan;
  move.source_bytes = plan.source_bytes();
  return move;
}

constexpr std::array kClasses{ReshapeClass::narrowing, ReshapeClass::widening,
                              ReshapeClass::permuting};

// As copies; but threads halve the time of permuting, which is ten times as dear.
Policy policy_with_reshapes(std::size_t engines = 3) {
  Calibration all = calibration();
  for (std::size_t i = 0; i < kReshapeClasses; ++i) {
    const bool dear = kClasses[i] == ReshapeClass::permuting;
    all.engines[kInline].reshapes[i] = costs_of("", 30, 30, 0, dear ? 1 : 10).points;
    all.engines[kThread].reshapes[i] = costs_of("", 20'000, 2'000, 1'000, dear ? 2 : 10).points;
  }
  return policy_over(engines, all);
}

TEST(Policies, ChooseForAReshapeByTheCurveOfItsClass) {
  const Policy policy = policy_with_reshapes();
  for (const ReshapeClass kind : kClasses) {
    const ReshapePlan plan = plan_of(kind, kMiB);
    ASSERT_EQ(plan.kind(), kind);
    const Move move = reshape_of(plan);
    const bool dear = kind == ReshapeClass::permuting;
    EXPECT_EQ(policy.choose(move, situation_of(SubmitMode::synchronous)), dear ? kThread : kInline)
        << to_string(kind);
    EXPECT_EQ(policy.is_small(move, SubmitMode::synchronous), !dear) << to_string(kind);
  }
  const Move copied = move_of(kMiB);  // 100 us, and 36 of the device
  EXPECT_EQ(policy.choose(copied, situation_of(SubmitMode::synchronous)), kDsa);
}

TEST(Policies, CallAReshapeSmallOnlyWhereTheFirstEngineTakesIt) {
  const Policy policy = policy_with_reshapes(2);
  for (const ReshapeClass kind : kClasses)
    for (const SubmitMode use : {SubmitMode::synchronous, SubmitMode::queued})
      for (Bytes bytes = 64; bytes <= 64 * kMiB; bytes *= 2) {
        const ReshapePlan plan = plan_of(kind, bytes);
        const Move move = reshape_of(plan);
        if (!policy.is_small(move, use)) break;
        EXPECT_EQ(policy.choose(move, situation_of(use)), kInline)
            << to_string(kind) << ' ' << bytes;
      }
}

TEST(Policies, TakeAReshapeThatWasNotMeasuredForACopyOfWhatItMakes) {
  const Policy policy = policy_over(2);
  const ReshapePlan plan = plan_of(ReshapeClass::narrowing, 64 * kMiB);
  const Move move = reshape_of(plan), copied = move_of(64 * kMiB);
  const Situation now = situation_of(SubmitMode::synchronous);
  EXPECT_EQ(policy.choose(move, now), kThread);
  EXPECT_EQ(policy.weigh(move, now)[kInline].predicted_ns,
            policy.weigh(copied, now)[kInline].predicted_ns);
}

TEST(Policies, SayWhatAReshapeMakesOfWhat) {
  const Policy policy = policy_with_reshapes();
  const ReshapePlan plan = plan_of(ReshapeClass::narrowing, kMiB);
  const Explanation whole = policy.explain(reshape_of(plan), situation_of(SubmitMode::queued));
  EXPECT_THAT(whole.reasons, Contains("a narrowing reshape: 2 MiB in, 1 MiB out"));
  Move part = reshape_of(plan);
  part.plan_from = 4 * kKiB;
  part.bytes = 8 * kKiB;
  EXPECT_THAT(policy.explain(part, situation_of(SubmitMode::queued)).reasons,
              Contains("a narrowing reshape: 16 KiB in, 8 KiB out"));
  EXPECT_FALSE(whole.candidates[kDsa].possible);
}

// ---- the cache -----------------------------------------------------------------------------

TEST(Policies, ResolveTheCacheBySizeAndReader) {
  const Policy policy = policy_over(1);
  const auto resolved = [&](CacheUse wish, Bytes bytes) {
    Move move = move_of(bytes);
    move.cache = wish;
    return policy.cache_for(move);
  };
  EXPECT_EQ(resolved(CacheUse::automatic, 16 * kMiB - 1), CacheUse::reader_soon);
  EXPECT_EQ(resolved(CacheUse::automatic, 16 * kMiB), CacheUse::streaming);
  EXPECT_EQ(resolved(CacheUse::streaming, 64), CacheUse::streaming);
  EXPECT_EQ(resolved(CacheUse::reader_soon, 4 * kMiB), CacheUse::reader_soon);
  EXPECT_EQ(resolved(CacheUse::reader_soon, 8 * kMiB),
            CacheUse::reader_soon);  // streaming is slower
  EXPECT_EQ(resolved(CacheUse::reader_soon, 64 * kMiB), CacheUse::streaming);  // the share is 4 MiB
}

TEST(Policies, NeverStreamWhereThatGainsNothing) {
  Calibration flat = calibration();
  flat.streaming_from = 0;
  const Policy policy(flat, {{"inline", CopyEngine::inline_, kAllKinds, 64}});
  EXPECT_EQ(policy.cache_for(move_of(1024 * kMiB)), CacheUse::reader_soon);
}

// ---- saying why ----------------------------------------------------------------------------

TEST(Policies, ExplainWhatTheyChoose) {
  const Policy policy = policy_over(3);
  for (const SubmitMode use : {SubmitMode::synchronous, SubmitMode::queued})
    for (Bytes bytes = 64; bytes <= 1024 * kMiB; bytes *= 2) {
      const Move move = move_of(bytes);
      const Explanation said = policy.explain(move, situation_of(use));
      const std::size_t chosen = policy.choose(move, situation_of(use));
      EXPECT_EQ(said.candidates[chosen].engine, to_string(said.engine));
      EXPECT_EQ(said.predicted, said.candidates[chosen].predicted);
      EXPECT_EQ(said.cache, policy.cache_for(move));
      EXPECT_FALSE(said.reasons.empty());
    }
}

TEST(Policies, SayWhatWeighs) {
  const Policy policy = policy_over(3);
  Situation busy = situation_of(SubmitMode::synchronous);
  busy.free_cpus = 0;
  busy.ahead[kDsa] = 64 * kMiB;
  Move move = move_of(kMiB, copy);
  move.resident = false;
  const Explanation said = policy.explain(move, busy);
  EXPECT_THAT(said.candidates[kThread].why, HasSubstr("no CPU is free"));
  EXPECT_THAT(said.candidates[kDsa].why, HasSubstr("until what is ahead has been done"));
  EXPECT_THAT(said.candidates[kDsa].why, HasSubstr("pages that may be missing"));
  const Explanation refused = policy.explain(move_of(kMiB, fill), busy);
  EXPECT_FALSE(refused.candidates[kDsa].possible);
  EXPECT_THAT(refused.candidates[kDsa].why, HasSubstr("fill"));
  EXPECT_THAT(refused.text(), HasSubstr("not possible"));
}

TEST(Policies, SayWhetherAnythingWasMeasured) {
  const Policy policy(default_calibration(0, 2), {{"inline", CopyEngine::inline_, kAllKinds, 64}});
  const Explanation said = policy.explain(move_of(64), situation_of(SubmitMode::queued));
  EXPECT_THAT(said.reasons, Contains(HasSubstr("nothing was measured")));
  EXPECT_THAT(said.text(), HasSubstr("inline engine, temporal stores"));
}

// ---- break-even sizes ----------------------------------------------------------------------

TEST(BreakEven, IsWhereAllMeasuredSizesAboveGain) {
  const Calibration measured = calibration();
  EXPECT_EQ(break_even(measured, "dsa", SubmitMode::synchronous), 64 * kKiB);
  EXPECT_EQ(break_even(measured, "thread", SubmitMode::synchronous), 4 * kMiB);
  EXPECT_EQ(break_even(measured, "warp", SubmitMode::queued), std::nullopt);
  Calibration outlier = measured;
  outlier.engines[2].points.back().synchronous_ns *= 100;
  EXPECT_EQ(break_even(outlier, "dsa", SubmitMode::synchronous), std::nullopt);
}

}  // namespace
}  // namespace gantry
