#include <gmock/gmock.h>

#include "stage_ledger.hpp"

// A stage on a device whose memory is the host's: it computes on messages where they lie, and
// writes results where they are sent from.
namespace gantry {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr std::size_t kWords = 1024;    // results begin at multiples of a page
constexpr std::size_t kAligned = 1024;  // a page ahead of each message
constexpr Ledger::Options kManyPlaces{.skipped = kAligned, .places = 8};

class PipelineStageShared : public PipelineTest {
 protected:
  void SetUp() override {
    PipelineTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    if (device_->facts().in_place_alignment == 0) GTEST_SKIP() << "it has memory of its own";
  }
  Result<PipelineStageReport> stage(Ledger& ledger, const PipelineOptions& options = {}) {
    return run_stage(*device_,
                     job("weigh", 0)
                         .input(PipelineSource::message(), 4)
                         .input(PipelineSource::message(), 4)
                         .output(PipelineSink::message(), 4)
                         .count(),
                     ledger.ends(), options);
  }
  PipelineStageReport good(Ledger& ledger, const PipelineOptions& options = {}) {
    const auto report = stage(ledger, options);
    EXPECT_TRUE(report) << to_string(report.error());
    ledger.expect_results();
    ledger.expect_let_go();
    return report ? *report : PipelineStageReport{};
  }
};

TEST_P(PipelineStageShared, NothingIsCopied) {
  Ledger ledger(20, kWords, kManyPlaces);
  const auto report = good(ledger);
  EXPECT_EQ(report.read_in_place, 20u);
  EXPECT_EQ(report.written_in_place, 20u);  // these places are always to be had at once
  EXPECT_EQ(report.copy_in.count() + report.copy_out.count(), 0);
  EXPECT_GT(report.compute.count(), 0);
}

TEST_P(PipelineStageShared, NoMorePlacesAreAskedForThanThereAre) {
  Ledger ledger(20, kWords, {.skipped = kAligned, .places = 2});  // which looks at that
  PipelineOptions options;
  options.depth = 6;
  EXPECT_GE(good(ledger, options).written_in_place, 2u);
}

TEST_P(PipelineStageShared, WhatIsNotAlignedIsCopied) {
  Ledger messages(10, kWords, {.places = 8});
  auto report = good(messages);
  EXPECT_EQ(report.read_in_place, 0u);
  EXPECT_EQ(report.written_in_place, 10u);
  EXPECT_THAT(report.text(), HasSubstr("a message is copied that begins at no multiple of"));
  Ledger results(10, kWords + 1, kManyPlaces);
  report = good(results);
  EXPECT_EQ(report.read_in_place, 10u);
  EXPECT_LE(report.written_in_place, 3u);  // every 4th, or the first alone
  EXPECT_THAT(report.text(), HasSubstr("a result is copied whose place begins at no multiple of"));
}

TEST_P(PipelineStageShared, ResultsAreCopiedWherePlacesComeOneByOne) {
  Ledger ledger(10, kWords, {.skipped = kAligned});
  const auto report = good(ledger);
  EXPECT_EQ(report.read_in_place, 10u);
  EXPECT_EQ(report.written_in_place, 0u);
  EXPECT_THAT(report.text(), HasSubstr("one at a time"));
}

TEST_P(PipelineStageShared, HeldMessagesLeaveTheSenderOne) {
  Ledger one(10, kWords, {.skipped = kAligned, .places = 8, .holds = 1});
  EXPECT_EQ(good(one).read_in_place, 0u);
  Ledger two(10, kWords, {.skipped = kAligned, .places = 8, .holds = 2});
  PipelineOptions options;
  options.depth = 1;
  EXPECT_EQ(good(two, options).read_in_place, 10u);
}

TEST_P(PipelineStageShared, CopiesAreMadeWhereTheyAreWantedOrAKernelMightOutliveTheCall) {
  PipelineOptions direct, limited, copied, sequential;
  direct.staging = Staging::direct;
  limited.stall_limit = std::chrono::hours(1);
  copied.copier = *make_inline_engine();
  sequential.mode = PipelineMode::sequential;
  for (const auto& [options, why] :
       {std::pair(direct, ""), std::pair(limited, "its time is over"),
        std::pair(copied, "a copier was given"), std::pair(sequential, "")}) {
    Ledger ledger(5, kWords, kManyPlaces);
    const auto report = good(ledger, options);
    EXPECT_EQ(report.read_in_place + report.written_in_place, 0u) << why;
    EXPECT_THAT(report.text(), HasSubstr(why));
    EXPECT_THAT(report.text(), Not(HasSubstr("in place")));
  }
  limited.staging = Staging::shared;
  Ledger ledger(5, kWords, kManyPlaces);
  EXPECT_EQ(good(ledger, limited).written_in_place, 5u);
}

// Of message 4 no place is to be had at once: it is copied, as are those that come before it has
// one.
TEST_P(PipelineStageShared, AResultWithoutAPlaceForNowIsComputedAndCopied) {
  for (const Code code : {Code::timed_out, Code::out_of_memory}) {
    Ledger ledger(12, kWords, kManyPlaces);
    unsigned refused = 0;
    ledger.before_ = [&](std::uint64_t number, bool at_once) -> Result<void> {
      if (number != 4 || !at_once) return {};
      ++refused;
      return fail(code, "not now");
    };
    const auto report = good(ledger);
    EXPECT_EQ(report.messages, 12u);
    EXPECT_EQ(report.read_in_place, 12u);
    EXPECT_GE(report.written_in_place, 4u);
    EXPECT_LT(report.written_in_place, 12u);
    EXPECT_GE(refused, 1u);
    EXPECT_THAT(report.text(), HasSubstr("was not to be had when its computation began"));
  }
}

TEST_P(PipelineStageShared, APlaceThatIsRefusedEndsTheStageAtItsMessage) {
  Ledger ledger(12, kWords, kManyPlaces);
  unsigned asked = 0;
  ledger.before_ = [&](std::uint64_t number, bool) -> Result<void> {
    if (number != 5) return {};
    ++asked;
    return fail(Code::peer_gone, "nobody reads");
  };
  const auto report = stage(ledger);
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, Code::peer_gone);
  EXPECT_EQ(report.error().message, "message 5: nobody reads");
  EXPECT_EQ(ledger.landed_, 5u);
  EXPECT_EQ(asked, 1u);  // what an end says once is not asked for again
  ledger.expect_results();
  ledger.expect_let_go();
}

TEST_P(PipelineStageShared, ADeviceThatIsGoneLetsGoOfMessagesAndPlaces) {
  Ledger ledger(12, kWords, kManyPlaces);
  ledger.after_ = [this](std::uint64_t landed) -> Result<void> {
    if (landed == 3) device_->abandon("it was unplugged");
    return {};
  };
  const auto report = stage(ledger);
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, Code::device_lost);
  EXPECT_GE(ledger.landed_, 3u);
  ledger.expect_results();
}

TEST_P(PipelineStageShared, AResultOnItsOwnMessageIsCopied) {
  Ledger ledger(6, kWords, {.skipped = kAligned, .places = 8, .is_place_input = true});
  const auto report = good(ledger);
  EXPECT_EQ(report.read_in_place, 6u);
  EXPECT_EQ(report.written_in_place, 0u);
}

INSTANTIATE_TEST_SUITE_P(Devices, PipelineStageShared, testing::ValuesIn(kDevices),
                         pipeline_device_name);

// ---- what kernels see ----------------------------------------------------------------------

TEST(SharedStage, KernelsReadTheMessageAndWriteTheResultsPlace) {
  const auto device = *make_cpu_device({.threads = 1});
  Ledger ledger(5, kWords, kManyPlaces);
  std::vector<std::pair<const std::byte*, const std::byte*>> seen;
  ProgramSource source;
  source.cpu["look"] = [&](const CpuArguments& with, const CpuSlice& slice) -> Result<void> {
    if (slice.first == 0) {
      EXPECT_TRUE(ledger.is_held(seen.size()));
      seen.emplace_back(with.bytes(0).data(), with.bytes(1).data());
    }
    for (std::size_t i = slice.first; i < slice.last; ++i)
      with.span<std::uint32_t>(1)[i] = 4 * with.span<std::uint32_t>(0)[i];
    return {};
  };
  const auto report = run_stage(*device,
                                PipelineJob(source, "look", 0)
                                    .input(PipelineSource::message(), 4)
                                    .output(PipelineSink::message(), 4),
                                ledger.ends());
  ASSERT_TRUE(report) << to_string(report.error());
  ledger.expect_results();
  ASSERT_EQ(seen.size(), 5u);
  for (std::uint64_t i = 0; i < seen.size(); ++i) {
    EXPECT_EQ(seen[i].first, std::as_bytes(ledger.message(i)).data()) << i;
    EXPECT_EQ(seen[i].second, std::as_bytes(ledger.result(i)).data()) << i;
  }
}

TEST(SharedStage, ADeviceWithMemoryOfItsOwnCannot) {
  const auto device = *make_fake_device(std::make_shared<FaultScript>());
  Ledger ledger(5, kWords, kManyPlaces);
  PipelineOptions options;
  options.staging = Staging::shared;
  const auto report = run_stage(*device,
                                PipelineJob(pipeline_source(), "weigh", 0)
                                    .input(PipelineSource::message(), 4)
                                    .input(PipelineSource::message(), 4)
                                    .output(PipelineSink::message(), 4)
                                    .count(),
                                ledger.ends(), options);
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, Code::unsupported);
  EXPECT_THAT(report.error().message, HasSubstr("shared"));
  EXPECT_EQ(ledger.landed_, 0u);
}

}  // namespace
}  // namespace gantry
