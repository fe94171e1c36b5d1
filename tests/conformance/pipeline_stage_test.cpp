#include <gmock/gmock.h>

#include <filesystem>

#include "stage_ledger.hpp"

// A device between two channels.
namespace gantry {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

/// A call that takes longer has hung; nothing is measured by it.
Deadline soon() {
  return Deadline::after(std::chrono::seconds(60));
}

class PipelineStage : public PipelineTest {
 protected:
  void SetUp() override {
    PipelineTest::SetUp();
    if (IsSkipped()) return;
    folder_ = (std::filesystem::temp_directory_path() / "gantry-test-XXXXXX").string();
    ASSERT_NE(::mkdtemp(folder_.data()), nullptr);
    runtime_ = *Runtime::create({.directory = folder_, .engine = "inline"});
    open_ends();
  }
  void TearDown() override {
    close_ends();
    std::filesystem::remove_all(folder_);
  }
  void open_ends(const ProducerOptions& in = {}, const ProducerOptions& out = {}) {
    source_ = *runtime_->producer("in", in);
    from_ = *runtime_->consumer("in", {}, soon());
    to_ = *runtime_->producer("out", out);
    sink_ = *runtime_->consumer("out", {}, soon());
  }
  static ProducerOptions with_slots(unsigned slots) {
    ProducerOptions options;
    options.slots = slots;
    return options;
  }
  void close_ends() {
    sink_.reset();
    to_.reset();
    from_.reset();
    source_.reset();
  }
  /// stage(), when everything that is to come was sent.
  Result<PipelineStageReport> last_stage(const PipelineJob& job,
                                         const PipelineOptions& options = {}) {
    std::thread closing([this] { EXPECT_TRUE(source_->close(soon())); });
    auto report = stage(job, options);
    closing.join();
    return report;
  }
  [[nodiscard]] PipelineJob doubling() const {
    return job("weigh", 0)
        .input(PipelineSource::message(), 4)
        .input(PipelineSource::message(), 4)
        .output(PipelineSink::message(), 4)
        .count();
  }
  Result<PipelineStageReport> stage(const PipelineJob& job, const PipelineOptions& options = {}) {
    return run_stage(*device_, job, *from_, *to_, options);
  }
  void send(const Words& words, std::uint64_t user = 0) {
    SendOptions options;
    options.deadline = soon();
    options.user = user;
    options.type = 5;
    EXPECT_TRUE(source_->send(std::as_bytes(std::span(words)), options));
  }
  /// Receives until the end; calls `look` with each message's number and words.
  template <class Look>
  std::uint64_t receive_all(Look look) {
    std::uint64_t number = 0;
    for (;; ++number) {
      const auto message = sink_->receive(soon());
      if (!message) {
        EXPECT_EQ(message.error().code, Code::closed) << to_string(message.error());
        return number;
      }
      EXPECT_EQ(message->info().type, 5u);
      EXPECT_EQ(message->info().user, number);
      Words words(message->bytes().size() / 4);
      std::memcpy(words.data(), message->bytes().data(), message->bytes().size());
      look(number, words);
    }
  }
  /// So many messages through the stage at once, each looked at where it comes out.
  Result<PipelineStageReport> double_all(std::uint64_t count,
                                         std::uint64_t (*words_of)(std::uint64_t number)) {
    std::thread sending([&] {
      for (std::uint64_t i = 0; i < count; ++i) send(random_words(words_of(i), i), i);
      EXPECT_TRUE(source_->close(soon()));
    });
    std::uint64_t received = 0;
    std::thread receiving([&] {
      received = receive_all([&](std::uint64_t number, const Words& words) {
        Words wanted = random_words(words_of(number), number);
        for (std::uint32_t& word : wanted) word *= 4;
        EXPECT_EQ(words, wanted) << number;
      });
    });
    auto report = stage(doubling());
    EXPECT_TRUE(report) << to_string(report.error());
    EXPECT_TRUE(to_->close(soon()));
    sending.join();
    receiving.join();
    EXPECT_EQ(received, count);
    return report;
  }

  std::string folder_;
  std::optional<Runtime> runtime_;
  std::optional<Producer> source_, to_;
  std::optional<Consumer> from_, sink_;
};

std::uint64_t size_of(std::uint64_t number) {
  return 1 + number * number * 37 % 90'000;
}
std::uint64_t large_enough(std::uint64_t) {  // to lie where any device computes on it
  return 3000;
}

TEST_P(PipelineStage, ComputesEveryMessageInOrder) {
  const auto report = double_all(40, size_of);
  ASSERT_TRUE(report);
  EXPECT_EQ(report->messages, 40u);
  EXPECT_EQ(report->bytes_in, 2 * report->bytes_out);
}

TEST_P(PipelineStage, HalosOfAMessageEndAtItsEdges) {
  for (const Edge edge : {Edge::zero, Edge::clamp, Edge::wrap}) {
    send({1, 2, 3, 4});
    const auto report = last_stage(job("stencil", 0)
                                       .input(PipelineSource::message(), 4, {1, 1, edge})
                                       .output(PipelineSink::message(), 4)
                                       .count()
                                       .value(1u)
                                       .value(1u)
                                       .value(1u));
    ASSERT_TRUE(report) << to_string(report.error());
    const auto message = sink_->receive(soon());
    ASSERT_TRUE(message);
    Words words(4);
    std::memcpy(words.data(), message->bytes().data(), 16);
    const Words zero{8, 14, 20, 11}, clamp{9, 14, 20, 23}, wrap{12, 14, 20, 14};
    EXPECT_EQ(words, edge == Edge::zero ? zero : edge == Edge::clamp ? clamp : wrap);
    close_ends();
    open_ends();
  }
}

TEST_P(PipelineStage, MessagesAreComputedOnWhereTheyLieWhereMemoryIsTheHosts) {
  constexpr std::uint64_t kMessages = 6;
  std::thread receiving([&] {
    receive_all([](std::uint64_t number, const Words& words) {
      EXPECT_EQ(words.at(7), 4 * random_words(5000, number).at(7));
    });
  });
  for (std::uint64_t i = 0; i < kMessages; ++i) send(random_words(5000, i), i);
  PipelineOptions options;
  options.depth = 1;  // so that no place is asked for while another result lands
  const auto report = last_stage(doubling(), options);
  ASSERT_TRUE(report) << to_string(report.error());
  const bool is_in_place = device_->facts().in_place_alignment != 0;
  EXPECT_EQ(report->read_in_place, is_in_place ? kMessages : 0);
  EXPECT_EQ(report->written_in_place, is_in_place ? kMessages : 0);
  EXPECT_EQ(report->copy_in.count() + report->copy_out.count() == 0, is_in_place);
  EXPECT_EQ(report->bytes_in, 2 * kMessages * 20'000);
  EXPECT_EQ(report->bytes_out, kMessages * 20'000);
  EXPECT_THAT(
      report->text(),
      HasSubstr(is_in_place
                    ? "in place, no copies: 6 messages computed on where they lie, 6 results"
                    : "the device copies messages from where they lie"));
  EXPECT_TRUE(to_->close(soon()));
  receiving.join();
}

// With all its slots in the stage's hands a sender could fill none.
TEST_P(PipelineStage, TheLastSlotOfASenderIsNotComputedOn) {
  close_ends();
  open_ends(with_slots(1));
  const auto report = double_all(8, large_enough);
  ASSERT_TRUE(report);
  EXPECT_EQ(report->messages, 8u);
  EXPECT_EQ(report->read_in_place, 0u);
}

TEST_P(PipelineStage, AReceiverWithOneSlotGetsAllInOrder) {
  close_ends();
  open_ends({}, with_slots(1));
  EXPECT_TRUE(double_all(20, large_enough));
}

// A run that gave up a kernel which does not end leaves it the place.
TEST_P(PipelineStage, AKernelsPlaceOfARunBeforeIsNotSent) {
  const StageCallbacks ends = StageCallbacks::of(*from_, *to_);
  MessageInfo before, now;
  before.sequence = 1, now.sequence = 2;
  const auto held = *ends.place(before, 4, soon());
  const auto there = *ends.place(now, 4, soon());
  std::ranges::fill(held.bytes, std::byte{1});
  std::ranges::fill(there.bytes, std::byte{2});
  ASSERT_TRUE(ends.committed(now));
  EXPECT_EQ(sink_->receive(soon())->bytes()[0], std::byte{2});
}

TEST_P(PipelineStage, EndsAtItsDeadlineWhenNothingComes) {
  PipelineOptions options;
  options.deadline = Deadline::after(std::chrono::milliseconds(50));
  const auto report = stage(doubling(), options);
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, Code::timed_out);
  EXPECT_TRUE(device_->state());
}

TEST_P(PipelineStage, AMessageThatDoesNotFitTheJobIsNamedAndTheEarlierOnesAreSent) {
  send({1, 2, 3}, 0);
  send({4}, 1);
  EXPECT_TRUE(source_->send(std::as_bytes(std::span("abcdefg", 7)), soon()));
  const auto report = stage(doubling());
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, Code::invalid_argument);
  EXPECT_THAT(report.error().message, AllOf(StartsWith("message 2:"), HasSubstr("7 bytes")));
  EXPECT_EQ(to_->explain().status.slots_sending, 0u);  // no place is left over
  for (const std::size_t size : {12, 4}) {
    const auto message = sink_->receive(soon());
    ASSERT_TRUE(message);
    EXPECT_EQ(message->bytes().size(), size);
  }
  send({9}, 0);  // and it can go on
  const auto again = last_stage(doubling());
  ASSERT_TRUE(again) << to_string(again.error());
  EXPECT_EQ(again->messages, 1u);
}

TEST_P(PipelineStage, JobsThatAreNoneForMessagesAreRefused) {
  Words x(10);
  for (const PipelineJob& bad :
       {job("weigh", 10).input(std::span(x)).output(PipelineSink::message(), 4),
        job("weigh", 10).output(PipelineSink::message(), 4),
        job("weigh", 10).input(PipelineSource::message(), 4)}) {
    const auto report = stage(bad);
    ASSERT_FALSE(report);
    EXPECT_EQ(report.error().code, Code::invalid_argument);
  }
}

// ---- ends that are no channels -------------------------------------------------------------

class PipelineStageCallbacks : public PipelineStage {
 protected:
  Result<PipelineStageReport> stage(Ledger& ledger) {
    return run_stage(*device_, doubling(), ledger.ends());
  }
};

TEST_P(PipelineStageCallbacks, ResultsLandWhereTheyAreToInOrder) {
  Ledger ledger(20, 1001);
  const auto report = stage(ledger);
  ASSERT_TRUE(report) << to_string(report.error());
  EXPECT_EQ(report->messages, 20u);
  EXPECT_EQ(ledger.landed_, 20u);
  ledger.expect_results();
  ledger.expect_let_go();
  EXPECT_THAT(report->text(),
              AllOf(StartsWith(device_->facts().name + ": 20 messages"), HasSubstr("3 under way")));
}

TEST_P(PipelineStageCallbacks, AnErrorOfAnEndNamesTheMessage) {
  Ledger ledger(20, 11);
  ledger.after_ = [](std::uint64_t landed) -> Result<void> {
    if (landed == 6) return fail(Code::out_of_memory, "the ledger is full");
    return {};
  };
  const auto report = stage(ledger);
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, Code::out_of_memory);
  EXPECT_EQ(report.error().message, "message 5: the ledger is full");
  ledger.expect_results();
  ledger.expect_let_go();
}

TEST_P(PipelineStageCallbacks, APlaceOfAnotherSizeIsRefused) {
  Ledger ledger(2, 11, {.too_few = 1});
  const auto report = stage(ledger);
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, Code::invalid_argument);
  EXPECT_EQ(report.error().message, "message 0: its result has 44 bytes, its place 40");
}

TEST_P(PipelineStageCallbacks, ADeviceThatIsGoneEndsTheStageAndWhatHadLandedStays) {
  Ledger ledger(20, 11);
  ledger.after_ = [this](std::uint64_t landed) -> Result<void> {
    if (landed == 4) device_->abandon("it was unplugged");
    return {};
  };
  const auto report = stage(ledger);
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, Code::device_lost);
  EXPECT_THAT(report.error().message, AllOf(StartsWith("message "), HasSubstr("it was unplugged")));
  EXPECT_GE(ledger.landed_, 4u);
  ledger.expect_results();
}

TEST_P(PipelineStage, EachMessageLeavesItsPartOfAReduction) {
  if (device_->facts().kind != DeviceKind::cpu) GTEST_SKIP() << "work items share one there";
  constexpr std::uint64_t kMessages = 3;
  ProgramSource source;
  source.cpu["sum"] = [](const CpuArguments& with, const CpuSlice& slice) -> Result<void> {
    for (std::size_t i = slice.first; i < slice.last; ++i) {
      with.span<std::uint32_t>(1)[i] = with.span<std::uint32_t>(0)[i];
      with.span<std::uint64_t>(2)[0] += with.span<std::uint32_t>(0)[i];
    }
    return {};
  };
  std::uint64_t sum = 0, steps = 0, wanted = 0;
  const auto fold = [&](ConstByteSpan partial, const Chunk& chunk) -> Result<void> {
    std::uint64_t part = 0;
    std::memcpy(&part, partial.data(), sizeof part);
    sum += part;
    steps += chunk.steps;
    return {};
  };
  for (std::uint64_t i = 0; i < kMessages; ++i) {
    const Words words = random_words(10'000, i);
    wanted = std::accumulate(words.begin(), words.end(), wanted);
    send(words, i);
  }
  ASSERT_TRUE(last_stage(PipelineJob(source, "sum", 0)
                             .input(PipelineSource::message(), 4)
                             .output(PipelineSink::message(), 4)
                             .reduction(sizeof sum, fold)));
  EXPECT_EQ(sum, wanted);
  EXPECT_EQ(steps, kMessages * 10'000);
  for (std::uint64_t i = 0; i < kMessages; ++i) {
    const auto message = sink_->receive(soon());
    ASSERT_TRUE(message);
    const Words words = random_words(10'000, i);
    EXPECT_EQ(0, std::memcmp(message->bytes().data(), words.data(), message->bytes().size()));
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, PipelineStageCallbacks, testing::ValuesIn(kDevices),
                         pipeline_device_name);
INSTANTIATE_TEST_SUITE_P(Devices, PipelineStage, testing::ValuesIn(kDevices), pipeline_device_name);

}  // namespace
}  // namespace gantry
