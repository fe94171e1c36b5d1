#include <gmock/gmock.h>

#include <latch>

#include "pipeline_suite.hpp"

// Results are those of a plain loop, whatever the sizes, chunks, depths and ways.
namespace gantry {
namespace {

using testing::HasSubstr;
using PipelineResults = PipelineTest;

constexpr PipelineMode kModes[] = {
    PipelineMode::automatic,         PipelineMode::sequential,
    PipelineMode::sequential_pinned, PipelineMode::overlapped_pageable,
    PipelineMode::overlapped_pinned, PipelineMode::unbatched,
};

/// Sizes, chunkings, depths and ways by chance; the seed tells which.
class Chance {
 public:
  explicit Chance(std::uint32_t seed) : random_(seed) {}
  std::uint64_t operator()(std::uint64_t least, std::uint64_t most) {
    return std::uniform_int_distribution<std::uint64_t>(least, most)(random_);
  }
  /// From 1 on, small ones as likely as large ones.
  std::uint64_t size(std::uint64_t most) {
    std::uint64_t limit = 1;
    for (std::uint64_t i = (*this)(0, 63); i > 0 && limit < most; --i) limit *= 2;
    return (*this)(1, std::min(limit, most));
  }
  PipelineOptions options(std::uint64_t steps) {
    PipelineOptions options;
    options.mode = kModes[(*this)(0, std::size(kModes) - 1)];
    if ((*this)(0, 3) != 0)
      options.chunk_steps = (*this)(std::max<std::uint64_t>(1, steps / 40), steps + 3);
    if ((*this)(0, 1) != 0) options.depth = static_cast<unsigned>((*this)(1, 7));
    const Staging ways[] = {Staging::automatic, Staging::direct, Staging::ring};
    if (options.mode == PipelineMode::automatic) options.staging = ways[(*this)(0, 2)];
    // Without a limit memory that can be is worked on in place: with one it is copied.
    if ((*this)(0, 2) == 0) options.stall_limit = std::chrono::hours(1);
    return options;
  }

 private:
  std::mt19937 random_;
};

std::string text_of(const PipelineOptions& options, std::uint64_t steps, std::uint32_t seed) {
  return fmt::format("seed {}: {} steps, {}, chunks of {}, depth {}, staging {}", seed, steps,
                     to_string(options.mode), options.chunk_steps, options.depth,
                     to_string(options.staging));
}

// ---- what can be an argument ---------------------------------------------------------------

template <class Array>
concept IsInput = requires(PipelineJob job, Array&& data) {
  job.input(std::forward<Array>(data), 2, Halo{1, 1});
  job.broadcast(std::forward<Array>(data));
};
template <class Array>
concept IsOutput =
    requires(PipelineJob job, Array&& data) { job.output(std::forward<Array>(data), 2); };

template <class Array>
constexpr bool kIsBoth = IsInput<Array> && IsOutput<Array>;
template <class Array>
constexpr bool kIsRead = IsInput<Array> && !IsOutput<Array>;
template <class Array>
constexpr bool kIsNeither = !IsInput<Array> && !IsOutput<Array>;

static_assert(kIsBoth<std::span<float>> && kIsBoth<std::span<float, 8>>);
static_assert(kIsBoth<std::vector<int>&> && kIsBoth<std::array<int, 4>&> && kIsBoth<int (&)[4]>);
static_assert(kIsRead<std::span<const float>> && kIsRead<const std::span<const float, 8>&>);
static_assert(kIsRead<const std::vector<int>&> && kIsRead<const std::array<int, 4>&>);
static_assert(kIsNeither<std::vector<int>> &&
              kIsNeither<std::array<int, 4>>);  // they would be gone
static_assert(kIsNeither<std::vector<std::string>&> && kIsNeither<std::vector<bool>&>);

TEST_P(PipelineResults, ArraysOfAnyKindAreTheirElements) {
  const std::array<std::uint32_t, 6> x{1, 2, 3, 4, 5, 6};
  std::vector<std::uint32_t> y{10, 20, 30, 40, 50, 60}, z(6);
  PipelineOptions options;
  options.mode = PipelineMode::unbatched;
  const auto report = run(job("weigh", 3)
                              .input(std::span(x), 2)
                              .input(y, 2)
                              .output(z, 2)
                              .value(std::uint64_t{6})
                              .range([](std::uint64_t n) { return LaunchRange::linear(2 * n); }),
                          options);
  EXPECT_EQ(report.bytes_out, 24u);
  EXPECT_EQ(z, (std::vector<std::uint32_t>{31, 62, 93, 124, 155, 186}));
}

TEST_P(PipelineResults, MoreBytesAStepThanCanBeCountedAreNoneThatFit) {
  const Words x(1);
  Words z(1);
  constexpr std::uint64_t kWraps = (std::uint64_t{1} << 62) + 1;  // to 4 bytes
  EXPECT_EQ(error_of(job("twice", 1).input(x, kWraps).output(z).count()).code,
            Code::invalid_argument);
  EXPECT_EQ(error_of(job("twice", 1).input(x).output(z, kWraps).count()).code,
            Code::invalid_argument);
}

// ---- what comes out ------------------------------------------------------------------------

TEST_P(PipelineResults, OneStepOneChunkAndEveryRemainder) {
  for (const std::uint64_t steps : {1, 2, 7, 8, 9, 15, 16, 17, 100})
    for (const std::uint64_t chunk : {1, 2, 8, 100, 1000}) {
      const Words x = random_words(steps, 1), y = random_words(steps, 2);
      Words z(steps, 99);
      PipelineOptions options;
      options.chunk_steps = chunk;
      const auto report = run(
          job("weigh", steps).input(std::span(x)).input(std::span(y)).output(std::span(z)).count(),
          options);
      for (std::uint64_t i = 0; i < steps; ++i) ASSERT_EQ(z[i], x[i] + 3 * y[i]) << i;
      EXPECT_EQ(report.plan.chunks, (steps + chunk - 1) / chunk);
      EXPECT_EQ(report.bytes_in, 8 * steps);
      EXPECT_EQ(report.bytes_out, 4 * steps);
    }
}

TEST_P(PipelineResults, EveryModeGivesTheSame) {
  constexpr std::uint64_t kSteps = 300'001;
  const Words x = random_words(kSteps, 1), y = random_words(kSteps, 2);
  for (const PipelineMode mode : kModes) {
    SCOPED_TRACE(to_string(mode));
    Words z(kSteps);
    PipelineOptions options;
    options.mode = mode;
    options.keep_timeline = true;
    const auto report = run(
        job("weigh", kSteps).input(std::span(x)).input(std::span(y)).output(std::span(z)).count(),
        options);
    for (std::uint64_t i = 0; i < kSteps; ++i) ASSERT_EQ(z[i], x[i] + 3 * y[i]) << i;
    EXPECT_EQ(report.timeline.size(), report.plan.chunks);
    EXPECT_THAT(report.explain().text(), HasSubstr(to_string(mode)));
    EXPECT_FALSE(report.plan.reasons.empty());
    if (mode != PipelineMode::automatic) {  // which may need no more than one
      EXPECT_EQ(mode == PipelineMode::unbatched, report.plan.chunks == 1);
    }
    std::uint64_t next = 0;
    for (const ChunkTimes& times : report.timeline) {
      EXPECT_EQ(times.chunk.first, next);
      EXPECT_LE(times.copy_in.ended, times.compute.began);
      if (mode != PipelineMode::automatic) {  // which may need no copies
        EXPECT_LE(times.compute.ended, times.copy_out.began);
      }
      next += times.chunk.steps;
    }
    EXPECT_EQ(next, kSteps);
  }
}

TEST_P(PipelineResults, InPlaceByChance) {
  for (std::uint32_t seed = 0; seed < 60; ++seed) {
    Chance chance(seed);
    const std::uint64_t steps = chance.size(50'000);
    const PipelineOptions options = chance.options(steps);
    SCOPED_TRACE(text_of(options, steps, seed));
    const Words before = random_words(steps, seed);
    Words x = before;
    run(job("twice", steps)
            .in_place(std::as_writable_bytes(std::span(x)), sizeof(std::uint32_t))
            .count()
            .first(),
        options);
    for (std::uint64_t i = 0; i < steps; ++i)
      ASSERT_EQ(x[i], 2 * before[i] + static_cast<std::uint32_t>(i)) << i;
  }
}

std::uint32_t at_edge(const Words& x, std::int64_t row, std::uint64_t column, std::uint64_t rows,
                      std::uint64_t width, Edge edge) {
  const auto last = static_cast<std::int64_t>(rows) - 1;
  if (edge == Edge::zero && (row < 0 || row > last)) return 0;
  if (edge == Edge::clamp) row = std::clamp<std::int64_t>(row, 0, last);
  while (row < 0) row += last + 1;
  return x[static_cast<std::uint64_t>(row % (last + 1)) * width + column];
}

TEST_P(PipelineResults, HalosByChance) {
  for (std::uint32_t seed = 0; seed < 90; ++seed) {
    Chance chance(seed);
    const std::uint64_t rows = chance.size(700), width = chance(1, 9);
    const Halo halo{chance(0, 4), chance(0, 4), static_cast<Edge>(seed % 3)};
    const PipelineOptions options = chance.options(rows);
    SCOPED_TRACE(fmt::format("{}, width {}, halo {} and {}, edge {}", text_of(options, rows, seed),
                             width, halo.before, halo.after, seed % 3));
    const Words x = random_words(rows * width, seed);
    Words y(rows * width);
    run(job("stencil", rows)
            .input(std::span(x), width, halo)
            .output(std::span(y), width)
            .count()
            .value(static_cast<std::uint32_t>(width))
            .value(static_cast<std::uint32_t>(halo.before))
            .value(static_cast<std::uint32_t>(halo.after))
            .range([width](std::uint64_t steps) { return LaunchRange::linear(steps * width); }),
        options);
    for (std::uint64_t row = 0; row < rows; ++row)
      for (std::uint64_t column = 0; column < width; ++column) {
        std::uint32_t sum = 0;
        for (std::uint64_t k = 0; k <= halo.before + halo.after; ++k)
          sum += static_cast<std::uint32_t>(k + 1) *
                 at_edge(
                     x, static_cast<std::int64_t>(row + k) - static_cast<std::int64_t>(halo.before),
                     column, rows, width, halo.edge);
        ASSERT_EQ(y[row * width + column], sum) << row << ", " << column;
      }
  }
}

// Two outputs of other sizes than the input's, and a table that every chunk sees whole.
TEST_P(PipelineResults, StridesBroadcastsAndSeveralOutputsByChance) {
  for (std::uint32_t seed = 0; seed < 60; ++seed) {
    Chance chance(seed);
    const std::uint64_t steps = chance.size(3000), width = chance(1, 17), size = chance(1, 40);
    const PipelineOptions options = chance.options(steps);
    SCOPED_TRACE(text_of(options, steps, seed));
    const Words x = random_words(steps * width, seed), table = random_words(size, seed + 1);
    Words y(2 * steps);
    std::vector<std::uint8_t> odd(steps);
    run(job("rows", steps)
            .input(std::span(x), width)
            .broadcast(std::span(table))
            .output(std::span(y), 2)
            .output(std::span(odd))
            .count()
            .value(static_cast<std::uint32_t>(width))
            .value(static_cast<std::uint32_t>(size)),
        options);
    for (std::uint64_t i = 0; i < steps; ++i) {
      std::uint32_t sum = 0;
      for (std::uint64_t k = 0; k < width; ++k) sum += x[i * width + k] * table[k % size];
      ASSERT_EQ(y[2 * i], sum) << i;
      ASSERT_EQ(y[2 * i + 1], ~sum) << i;
      ASSERT_EQ(odd[i], sum & 1) << i;
    }
  }
}

TEST_P(PipelineResults, ReductionsAreFoldedInOrder) {
  constexpr std::uint32_t kItems = 16;
  for (std::uint32_t seed = 0; seed < 40; ++seed) {
    Chance chance(seed);
    const std::uint64_t steps = chance.size(100'000);
    const PipelineOptions options = chance.options(steps);
    SCOPED_TRACE(text_of(options, steps, seed));
    const Words x = random_words(steps, seed);
    std::uint64_t sum = 0, next = 0;
    const auto fold = [&](ConstByteSpan partial, const Chunk& chunk) -> Result<void> {
      EXPECT_EQ(chunk.first, next);
      next += chunk.steps;
      for (std::size_t i = 0; i < kItems; ++i) {
        std::uint64_t part = 0;
        std::memcpy(&part, partial.data() + i * sizeof part, sizeof part);
        sum += part;
      }
      return {};
    };
    run(job("total", steps)
            .input(std::span(x))
            .reduction(kItems * sizeof(std::uint64_t), fold)
            .count()
            .value(kItems)
            .range([](std::uint64_t) { return LaunchRange::linear(kItems); }),
        options);
    EXPECT_EQ(sum, std::accumulate(x.begin(), x.end(), std::uint64_t{0}));
    EXPECT_EQ(next, steps);
  }
}

/// Adds the slice to the first word of the partial result: a load, and a store after the first two
/// calls of a launch have met in between. If they had one word, one sum would be lost.
ProgramSource meeting_sums(std::latch& meeting, std::uint64_t first_calls) {
  ProgramSource source;
  const auto calls = std::make_shared<std::atomic<std::uint64_t>>(0);
  source.cpu["sum"] = [&meeting, first_calls, calls](const CpuArguments& with,
                                                     const CpuSlice& slice) -> Result<void> {
    const auto x = with.span<std::uint32_t>(0);
    const auto part = with.span<std::uint64_t>(1);
    std::uint64_t sum = part[0];
    for (std::size_t i = slice.first; i < slice.last; ++i) sum += x[i];
    if (calls->fetch_add(1) < first_calls) meeting.arrive_and_wait();
    part[0] = sum;
    return {};
  };
  return source;
}

TEST_P(PipelineResults, AKernelSimplyAddsToItsPartialResult) {
  const unsigned threads = device_->facts().partials;
  if (device_->facts().kind != DeviceKind::cpu) GTEST_SKIP() << "work items share one there";
  constexpr std::uint64_t kSteps = 100'000;
  const Words x = random_words(kSteps, 5);
  std::latch meeting(2);
  std::uint64_t sum = 0, steps = 0, folds = 0;
  const auto fold = [&](ConstByteSpan partial, const Chunk& chunk) -> Result<void> {
    EXPECT_EQ(partial.size(), sizeof sum);
    EXPECT_EQ(chunk.first, steps);
    std::uint64_t part = 0;
    std::memcpy(&part, partial.data(), sizeof part);
    sum += part;
    steps += chunk.steps;
    ++folds;
    return {};
  };
  run(PipelineJob(meeting_sums(meeting, threads > 1 ? 2 : 0), "sum", kSteps)
          .input(std::span(x))
          .reduction(sizeof sum, fold)
          .count(),
      in_chunks(kSteps / 4));
  EXPECT_EQ(sum, std::accumulate(x.begin(), x.end(), std::uint64_t{0}));
  EXPECT_EQ(steps, kSteps);
  EXPECT_GE(folds, threads > 1 ? 5u : 4u);  // two that met were two
  EXPECT_LE(folds, 4 * threads);
}

TEST_P(PipelineResults, BlocksOfAPoolAndMemoryThatIsRegistered) {
  constexpr std::uint64_t kSteps = 10'000;
  const auto registrar = device_->registrar();
  PoolOptions pooled;
  pooled.region.shareable = false;
  if (registrar) pooled.registrars.push_back(*registrar);
  auto pool = *Pool::create(pooled);
  const Words y = random_words(kSteps, 2);
  const Block x = *pool.allocate(kSteps * 4), z = *pool.allocate(kSteps * 4);
  std::memset(x.bytes().data(), 1, x.bytes().size());
  PipelineOptions options;
  options.chunk_steps = 999;
  for (const Staging staging : {Staging::automatic, Staging::direct}) {
    options.staging = staging;
    std::memset(z.bytes().data(), 0, z.bytes().size());
    const auto report = run(job("weigh", kSteps)
                                .input(PipelineSource::block(x), 4)
                                .input(PipelineSource::registered(std::as_bytes(std::span(y))), 4)
                                .output(PipelineSink::block(z), 4)
                                .count(),
                            options);
    if (staging == Staging::direct) {
      EXPECT_EQ(report.plan.staging[1], Staging::registered);
    }
    for (std::uint64_t i = 0; i < kSteps; ++i) {
      std::uint32_t got = 0;
      std::memcpy(&got, z.bytes().data() + 4 * i, 4);
      ASSERT_EQ(got, 0x01010101u + 3 * y[i]) << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, PipelineResults, testing::ValuesIn(kDevices),
                         pipeline_device_name);

}  // namespace
}  // namespace gantry
