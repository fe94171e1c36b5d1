#include <limits>

#include "core/base/test_sanitizer.hpp"
#include "pipeline_suite.hpp"

// More steps than 31 bits count, without as much memory: what is read is made as it is asked for,
// what is written is looked at and forgotten.
namespace gantry {
namespace {

constexpr std::uint64_t kLargeSteps = (std::uint64_t{1} << 31) + 54'321;
constexpr std::uint64_t kPeriod = 4099;  // a prime: no chunk begins as another does

std::byte made(std::uint64_t step) {
  return static_cast<std::byte>(step % kPeriod * 7 + (step >> 31));
}

/// The period twice, from its begin on, for steps below 2^31 and above.
std::vector<std::byte> period(std::uint64_t first) {
  std::vector<std::byte> bytes(2 * kPeriod);
  for (std::uint64_t i = 0; i < bytes.size(); ++i) bytes[i] = made(first + i);
  return bytes;
}

/// Calls `run` with ranges that lie within a period, so that whole ranges are copied and compared.
template <class Run>
void each_run(std::uint64_t offset, std::uint64_t size, Run run) {
  static const std::uint64_t high = (std::uint64_t{1} << 31) / kPeriod * kPeriod + kPeriod;
  static const auto low_bytes = period(0), high_bytes = period(high);
  for (std::uint64_t at = 0; at < size;) {
    const std::uint64_t step = offset + at, phase = step % kPeriod;
    // Around 2^31 one by one.
    const bool is_mixed = step < high && step + kPeriod > (std::uint64_t{1} << 31);
    const std::uint64_t count = is_mixed ? 1 : std::min(size - at, kPeriod);
    const std::byte one = made(step);
    const std::byte* const from =
        is_mixed ? &one : (step < high ? low_bytes : high_bytes).data() + phase;
    run(at, ConstByteSpan(from, count));
    at += count;
  }
}

TEST(LargePipeline, HasMoreStepsThan31BitsCount) {
  if (has_sanitizer()) GTEST_SKIP() << "too slow under a sanitizer";
  const auto device = *make_cpu_device();
  ProgramSource source;
  source.cpu["invert"] = [](const CpuArguments& with, const CpuSlice& slice) -> Result<void> {
    const auto x = with.span<std::uint8_t>(0), y = with.span<std::uint8_t>(1);
    const std::size_t last = std::min<std::size_t>(slice.last, with.value<std::uint64_t>(2));
    for (std::size_t i = slice.first; i < last; ++i) y[i] = static_cast<std::uint8_t>(~x[i]);
    return {};
  };
  const auto read = [](std::uint64_t offset, ByteSpan to) -> Result<void> {
    each_run(offset, to.size(), [to](std::uint64_t at, ConstByteSpan bytes) {
      std::memcpy(to.data() + at, bytes.data(), bytes.size());
    });
    return {};
  };
  std::uint64_t right = 0;
  std::vector<std::byte> inverted;
  const auto write = [&](std::uint64_t offset, ConstByteSpan from) -> Result<void> {
    inverted.resize(from.size());
    std::ranges::transform(from, inverted.begin(), [](std::byte byte) { return ~byte; });
    each_run(offset, from.size(), [&](std::uint64_t at, ConstByteSpan bytes) {
      if (std::memcmp(inverted.data() + at, bytes.data(), bytes.size()) == 0) right += bytes.size();
    });
    return {};
  };
  PipelineOptions options;
  options.chunk_steps = (Bytes{8} << 20) + 1;
  const auto report = run_pipeline(*device,
                                   PipelineJob(source, "invert", kLargeSteps)
                                       .input(PipelineSource::reader(kLargeSteps, read), 1)
                                       .output(PipelineSink::writer(kLargeSteps, write), 1)
                                       .count(),
                                   options);
  ASSERT_TRUE(report) << to_string(report.error());
  EXPECT_EQ(right, kLargeSteps);
  EXPECT_EQ(report->bytes_in, kLargeSteps);
  EXPECT_EQ(report->bytes_out, kLargeSteps);
}

// Steps without bytes, so that single chunks count further than memory reaches.
TEST(LargePipeline, HasChunksOfMoreStepsThan31BitsCount) {
  const auto device = *make_cpu_device();
  ProgramSource source;
  source.cpu["number"] = [](const CpuArguments& with, const CpuSlice&) -> Result<void> {
    const auto sums = with.span<std::uint64_t>(0);
    const auto count = with.value<std::uint64_t>(1), first = with.value<std::uint64_t>(2);
    sums[0] += count;
    sums[1] += first;
    return {};
  };
  std::uint64_t counted = 0, firsts = 0;
  const auto fold = [&](ConstByteSpan partial, const Chunk& chunk) -> Result<void> {
    std::uint64_t sums[2];
    std::memcpy(sums, partial.data(), sizeof sums);
    EXPECT_EQ(sums[0], chunk.steps);
    counted += sums[0];
    firsts += sums[1];
    return {};
  };
  constexpr std::uint64_t kHuge = std::uint64_t{1} << 52, kChunk = (std::uint64_t{1} << 50) + 1;
  const auto run = [&](std::uint64_t steps, std::uint64_t chunk) {
    counted = firsts = 0;
    PipelineOptions options;
    options.chunk_steps = chunk;
    return run_pipeline(
        *device,
        PipelineJob(source, "number", steps).reduction(16, fold).count().first().range([](auto) {
          return LaunchRange::linear(1);
        }),
        options);
  };
  const auto report = run(kHuge, kChunk);
  ASSERT_TRUE(report) << to_string(report.error());
  EXPECT_EQ(counted, kHuge);
  EXPECT_EQ(firsts, kChunk * (1 + 2 + 3));
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
  const auto chosen = run(kMost, 0);
  ASSERT_TRUE(chosen) << to_string(chosen.error());
  EXPECT_EQ(counted, kMost);
}

}  // namespace
}  // namespace gantry
