#include "core/engine/policy/policy_engine.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>

#include <random>

#include "core/base/event.hpp"
#include "core/base/sizes.hpp"
#include "core/base/test_bytes.hpp"
#include "core/engine/inline/inline_engine.hpp"
#include "core/engine/policy/test_engine.hpp"

namespace gantry {
namespace {

constexpr Bytes kLarge = kMiB;  // from here on the other engine is chosen

EngineCosts costs_of(std::string name, double start_ns, double caller_ns, double bytes_per_ns) {
  EngineCosts costs{std::move(name), false, {}};
  for (Bytes bytes = 64; bytes <= 64 * kMiB; bytes *= 2) {
    const double ns = start_ns + static_cast<double>(bytes) / bytes_per_ns;
    costs.points.push_back({bytes, ns, ns, caller_ns > 0 ? caller_ns : ns});
  }
  return costs;
}

// The other engine is twice as quick and starts 40 us late: from 800 KB on it wins.
Calibration calibration() {
  Calibration all;
  all.source = Calibration::Source::full;
  all.cache_share = 4 * kMiB;
  all.engines = {costs_of("inline", 30, 0, 10), costs_of("thread", 40'000, 1'000, 20)};
  return all;
}

using test::random_bytes;

class PolicyEngines : public ::testing::Test {
 protected:
  explicit PolicyEngines(PolicyOptions options = {1000, {}}) {
    engine_ = *make_auto_engine({*make_inline_engine(), other_}, calibration(), std::move(options));
    lane_ = *engine_->open_lane();
  }
  ~PolicyEngines() override { other_->open(); }

  std::uint64_t moves_by(CopyEngine engine) const {
    return engine_->report().by_engine[static_cast<std::size_t>(engine)].moves;
  }
  Ticket submit(const Move& move, SubmitMode mode = SubmitMode::queued) {
    const auto ticket = lane_->submit(move, mode);
    EXPECT_TRUE(ticket) << ticket.error().message;
    return ticket.value_or(Ticket{});
  }

  std::shared_ptr<GatedEngine> other_ = std::make_shared<GatedEngine>("thread", CopyEngine::thread);
  std::shared_ptr<Engine> engine_;
  std::unique_ptr<Lane> lane_;
  std::vector<std::byte> source_ = random_bytes(2 * kLarge, 1);
  std::vector<std::byte> copy_ = std::vector<std::byte>(2 * kLarge);
  std::vector<std::byte> second_ = std::vector<std::byte>(2 * kLarge);
};

TEST_F(PolicyEngines, DoWhatTheyExplain) {
  std::array<std::uint64_t, kCopyEngines> said{};
  for (const SubmitMode use : {SubmitMode::synchronous, SubmitMode::queued})
    for (Bytes bytes = 64; bytes <= source_.size(); bytes *= 2) {
      Completion completion;
      Move move = Move::copy(ByteSpan(copy_).first(bytes), source_);
      move.completion = &completion;
      const Explanation explanation = lane_->explain(move, use);
      ++said[static_cast<std::size_t>(explanation.engine)];
      ASSERT_EQ(lane_->wait(submit(move, use)), Outcome::done);
      EXPECT_EQ(completion.engine, explanation.engine) << bytes << '\n' << explanation.text();
      EXPECT_EQ(completion.cache, explanation.cache) << bytes;
    }
  EXPECT_TRUE(copy_ == source_);
  EXPECT_GT(moves_by(CopyEngine::thread), 0u);
  for (std::size_t i = 0; i < kCopyEngines; ++i)
    EXPECT_EQ(engine_->report().by_engine[i].moves, said[i]) << i;
}

TEST_F(PolicyEngines, ResolveTheCache) {
  Completion completion;
  Move move = Move::copy(copy_, source_);
  move.completion = &completion;
  move.cache = CacheUse::streaming;
  ASSERT_EQ(lane_->wait(submit(move)), Outcome::done);
  EXPECT_EQ(completion.cache, CacheUse::streaming);
  EXPECT_EQ(completion.engine, CopyEngine::thread);
  EXPECT_EQ(engine_->report().streamed, 1u);
}

TEST_F(PolicyEngines, EndTicketsInOrderAcrossEngines) {
  other_->open(false);
  const Ticket large = submit(Move::copy(copy_, source_));
  const Ticket small = submit(Move::copy(ByteSpan(second_).first(64), source_));
  for (int i = 0; i < 100; ++i) lane_->poll();
  EXPECT_EQ(lane_->outcome(small), Outcome::pending);
  EXPECT_EQ(engine_->load(), copy_.size() + 64);
  other_->open();
  EXPECT_EQ(lane_->wait(small), Outcome::done);
  EXPECT_EQ(lane_->outcome(large), Outcome::done);
  EXPECT_EQ(engine_->load(), 0u);
}

TEST_F(PolicyEngines, CancelWhatIsAway) {
  other_->open(false);
  Completion away;
  Move move = Move::copy(copy_, source_);
  move.completion = &away;
  const Ticket last = submit(move);
  lane_->cancel();
  EXPECT_EQ(lane_->wait(last), Outcome::failed);
  EXPECT_EQ(away.cause, Cause::cancelled);
  other_->open();
  EXPECT_EQ(lane_->wait(submit(Move::copy(copy_, source_))), Outcome::done);  // it goes on
}

TEST_F(PolicyEngines, RefuseOrWaitWhenFull) {
  other_->open(false);
  const auto hasty = *engine_->open_lane({2, LaneOptions::Full::refuse});
  ASSERT_TRUE(hasty->submit(Move::copy(copy_, source_)));
  ASSERT_TRUE(hasty->submit(Move::copy(ByteSpan(second_).first(64), source_)));
  const auto third = hasty->submit(Move::copy(ByteSpan(second_).first(64), source_));
  ASSERT_FALSE(third);
  EXPECT_EQ(third.error().code, Code::busy);
  const auto patient = *engine_->open_lane({1, LaneOptions::Full::wait});
  ASSERT_TRUE(patient->submit(Move::copy(second_, source_)));
  std::thread opener([&] { other_->open(); });
  const auto next = patient->submit(Move::copy(second_, source_));
  ASSERT_TRUE(next);
  EXPECT_EQ(patient->outcome(Ticket{1}), Outcome::done);
  EXPECT_EQ(patient->wait(*next), Outcome::done);
  opener.join();
}

TEST_F(PolicyEngines, RingWithoutAnyPoll) {
  const auto event = lane_->event_descriptor();
  ASSERT_TRUE(event) << event.error().message;
  other_->open(false);
  submit(Move::copy(copy_, source_));
  const Ticket last = submit(Move::copy(ByteSpan(second_).first(700'000), source_));
  other_->open();
  while (lane_->outcome(last) == Outcome::pending) {
    pollfd entry{*event, POLLIN, 0};
    ASSERT_EQ(::poll(&entry, 1, 60'000), 1);
    drain(*event);
  }
  EXPECT_TRUE(std::equal(second_.begin(), second_.begin() + 700'000, source_.begin()));
}

TEST_F(PolicyEngines, GoOnWithoutAnEngineThatRefuses) {
  other_->refuse();
  ASSERT_EQ(lane_->wait(submit(Move::copy(copy_, source_))), Outcome::done);
  EXPECT_TRUE(copy_ == source_);
  EXPECT_EQ(moves_by(CopyEngine::inline_), 1u);
  const Explanation said = lane_->explain(Move::copy(copy_, source_), SubmitMode::queued);
  EXPECT_EQ(said.engine, CopyEngine::inline_);
  EXPECT_FALSE(said.candidates[1].possible);
}

TEST_F(PolicyEngines, GoOnWithoutAnyEngine) {
  const auto first = std::make_shared<GatedEngine>("inline", CopyEngine::inline_);
  const std::shared_ptr<Engine> engine = *make_auto_engine({first}, calibration(), {1000, {}});
  const auto lane = *engine->open_lane();
  first->refuse();
  ASSERT_EQ(lane->wait(*lane->submit(Move::copy(copy_, source_))), Outcome::done);
  EXPECT_TRUE(copy_ == source_);
}

TEST_F(PolicyEngines, SayHowAWaiterWaits) {
  const Move large = Move::copy(copy_, source_);
  EXPECT_EQ(lane_->explain(large, SubmitMode::queued).waiting,
            WaitStrategy::hybrid);  // as the other says
  const Move small = Move::copy(ByteSpan(copy_).first(64), source_);
  EXPECT_EQ(lane_->explain(small, SubmitMode::queued).waiting, WaitStrategy::poll);
}

TEST_F(PolicyEngines, AreRefusedWithoutEnginesOrWithOneTwice) {
  EXPECT_EQ(make_auto_engine({}, calibration()).error().code, Code::invalid_argument);
  EXPECT_EQ(make_auto_engine({other_, other_}, calibration()).error().code, Code::invalid_argument);
  EXPECT_EQ(make_auto_engine({nullptr}, calibration()).error().code, Code::invalid_argument);
}

// Property: whatever engine takes a part, every copy is whole when its ticket has ended, and each
// ticket ends once. Method: three threads on one lane, sizes on both sides of the border; data
// compared by each.
TEST_F(PolicyEngines, ServeManySubmittersOnOneLane) {
  std::atomic<int> wrong{0};
  const auto work = [&](unsigned who) {
    std::vector<std::byte> copy(source_.size());
    std::mt19937 random(who);
    for (unsigned i = 0; i < 60; ++i) {
      const Bytes bytes = i % 2 == 0 ? random() % 5000 : kLarge + random() % 5000;
      Completion completion;
      Move move = Move::copy(ByteSpan(copy).first(bytes), ConstByteSpan(source_).last(bytes));
      move.completion = &completion;
      const auto ticket =
          lane_->submit(move, i % 3 == 0 ? SubmitMode::synchronous : SubmitMode::queued);
      if (!ticket || lane_->wait(*ticket) != Outcome::done) ++wrong;
      if (completion.bytes_done != bytes) ++wrong;
      if (!std::equal(copy.begin(), copy.begin() + static_cast<std::ptrdiff_t>(bytes),
                      source_.end() - static_cast<std::ptrdiff_t>(bytes)))
        ++wrong;
    }
  };
  std::vector<std::thread> threads;
  for (unsigned who = 0; who < 3; ++who) threads.emplace_back(work, who);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(engine_->report().moves, 180u);
  EXPECT_EQ(engine_->load(), 0u);
}

// ---- calibrating at first use --------------------------------------------------------------

class FirstUse : public PolicyEngines {
 protected:
  FirstUse() {
    Calibration defaults = calibration();
    defaults.source = Calibration::Source::defaults;
    engine_ = *make_auto_engine({*make_inline_engine(), other_}, defaults, {1000, [this] {
                                                                              ++calls_;
                                                                              return answer_;
                                                                            }});
    lane_ = *engine_->open_lane();
  }
  int calls_ = 0;
  std::optional<Calibration> answer_;
};

TEST_F(FirstUse, CalibratesOnceAndOnlyForALargeMove) {
  answer_ = calibration();
  answer_->engines[1] = costs_of("thread", 1e9, 1'000, 20);  // found to be hopeless
  for (int i = 0; i < 10; ++i)
    ASSERT_EQ(lane_->wait(submit(Move::copy(ByteSpan(copy_).first(64), source_))), Outcome::done);
  EXPECT_EQ(calls_, 0);
  EXPECT_EQ(lane_->explain(Move::copy(copy_, source_), SubmitMode::queued).engine,
            CopyEngine::thread);
  EXPECT_EQ(calls_, 0);
  for (int i = 0; i < 3; ++i)
    ASSERT_EQ(lane_->wait(submit(Move::copy(copy_, source_))), Outcome::done);
  EXPECT_EQ(calls_, 1);
  EXPECT_EQ(moves_by(CopyEngine::thread), 0u);
}

TEST_F(FirstUse, GoesOnWhenThereIsNoCalibration) {
  for (int i = 0; i < 3; ++i)
    ASSERT_EQ(lane_->wait(submit(Move::copy(copy_, source_))), Outcome::done);
  EXPECT_EQ(calls_, 1);
  EXPECT_EQ(moves_by(CopyEngine::thread), 3u);
}

}  // namespace
}  // namespace gantry
