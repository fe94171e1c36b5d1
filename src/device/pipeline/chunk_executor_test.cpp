#include "device/pipeline/chunk_executor.hpp"

#include <gtest/gtest.h>

// What an executor does is tested where jobs run: tests/conformance. Here are its invariants.
#ifndef NDEBUG
namespace gantry {

template <>
struct InvariantBreaker<ChunkExecutor> {
  static void set(ChunkExecutor& executor, std::uint64_t completed, std::uint64_t submitted) {
    executor.completed_ = completed;
    executor.submitted_ = submitted;
  }
  static void fail(ChunkExecutor& executor, const Chunk& chunk) {
    executor.submit_failure_ = ChunkFailure{{Code::closed, "by the test", ""}, chunk};
  }
  static void forget_timeline(ChunkExecutor& executor) { executor.timeline_.clear(); }
  static void commit(ChunkExecutor& executor, ChunkRing& ring, std::uint64_t index) {
    static_cast<void>(executor.commit(ring.slot(index)));
  }
  static void commit_first(ChunkExecutor& executor, ChunkRing& ring) {
    static_cast<void>(executor.commit_first(ring));
  }
};

namespace {

/// Never asked for anything.
class NoDevice final : public Device {
 public:
  const DeviceFacts& facts() const noexcept override { return facts_; }
  Result<DeviceMemory> memory() const override { return DeviceMemory{}; }
  Result<DeviceBuffer> allocate(Bytes) override { return none(); }
  Result<std::unique_ptr<DeviceQueue>> open_queue(QueueRole) override { return none(); }
  Result<Program> build(const ProgramSource&) override { return none(); }
  Result<std::shared_ptr<Registrar>> registrar() override { return none(); }
  Result<void> state() const override { return {}; }
  void abandon(std::string) noexcept override {}

 private:
  static tl::unexpected<Error> none() { return fail(Code::unsupported, "no device"); }
  DeviceFacts facts_;
};

/// Chunks 3 and 4, of two steps each, are under way, in a ring of four.
class ChunkExecutorDeathTest : public testing::Test {
 protected:
  using Breaker = InvariantBreaker<ChunkExecutor>;
  ChunkExecutorDeathTest() {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    options_.keep_timeline = true;
    for (std::uint64_t index = 0; index < 5; ++index) {
      ring_.slot(index).chunk = {index, 2 * index, 2};
      if (index < 3) Breaker::commit(executor_, ring_, index);
    }
    Breaker::set(executor_, 3, 5);
    executor_.check_invariants(ring_);
  }

  NoDevice device_;
  const PipelineJob job_{Kernel(), 100};
  PipelineOptions options_;
  ChunkRing ring_ = *ChunkRing::make(device_, {}, 2, 4, nullptr);
  ChunkExecutor executor_{device_, job_, options_, Kernel(), {}, {1, 0, 100}, 0};
};

TEST_F(ChunkExecutorDeathTest, WhatIsCompletedWasSubmitted) {
  Breaker::set(executor_, 4, 3);
  EXPECT_DEATH(executor_.check_invariants(ring_), "broken contract.*completed_");  // I1
}

TEST_F(ChunkExecutorDeathTest, NoMoreAreUnderWayThanTheRingHasSlots) {
  Breaker::set(executor_, 0, 5);
  EXPECT_DEATH(executor_.check_invariants(ring_), "broken contract.*depth");  // I1
}

TEST_F(ChunkExecutorDeathTest, ASlotIsOneChunks) {
  ring_.slot(4).chunk.index = 8;
  EXPECT_DEATH(executor_.check_invariants(ring_), "broken contract.*index");  // I2
}

TEST_F(ChunkExecutorDeathTest, ChunksLieOneBehindTheOther) {
  ring_.slot(4).chunk.first = 9;
  EXPECT_DEATH(executor_.check_invariants(ring_), "broken contract.*first");  // I3
}

TEST_F(ChunkExecutorDeathTest, AChunkHasStepsAndFitsItsSlot) {
  for (const std::uint64_t steps : {0u, 3u}) {
    ring_.slot(4).chunk.steps = steps;
    EXPECT_DEATH(executor_.check_invariants(ring_), "broken contract.*steps") << steps;  // I3
  }
}

TEST_F(ChunkExecutorDeathTest, WhatFailedIsTheFirstThatIsNotSubmitted) {
  Breaker::fail(executor_, {5, 10, 2});
  executor_.check_invariants(ring_);
  Breaker::fail(executor_, {4, 8, 2});
  EXPECT_DEATH(executor_.check_invariants(ring_), "broken contract.*submit_failure_");  // I4
}

TEST_F(ChunkExecutorDeathTest, ChunksAreCommittedInOrder) {
  EXPECT_DEATH(Breaker::commit(executor_, ring_, 4), "broken contract.*next_");  // I5
  Breaker::set(executor_, 4, 5);
  EXPECT_DEATH(Breaker::commit_first(executor_, ring_), "broken contract.*completed_");  // I5
}

TEST_F(ChunkExecutorDeathTest, ATimelineHasAnEntryForEach) {
  Breaker::forget_timeline(executor_);
  EXPECT_DEATH(Breaker::commit(executor_, ring_, 3), "broken contract.*timeline_");  // I6
}

}  // namespace
}  // namespace gantry
#endif
