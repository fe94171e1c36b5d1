#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/channel/wire/metrics_page.hpp"

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

// One of 2 µs is among those of at most 3 µs.
TEST(Metrics, HandoffsAreCountedByTheirTime) {
  const auto page = *MetricsMaker::make_own();
  const ClockPair start = MetricsMaker::page(page)->start;
  const auto count = [&](double ns, std::uint64_t times) {
    page.meter()->handoff(static_cast<std::uint64_t>(ns / ns_per_tick(start)), times);
  };
  const auto handoffs = [&] { return MetricsMaker::handoffs(*MetricsMaker::page(page)); };
  count(2'000, 5);
  count(100, 1);
  count(2e6, 2);
  count(60e9, 4);
  MetricsMaker::Handoffs wanted{};
  wanted[0] = 1;
  wanted[2] = 5;
  wanted[8] = 2;
  wanted[16] = 4;
  EXPECT_EQ(handoffs(), wanted);
  for (std::size_t i = 0; i + 1 < wanted.size(); ++i) {  // on both sides of each bound
    const auto bound = static_cast<double>(ConsumerStatus::kHandoffBoundsNs[i]);
    count(0.85 * bound, 1);
    count(1.15 * bound, 1);
    wanted[i] += 1;
    wanted[i + 1] += 1;
    EXPECT_EQ(handoffs(), wanted) << bound;
  }
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
  nonsense.handoff_times.record(~0ull >> 17, 7);  // of the same count: the sum runs over
  const auto report = page.report();
  EXPECT_EQ(report.handoff_total_ns, 0u);
  EXPECT_EQ(report.handoff_p99_ns, 0u);
  EXPECT_EQ(MetricsMaker::handoffs(nonsense).back(), ~std::uint64_t{0}) << "no less than before";
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
