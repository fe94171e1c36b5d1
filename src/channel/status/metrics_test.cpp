#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "channel/wire/metrics_page.hpp"

namespace gantry {
namespace {

TEST(Metrics, ShowWhatWasCountedToWhoeverHasThePage) {
  auto page = Metrics::create();
  ASSERT_TRUE(page);
  auto writer = Metrics::adopt(::dup(page->descriptor()), true);
  ASSERT_TRUE(writer) << writer.error().message;
  Meter& meter = *writer->meter();
  meter.opened();
  meter.message(100);
  meter.message(50);
  meter.copy(CopyEngine::kernel, 150, 0);
  meter.cpu(7);
  const MetricsReport report = page->report();
  EXPECT_TRUE(report.opened);
  EXPECT_FALSE(report.connected);
  EXPECT_EQ(report.messages, 2u);
  EXPECT_EQ(report.bytes, 150u);
  EXPECT_EQ(report.copies[2], 1u);
  EXPECT_EQ(report.copied_bytes[2], 150u);
  EXPECT_EQ(report.copies[0], 0u);
  EXPECT_EQ(report.cpu_ns, 7u);
}

TEST(Metrics, HandoffsAreInNanosecondsOfThisMachine) {
  auto page = Metrics::create();
  ASSERT_TRUE(page);
  const std::uint64_t before = Meter::ticks();
  const auto clock = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - clock < std::chrono::milliseconds(2)) continue;
  page->meter()->handoff(Meter::ticks() - before);
  const auto report = page->report();
  EXPECT_GE(report.handoff_p50_ns, 1'500'000u);
  EXPECT_GE(report.handoff_total_ns, 1'900'000u);
  EXPECT_EQ(report.handoff_p50_ns, report.handoff_p99_ns);
}

TEST(Metrics, AdoptsNothingElse) {
  EXPECT_FALSE(Metrics::adopt(-1, false));
  EXPECT_FALSE(Metrics::adopt(::dup(0), false));
  const int plain = ::memfd_create("x", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  ASSERT_EQ(::ftruncate(plain, 4096), 0);
  EXPECT_FALSE(Metrics::adopt(plain, true)) << "it could be shrunk under us";
}

// It is its caller who gave it, and no other process.
TEST(Metrics, ADescriptorThatIsNoPageIsTheCallersMistake) {
  const int closed = ::dup(0);
  ::close(closed);
  const auto missing = MetricsMaker::make_for_end(closed);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Code::invalid_argument);
  EXPECT_EQ(missing.error().message,
            "metrics_descriptor " + std::to_string(closed) + ": it is not open");
  const int other = ::dup(0);
  const auto wrong = MetricsMaker::make_for_end(other);
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().code, Code::invalid_argument);
  EXPECT_EQ(wrong.error().message,
            "metrics_descriptor " + std::to_string(other) + ": it is no page of counters");
}

TEST(Metrics, NonsenseOfAnotherProcessBecomesZero) {
  const auto page = *MetricsMaker::make_own();
  MetricsPage& nonsense = *MetricsMaker::page(page);
  nonsense.start = {.ticks = read_ticks(), .ns = 0};  // years in no ticks at all
  nonsense.handoff_ticks.set(~0ull >> 1);
  nonsense.handoff_times.record(~0ull, ~0ull);
  const auto report = page.report();
  EXPECT_EQ(report.handoff_total_ns, 0u);
  EXPECT_EQ(report.handoff_p99_ns, 0u);
}

TEST(CpuCharge, MeasuresLargeCallsAndSamplesSmallOnes) {
  auto page = Metrics::create();
  const auto burn = [] {
    volatile unsigned sink = 0;
    for (unsigned i = 0; i < 2'000'000; ++i) sink = sink + i;
  };
  {
    const CpuCharge charge(*page->meter(), CpuCharge::kAlwaysBytes, 1);
    burn();
  }
  const auto large = page->report().cpu_ns;
  EXPECT_GT(large, 0u);
  {
    const CpuCharge charge(*page->meter(), 1, 1);
    burn();
  }
  EXPECT_EQ(page->report().cpu_ns, large) << "not a sampled call";
  {
    const CpuCharge charge(*page->meter(), 1, CpuCharge::kEvery);
    burn();
  }
  EXPECT_GT(page->report().cpu_ns, 10 * large) << "a sampled call stands for kEvery";
}

}  // namespace
}  // namespace gantry
