#include "device/dsa/dsa_engine.hpp"

#include <sys/wait.h>

#include <atomic>
#include <thread>

#include "device/dsa/test_engine.hpp"
#include "support/dsa/model_memory.hpp"

// Queues that are full, halted, closed, inherited; how moves are cut, aligned and labelled.
namespace gantry::dsa {
namespace {

TEST(DsaEngine, OnAModelItSaysThatItIsSimulated) {
  Rig rig;
  EXPECT_EQ(rig.engine->name(), "dsa (simulated)");
  EXPECT_TRUE(rig.engine->counts().simulated);
  Buffer memory(100);
  EXPECT_NE(rig.lane->explain(Move::fill(memory, std::byte{})).reasons[0].find("simulated"),
            std::string::npos);
  EXPECT_FALSE(make_dsa_engine(nullptr));
}

TEST(DsaEngine, LargeMovesAreCutAndTheirBodyIsAligned) {
  Rig rig({.model = {.limits = {.max_transfer_bytes = 8192}}});
  const Buffer source = random_bytes(100'000, 1);
  Buffer copy(source.size() + 64);
  const ByteSpan odd(copy.data() + 1 + 64 - address_of(copy.data()) % 64, 90'000);
  EXPECT_EQ(rig.run(Move::copy(odd, source)).engine, CopyEngine::dsa);
  EXPECT_TRUE(std::equal(odd.begin(), odd.end(), source.begin()));
  EXPECT_EQ(rig.engine->counts().heads, 1u);
  for (const Descriptor& seen : rig.meddling->seen) {
    if (seen.opcode() != Opcode::memmove) continue;
    EXPECT_LE(seen.size, 8192u);
    EXPECT_EQ(seen.destination % 64, 0u);
  }
}

TEST(DsaEngine, TheCacheFlagFollowsTheReader) {
  Rig rig({.engine = {.streaming_from = 10'000}});
  const Buffer source = random_bytes(20'000, 1);
  Buffer copy(source.size());
  const auto flagged = [&](CacheUse use, Bytes bytes) {
    Move move = Move::copy(ByteSpan(copy).first(bytes), source);
    move.cache = use;
    EXPECT_EQ(rig.run(move).outcome, Outcome::done);
    return has(rig.meddling->seen.back().flags(), Flags::cache_control);
  };
  EXPECT_TRUE(flagged(CacheUse::reader_soon, 20'000));
  EXPECT_FALSE(flagged(CacheUse::streaming, 100));
  EXPECT_TRUE(flagged(CacheUse::automatic, 100));
  EXPECT_FALSE(flagged(CacheUse::automatic, 20'000));
}

TEST(DsaEngine, MemoryThatWasNeverTouchedIsMadePresentOnceOneOfItsPagesWasMissed) {
  Rig rig({.engine = {.part_bytes = 4096, .populate = DsaOptions::Populate::always}});
  const Pages fresh(4);
  EXPECT_EQ(rig.run(Move::fill({fresh.at(0), 4 * Pages::page()}, std::byte{9})).outcome,
            Outcome::done);
  EXPECT_EQ(rig.engine->counts().populated, 4u);
  Move known = Move::fill({fresh.at(0), 4 * Pages::page()}, std::byte{8});
  known.resident = true;
  EXPECT_EQ(rig.run(known).outcome, Outcome::done);
  EXPECT_EQ(rig.engine->counts().populated, 4u);
}

// ---- full ----------------------------------------------------------------------------------

TEST(DsaQueue, OneThatIsFullForAWhileIsTriedAgain) {
  Rig rig({.engine = {.full_limit = std::chrono::seconds(60)}});
  rig.model->refuse_next(50);
  Buffer memory(3000);
  EXPECT_EQ(rig.run(Move::fill(memory, std::byte{5})).engine, CopyEngine::dsa);
  EXPECT_EQ(rig.engine->counts().full, 50u);
  EXPECT_EQ(memory, Buffer(3000, std::byte{5}));
}

TEST(DsaQueue, OneThatOthersKeepFullIsNotWaitedForLong) {
  for (const Entrance entrance : {Entrance::enqcmd, Entrance::write}) {
    Rig rig({.entrance = entrance, .engine = {.full_limit = std::chrono::microseconds(100)}});
    rig.model->halt(Halt::refuses);
    Buffer memory(3000);
    EXPECT_EQ(rig.run(Move::fill(memory, std::byte{5})).engine, CopyEngine::inline_);
    EXPECT_EQ(memory, Buffer(3000, std::byte{5}));
    EXPECT_EQ(rig.engine->counts().failed, "");
    rig.model->resume();
    EXPECT_EQ(rig.run(Move::fill(memory, std::byte{6})).engine, CopyEngine::dsa);
  }
}

TEST(DsaQueue, ADedicatedOneIsNeverOverfilled) {
  for (const bool batches : {false, true}) {
    Rig rig({.entrance = Entrance::movdir64b, .model = {.entries = 2}},
            [=](QueueTraits& traits) { traits.max_batch = batches ? traits.max_batch : 0; });
    rig.model->halt(Halt::accepts);
    const Buffer source = random_bytes(200, 1);
    std::vector<Buffer> copies(40, Buffer(200));
    Ticket last{};
    for (Buffer& copy : copies) last = *rig.lane->submit(Move::copy(copy, source));
    for (int i = 0; i < 100; ++i) rig.lane->poll();
    EXPECT_EQ(rig.model->counts().accepted, 2u);
    rig.model->resume();
    EXPECT_EQ(rig.lane->wait(last), Outcome::done);
    EXPECT_EQ(rig.model->counts().dropped, 0u);
    for (const Buffer& copy : copies) EXPECT_TRUE(copy == source);
  }
}

TEST(DsaQueue, AWriteThatWasTakenInPartGoesOnBehindIt) {
  Rig rig({.entrance = Entrance::write});
  rig.model->refuse_next(1, 3);
  const Buffer source = random_bytes(200, 1);
  std::vector<Buffer> copies(8, Buffer(200));
  std::vector<Move> moves;
  for (Buffer& copy : copies) moves.push_back(Move::copy(copy, source));
  EXPECT_EQ(rig.lane->wait(*rig.lane->submit(moves)), Outcome::done);
  for (const Buffer& copy : copies) EXPECT_TRUE(copy == source);
  EXPECT_EQ(rig.model->counts().accepted, 8u);  // none twice
  EXPECT_EQ(rig.engine->counts().submissions, 2u);
}

// ---- halted --------------------------------------------------------------------------------

struct Halted {
  Entrance entrance;
  Halt how;
};
class DsaHalted : public testing::TestWithParam<Halted> {};

// Whichever way it halts, every ticket ends, with the right bytes where that can be.
TEST_P(DsaHalted, EveryTicketEnds) {
  Rig rig({.entrance = GetParam().entrance, .engine = {.time_limit = kShortLimit}});
  rig.model->halt(GetParam().how);
  const Buffer source = random_bytes(5000, 1);
  std::vector<Buffer> copies(30, Buffer(5000));
  std::vector<Completion> completions(30);
  for (std::size_t i = 0; i < copies.size(); ++i) {
    Move move = Move::copy(copies[i], source);
    move.completion = &completions[i];
    ASSERT_TRUE(rig.lane->submit(move));
  }
  EXPECT_EQ(rig.lane->wait(Ticket{30}), Outcome::done);
  for (std::size_t i = 0; i < copies.size(); ++i) {
    EXPECT_EQ(completions[i].engine, CopyEngine::inline_);
    EXPECT_TRUE(copies[i] == source);
  }
  EXPECT_EQ(rig.engine->load(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Each, DsaHalted,
                         testing::Values(Halted{Entrance::enqcmd, Halt::accepts},
                                         Halted{Entrance::enqcmd, Halt::refuses},
                                         Halted{Entrance::movdir64b, Halt::accepts},
                                         Halted{Entrance::movdir64b, Halt::refuses},
                                         Halted{Entrance::write, Halt::accepts},
                                         Halted{Entrance::write, Halt::refuses}));

TEST(DsaHalt, WhatADeviceThatMayStillWriteHoldsFailsAndLaterMovesDoNot) {
  Rig rig({.engine = {.time_limit = kShortLimit}});
  rig.meddling->silent = false;
  rig.model->halt(Halt::accepts);
  Buffer memory(3000);
  EXPECT_EQ(rig.run(Move::fill(memory, std::byte{1})).cause, Cause::device);
  EXPECT_EQ(rig.run(Move::fill(memory, std::byte{2})).engine, CopyEngine::inline_);
  EXPECT_EQ(memory, Buffer(3000, std::byte{2}));
}

TEST(DsaHalt, AnEntranceThatBreaksIsNamedAndItsMovesAreDone) {
  Rig rig;
  Buffer memory(3000);
  EXPECT_EQ(rig.run(Move::fill(memory, std::byte{1})).engine, CopyEngine::dsa);
  rig.meddling->error = EPERM;
  EXPECT_EQ(rig.run(Move::fill(memory, std::byte{2})).engine, CopyEngine::inline_);
  EXPECT_EQ(memory, Buffer(3000, std::byte{2}));
  const std::string failed = rig.engine->counts().failed;
  EXPECT_NE(failed.find("Operation not permitted"), std::string::npos) << failed;
  EXPECT_NE(rig.lane->explain(Move::fill(memory, std::byte{})).reasons[0].find(failed),
            std::string::npos);
}

TEST(DsaHalt, ALaneOfAHaltedDeviceEndsItsMovesBeforeItGoes) {
  for (const bool cancels : {false, true}) {
    Rig rig({.engine = {.time_limit = kShortLimit}});
    rig.model->halt(Halt::accepts);
    Buffer memory(300);
    Completion completion;
    Move move = Move::fill(memory, std::byte{1});
    move.completion = &completion;
    ASSERT_TRUE(rig.lane->submit(move));
    if (cancels) rig.lane->cancel();
    rig.lane.reset();
    EXPECT_NE(completion.outcome, Outcome::pending);
  }
}

// ---- batches -------------------------------------------------------------------------------

// Answers the parts of a batch at once, and the batch when it is told to or closed.
class SlowToAnswerBatches final : public WorkQueue {
 public:
  struct Seen {
    std::atomic<CompletionRecord*> record{nullptr};  // of the batch that is unanswered
    bool silent = true;                              // what close() answers
    int closed = 0;

    // A device would not ask whether the memory is still ours.
    void answer() { record_status(*record.exchange(nullptr)); }
    static void record_status(CompletionRecord& record) {
      store_status(record, static_cast<std::uint8_t>(Status::success));
    }
  };

  explicit SlowToAnswerBatches(std::shared_ptr<Seen> seen) : seen_(std::move(seen)) {
    traits_.max_batch = 32;
  }
  const QueueTraits& traits() const noexcept override { return traits_; }
  Taken submit(std::span<const Descriptor> descriptors) noexcept override {
    for (const Descriptor& descriptor : descriptors) {
      if (descriptor.opcode() != Opcode::batch) {
        Seen::record_status(*record_of(descriptor));
        continue;
      }
      const auto* list = reinterpret_cast<const Descriptor*>(descriptor.source);
      for (const Descriptor& part : std::span(list, descriptor.size))
        Seen::record_status(*record_of(part));
      seen_->record = record_of(descriptor);
    }
    return {descriptors.size(), 0};
  }
  bool close() noexcept override {
    ++seen_->closed;
    if (seen_->silent) seen_->answer();
    return seen_->silent;
  }
  Result<std::unique_ptr<WorkQueue>> reopen() const override { return tl::unexpected(Error{}); }

 private:
  static CompletionRecord* record_of(const Descriptor& descriptor) {
    return reinterpret_cast<CompletionRecord*>(descriptor.completion);
  }
  const std::shared_ptr<Seen> seen_;
  QueueTraits traits_;
};

// The engine with a move of two parts that is done and a batch of them that is not answered.
std::shared_ptr<DsaEngine> after_a_batch(const std::shared_ptr<SlowToAnswerBatches::Seen>& seen,
                                         std::chrono::nanoseconds time_limit) {
  auto engine =
      *make_dsa_engine(std::make_unique<SlowToAnswerBatches>(seen),
                       {.part_bytes = Pages::page(), .time_limit = time_limit, .helper = false});
  const Pages pages(2);
  const Move fill = Move::fill({pages.at(0), 2 * Pages::page()}, std::byte{1});
  const auto lane = *engine->open_lane();
  EXPECT_EQ(lane->wait(*lane->submit(fill)), Outcome::done);
  EXPECT_NE(seen->record, nullptr);
  EXPECT_EQ(seen->closed, 0);
  return engine;
}

TEST(DsaBatch, IsAwaitedBeforeItsRecordGoes) {
  const auto seen = std::make_shared<SlowToAnswerBatches::Seen>();
  auto engine = after_a_batch(seen, std::chrono::seconds(60));
  std::thread device([&] {
    for (int i = 0; i < 1000; ++i) std::this_thread::yield();
    seen->answer();
  });
  engine.reset();
  EXPECT_EQ(seen->record, nullptr);
  device.join();
  EXPECT_EQ(seen->closed, 0);
}

TEST(DsaBatch, ThatIsNeverAnsweredIsEndedByClosingTheQueueFirst) {
  const auto seen = std::make_shared<SlowToAnswerBatches::Seen>();
  auto engine = after_a_batch(seen, kShortLimit);
  engine.reset();
  EXPECT_EQ(seen->closed, 1);
  EXPECT_EQ(seen->record, nullptr);
}

TEST(DsaBatch, ThatMayStillBeAnsweredKeepsItsRecordForGood) {
  const auto seen = std::make_shared<SlowToAnswerBatches::Seen>();
  seen->silent = false;
  auto engine = after_a_batch(seen, kShortLimit);
  engine.reset();
  EXPECT_EQ(seen->closed, 1);
  ASSERT_TRUE(is_readable(address_of(seen->record.load())));
  seen->answer();
}

// ---- fork ----------------------------------------------------------------------------------

// What the child finds, as bits of its exit status.
int in_child(DsaEngine& engine, Lane& lane, Ticket pending) {
  int wrong = 0;
  Buffer memory(3000);
  const auto refused = lane.submit(Move::fill(memory, std::byte{1}));
  if (refused || refused.error().code != Code::closed) wrong |= 1;
  if (lane.wait(pending) != Outcome::failed) wrong |= 2;
  auto fresh = engine.open_lane();
  if (!fresh) return wrong | 4;
  const auto ticket = (*fresh)->submit(Move::fill(memory, std::byte{2}));
  if (!ticket || (*fresh)->wait(*ticket) != Outcome::done) wrong |= 8;
  if (memory != Buffer(3000, std::byte{2})) wrong |= 16;
  if (engine.report().by_engine[static_cast<std::size_t>(CopyEngine::dsa)].moves != 1) wrong |= 32;
  return wrong;
}

TEST(DsaFork, AChildOpensTheQueueAnewAndItsInheritedTicketsEnd) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ThreadSanitizer allows no threads in a forked child";
#endif
  Rig rig;
  Buffer memory(300);
  // After this the model's thread has started and is asleep: see base/test_fork.hpp.
  EXPECT_EQ(rig.run(Move::fill(memory, std::byte{3})).outcome, Outcome::done);
  rig.model->halt(Halt::accepts);
  const auto ticket = rig.lane->submit(Move::fill(memory, std::byte{1}));
  ASSERT_TRUE(ticket);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) ::_exit(in_child(*rig.engine, *rig.lane, *ticket));
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  rig.model->resume();
  EXPECT_EQ(rig.lane->wait(*ticket), Outcome::done);  // the parent's is not touched
}

}  // namespace
}  // namespace gantry::dsa
