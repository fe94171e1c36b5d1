// The harness with subjects that are made to fail: what it says then, and that no process stays.

#include "crew.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rounds.hpp"

namespace gantry::bench {
namespace {

using ::testing::HasSubstr;

/// What a subject of these tests does at its ends; the trips themselves carry nothing.
struct Script {
  std::function<Result<std::uint64_t>(const Payload&)> ask;
  std::function<Result<void>()> serve;
};

class ScriptedRequester final : public Requester {
 public:
  explicit ScriptedRequester(const Script& script) : script_(script) {}
  Result<std::uint64_t> round_trip(const Payload& payload) override { return script_.ask(payload); }

 private:
  Script script_;
};

class ScriptedResponder final : public Responder {
 public:
  explicit ScriptedResponder(const Script& script) : script_(script) {}
  Result<void> serve() override { return script_.serve(); }

 private:
  Script script_;
};

class ScriptedSubject final : public Subject {
 public:
  explicit ScriptedSubject(Script script) : script_(std::move(script)) {}
  Result<std::unique_ptr<Requester>> open_requester() override {
    return std::make_unique<ScriptedRequester>(script_);
  }
  Result<std::unique_ptr<Responder>> open_responder() override {
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

const Case kCase{"64 B", 64, ""};
constexpr CpuPair kAnyCpu{0, 0};

class CrewTest : public ::testing::Test {
 protected:
  void TearDown() override {
    EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "a process was left";
    EXPECT_EQ(errno, ECHILD);
  }

  /// The error of a crew of one such subject that is to make three trips.
  Error failure_of(Script script) {
    const std::vector kinds = {scripted("fake", std::move(script))};
    auto crew = Crew::start(kinds, kCase, cpus_, never_.get());
    if (!crew) return crew.error();
    const auto figures = crew->run(0, {0, 3});
    return figures ? Error{Code::system, "did not fail", ""} : figures.error();
  }

  CpuPair cpus_ = pick_cpus().value_or(kAnyCpu);
  Descriptor never_{::eventfd(0, EFD_CLOEXEC)};
};

TEST_F(CrewTest, RunsAndGoesAway) {
  const std::vector kinds = {scripted("fake", {right_sum, nothing})};
  auto crew = Crew::start(kinds, kCase, cpus_, never_.get());
  ASSERT_TRUE(crew.has_value()) << to_string(crew.error());
  const auto figures = crew->run(0, {2, 5});
  ASSERT_TRUE(figures.has_value()) << to_string(figures.error());
  EXPECT_GT(figures->p50_ns, 0);
  EXPECT_GE(figures->p99_ns, figures->p50_ns);
  crew->dismiss();
}

TEST_F(CrewTest, AWrongChecksumIsReported) {
  const auto stale = [](const Payload& payload) -> Result<std::uint64_t> {
    return payload.checksum() + 1;
  };
  const Error error = failure_of({stale, nothing});
  EXPECT_THAT(error.message, HasSubstr("64 B: the requester of fake: wrong checksum"));
}

TEST_F(CrewTest, AKilledResponderIsReportedEvenWhenTheRequesterComplainsFirst) {
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

TEST_F(CrewTest, AnEndThatLeavesIsReportedWithItsStatus) {
  const auto leave = []() -> Result<void> { ::_exit(7); };
  const auto wait_for_ever = [](const Payload&) -> Result<std::uint64_t> {
    while (true) ::pause();
  };
  const Error error = failure_of({wait_for_ever, leave});
  EXPECT_THAT(error.message, HasSubstr("the responder of fake died: exit status 7"));
}

TEST_F(CrewTest, AnExceptionStaysInItsProcessAndIsReported) {
  const auto fail = [](const Payload&) -> Result<std::uint64_t> { throw std::bad_alloc(); };
  const Error error = failure_of({fail, nothing});
  EXPECT_THAT(error.message, HasSubstr("the requester of fake: std::bad_alloc"));
}

TEST_F(CrewTest, AnInterruptEndsTheWait) {
  const auto wait_for_ever = [](const Payload&) -> Result<std::uint64_t> {
    while (true) ::pause();
  };
  ASSERT_EQ(::eventfd_write(never_.get(), 1), 0);
  EXPECT_EQ(failure_of({wait_for_ever, nothing}).code, Code::interrupted);
}

TEST_F(CrewTest, ACaseGivesEveryMetricOfEverySubjectOverAllRounds) {
  auto limit = scripted("limit", {right_sum, nothing});
  limit.carries_bytes = false;
  const std::vector kinds = {scripted("fake", {right_sum, nothing}), limit};
  const Plan plan{.rounds = 3,
                  .round_time = std::chrono::microseconds(50),
                  .cpus = cpus_,
                  .interrupt_descriptor = never_.get()};
  Report report;
  std::FILE* const nowhere = std::fopen("/dev/null", "w");
  {
    Progress progress(nowhere, "test", plan.rounds);
    const auto ran = run_case(kCase, kinds, plan, progress, report.rows);
    ASSERT_TRUE(ran.has_value()) << to_string(ran.error());
  }
  std::fclose(nowhere);
  for (const auto metric : {kLatencyP50, kLatencyP99, kThroughput, kCpuPerGb}) {
    const Row* const row = report.find(64, "fake", metric);
    ASSERT_NE(row, nullptr) << metric;
    EXPECT_EQ(row->summary.rounds, 3u);
    EXPECT_LE(row->summary.min, row->summary.value);
    EXPECT_LE(row->summary.value, row->summary.max);
  }
  EXPECT_NE(report.find(64, "limit", kLatencyP50), nullptr);
  EXPECT_EQ(report.find(64, "limit", kThroughput), nullptr);
}

}  // namespace
}  // namespace gantry::bench
