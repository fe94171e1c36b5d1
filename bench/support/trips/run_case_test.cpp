// The harness with subjects that are made to fail: what it says then, and that no process stays.

#include "run_case.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <deque>

#include "../system/mapping.hpp"

namespace gantry::bench {
namespace {

using ::testing::HasSubstr;

/// What a subject of these tests does at its ends; the trips themselves carry nothing.
struct Script {
  std::function<Result<std::uint64_t>(const Payload&)> ask;
  std::function<Result<void>()> serve;
  unsigned* most_unanswered = nullptr;  ///< In memory that processes share.
  unsigned readers = 1;
};

class ScriptedRequester final : public Requester {
 public:
  explicit ScriptedRequester(const Script& script) : script_(script) {}
  Result<void> send(const Payload& payload) override {
    ++sent_;
    payloads_.push_back(&payload);
    return {};
  }
  Result<std::uint64_t> receive() override {
    if (script_.most_unanswered != nullptr)
      *script_.most_unanswered = std::max(*script_.most_unanswered, sent_ - answered_);
    const Payload& oldest = *payloads_.front();
    if (++asked_ == script_.readers) {
      payloads_.pop_front();
      asked_ = 0;
    }
    ++answered_;
    return script_.ask(oldest);
  }

 private:
  Script script_;
  std::deque<const Payload*> payloads_;  // not answered by all readers yet
  unsigned asked_ = 0;                   // of the oldest
  unsigned sent_ = 0;
  unsigned answered_ = 0;
};

class ScriptedResponder final : public Responder {
 public:
  explicit ScriptedResponder(const Script& script) : script_(script) {}
  Result<std::uint64_t> receive() override {
    if (auto served = script_.serve(); !served) return Unexpected(served.error());
    return std::uint64_t{0};
  }
  Result<void> reply(std::uint64_t) override { return {}; }

 private:
  Script script_;
};

class ScriptedSubject final : public Subject {
 public:
  explicit ScriptedSubject(Script script) : script_(std::move(script)) {}
  Result<std::unique_ptr<Requester>> open_requester() override {
    return std::make_unique<ScriptedRequester>(script_);
  }
  Result<std::unique_ptr<Responder>> open_responder(int) override {
    return std::make_unique<ScriptedResponder>(script_);
  }

 private:
  Script script_;
};

Result<std::uint64_t> right_sum(const Payload& payload) {
  return payload.checksum();
}
Result<void> nothing() {
  return {};
}

SubjectKind scripted(std::string name, Script script) {
  return {.name = std::move(name),
          .make = [script = std::move(script)](const Case&) -> Result<std::unique_ptr<Subject>> {
            return std::make_unique<ScriptedSubject>(script);
          }};
}

const Case kCase{.name = "64 B", .bytes = 64, .directory = {}, .segments = {64}};
constexpr CpuPair kAnyCpu{0, 0};

class ProcessGroupTest : public ::testing::Test {
 protected:
  void TearDown() override {
    EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "a process was left";
    EXPECT_EQ(errno, ECHILD);
  }

  /// The error of a group of one such subject that is to make three trips.
  Error failure_of(Script script) {
    const std::vector kinds = {scripted("fake", std::move(script))};
    auto group = start_group(kinds, kCase, cpus_, never_.get());
    if (!group) return group.error();
    const auto figures = group->run(0, {0, 3});
    return figures ? Error{Code::system, "did not fail", ""} : figures.error();
  }

  CpuPair cpus_ = pick_cpus().value_or(kAnyCpu);
  Descriptor never_{::eventfd(0, EFD_CLOEXEC)};
  Descriptor nowhere_{::open("/dev/null", O_WRONLY | O_CLOEXEC)};
};

TEST_F(ProcessGroupTest, RunsAndGoesAway) {
  const std::vector kinds = {scripted("fake", {right_sum, nothing})};
  auto group = start_group(kinds, kCase, cpus_, never_.get());
  ASSERT_TRUE(group.has_value()) << to_string(group.error());
  const auto figures = group->run(0, {2, 5});
  ASSERT_TRUE(figures.has_value()) << to_string(figures.error());
  EXPECT_GT(figures->p50_ns, 0);
  EXPECT_GE(figures->p99_ns, figures->p50_ns);
  group->dismiss();
}

TEST_F(ProcessGroupTest, AWrongChecksumIsReported) {
  const auto stale = [](const Payload& payload) -> Result<std::uint64_t> {
    return payload.checksum() + 1;
  };
  const Error error = failure_of({stale, nothing});
  EXPECT_THAT(error.message, HasSubstr("64 B: the requester of fake: wrong checksum"));
}

TEST_F(ProcessGroupTest, AKilledResponderIsReportedEvenWhenTheRequesterComplainsFirst) {
  const auto complain = [](const Payload&) -> Result<std::uint64_t> {
    return Unexpected({Code::peer_gone, "the writer left", ""});
  };
  const auto die = []() -> Result<void> {
    ::kill(::getpid(), SIGKILL);
    return {};
  };
  const Error error = failure_of({complain, die});
  EXPECT_THAT(error.message, HasSubstr("the responder of fake died: signal 9"));
}

TEST_F(ProcessGroupTest, AnEndThatLeavesIsReportedWithItsStatus) {
  const auto leave = []() -> Result<void> { ::_exit(7); };
  const auto wait_for_ever = [](const Payload&) -> Result<std::uint64_t> {
    while (true) ::pause();
  };
  const Error error = failure_of({wait_for_ever, leave});
  EXPECT_THAT(error.message, HasSubstr("the responder of fake died: exit status 7"));
}

TEST_F(ProcessGroupTest, AnExceptionStaysInItsProcessAndIsReported) {
  const auto fail = [](const Payload&) -> Result<std::uint64_t> { throw std::bad_alloc(); };
  const Error error = failure_of({fail, nothing});
  EXPECT_THAT(error.message, HasSubstr("the requester of fake: std::bad_alloc"));
}

TEST_F(ProcessGroupTest, AnInterruptEndsTheWait) {
  const auto wait_for_ever = [](const Payload&) -> Result<std::uint64_t> {
    while (true) ::pause();
  };
  ASSERT_EQ(::eventfd_write(never_.get(), 1), 0);
  EXPECT_EQ(failure_of({wait_for_ever, nothing}).code, Code::interrupted);
}

TEST_F(ProcessGroupTest, ACaseGivesEveryMetricOfEverySubjectOverAllRounds) {
  auto limit = scripted("limit", {right_sum, nothing});
  limit.carries_bytes = false;
  const std::vector kinds = {scripted("fake", {right_sum, nothing}), limit};
  const Plan plan{.rounds = 3,
                  .round_time = std::chrono::microseconds(50),
                  .cpus = cpus_,
                  .interrupt_descriptor = never_.get()};
  Report report;
  cli::Progress progress("test", plan.rounds, nowhere_.get());
  const auto ran = run_case(kCase, kinds, plan, progress, report);
  ASSERT_TRUE(ran.has_value()) << to_string(ran.error());
  for (const auto metric :
       {kLatencyP50, kLatencyP99, kLatencyP999, kOneWayP50, kThroughput, kCpuPerGb}) {
    const Row* const row = report.find(64, "fake", metric);
    ASSERT_NE(row, nullptr) << metric;
    EXPECT_EQ(row->summary.rounds, 3u);
    EXPECT_LE(row->summary.min, row->summary.value);
    EXPECT_LE(row->summary.value, row->summary.max);
  }
  EXPECT_NE(report.find(64, "limit", kLatencyP50), nullptr);
  EXPECT_EQ(report.find(64, "limit", kThroughput), nullptr);
}

/// A case of two subjects, the first of them a peer, in two rounds of few trips.
class CaseWithAPeer : public ProcessGroupTest {
 protected:
  Report report_of(Script peers_script, const Case& what = kCase,
                   Bytes free_bytes = std::numeric_limits<Bytes>::max()) {
    auto peer = scripted("peer", std::move(peers_script));
    peer.is_peer = true;
    const std::vector kinds = {peer, scripted("ours", {right_sum, nothing})};
    const Plan plan{.rounds = 2,
                    .round_time = std::chrono::microseconds(50),
                    .cpus = cpus_,
                    .interrupt_descriptor = never_.get(),
                    .free_bytes = free_bytes};
    Report report;
    cli::Progress progress("test", plan.rounds, nowhere_.get());
    const auto ran = run_case(what, kinds, plan, progress, report);
    EXPECT_TRUE(ran.has_value()) << to_string(ran.error());
    return report;
  }
};

TEST_F(CaseWithAPeer, APeerThatFailsIsLeftOutWithTheReasonAndTheOthersGoOn) {
  const auto refuse = [](const Payload&) -> Result<std::uint64_t> {
    return Unexpected({Code::system, "no such luck", ""});
  };
  const Report report = report_of({refuse, nothing});
  EXPECT_EQ(report.find(64, "peer", kLatencyP50), nullptr);
  ASSERT_EQ(report.skipped.size(), 1u);
  EXPECT_EQ(report.skipped[0].subject, "peer");
  EXPECT_THAT(report.skipped[0].reason, HasSubstr("no such luck"));
  const Row* const ours = report.find(64, "ours", kLatencyP50);
  ASSERT_NE(ours, nullptr);
  EXPECT_EQ(ours->summary.rounds, 2u);
}

TEST_F(CaseWithAPeer, WhereMemoryIsShortEachTurnHasProcessesOfItsOwn) {
  const Report report = report_of({right_sum, nothing}, kCase, 300);  // 256 for the two together
  EXPECT_NE(report.find(64, "peer", kLatencyP50), nullptr);
  const Report alone = report_of({right_sum, nothing}, kCase, 128);
  const Row* const row = alone.find(64, "peer", kLatencyP50);
  ASSERT_NE(row, nullptr);
  EXPECT_EQ(row->summary.rounds, 2u);
}

TEST_F(ProcessGroupTest, AsManyAreUnansweredAsMayBeInFlight) {
  const Mapping shared = Mapping::shared(sizeof(unsigned)).value();
  auto* const most = reinterpret_cast<unsigned*>(shared.bytes().data());
  Case what = kCase;
  what.in_flight = 3;
  const std::vector kinds = {scripted("fake", {right_sum, nothing, most})};
  {
    auto group = start_group(kinds, what, cpus_, never_.get());
    ASSERT_TRUE(group.has_value()) << to_string(group.error());
    const auto figures = group->run(0, {0, 10});
    EXPECT_TRUE(figures.has_value()) << to_string(figures.error());
    group->dismiss();
  }
  EXPECT_EQ(*most, 3u);
}

TEST_F(ProcessGroupTest, EveryReaderIsAProcessAndItsSumIsAwaited) {
  const Mapping shared = Mapping::shared(sizeof(unsigned)).value();
  auto* const sums = reinterpret_cast<unsigned*>(shared.bytes().data());
  Case what = kCase;
  what.readers = 3;
  const auto count = [sums](const Payload& payload) -> Result<std::uint64_t> {
    ++*sums;
    return payload.checksum();
  };
  const std::vector kinds = {scripted("fake", {count, nothing, nullptr, what.readers})};
  {
    auto group = start_group(kinds, what, cpus_, never_.get());
    ASSERT_TRUE(group.has_value()) << to_string(group.error());
    const auto figures = group->run(0, {0, 5});
    ASSERT_TRUE(figures.has_value()) << to_string(figures.error());
    group->dismiss();
  }
  EXPECT_EQ(*sums, 15u);
}

TEST_F(ProcessGroupTest, OneWayIsFromTheBeginningUntilAllIsRead) {
  const std::vector kinds = {scripted("fake", {right_sum, nothing})};
  auto group = start_group(kinds, kCase, cpus_, never_.get());
  ASSERT_TRUE(group.has_value()) << to_string(group.error());
  const auto figures = group->run(0, {2, 5, true});
  ASSERT_TRUE(figures.has_value()) << to_string(figures.error());
  EXPECT_NE(figures->one_way_ns, 0);
  const auto after = group->run(0, {2, 5});  // its answers are not taken for stamps
  EXPECT_TRUE(after.has_value());
  group->dismiss();
}

}  // namespace
}  // namespace gantry::bench
