#include "device/dsa/pending_moves.hpp"
#include "device/dsa/test_engine.hpp"

// Every status that a record can hold and every refusal at an entrance, seen by the engine: the
// move is done all the same, byte for byte, or says why it cannot be.
namespace gantry::dsa {
namespace {

void expect_copied(Rig& rig, CopyEngine by, Bytes bytes = 20'000) {
  const Buffer source = random_bytes(bytes, 3);
  Buffer copy(bytes);
  const Completion completion = rig.run(Move::copy(copy, source));
  EXPECT_EQ(completion.outcome, Outcome::done);
  EXPECT_EQ(completion.bytes_done, bytes);
  EXPECT_EQ(completion.engine, by);
  EXPECT_TRUE(copy == source);
}

struct Refused {
  const char* name;
  Status status;
  void (*change)(Descriptor&);
};

class DsaRefusal : public testing::TestWithParam<Refused> {};

// The model's counts say that it refused; the CPU did what was to be done.
TEST_P(DsaRefusal, IsDoneByTheCpu) {
  Rig rig;
  rig.meddling->change = GetParam().change;
  const Buffer source = random_bytes(3000, 1);
  Buffer copy(source.size());
  const Completion completion = rig.run(Move::copy(copy, source));
  EXPECT_EQ(completion.outcome, Outcome::done);
  EXPECT_EQ(completion.engine, CopyEngine::inline_);
  EXPECT_TRUE(copy == source);
  EXPECT_EQ(rig.engine->counts().refused, 1u);
  EXPECT_EQ(rig.engine->counts().failed, "");
  EXPECT_EQ(rig.model->counts().ended, 1u);
  // Of an operation that is not known nobody asks again; else the next is tried.
  const bool forgotten = rig.engine->capabilities().kinds.size() < kMoveKinds - 1;
  EXPECT_EQ(forgotten, GetParam().status == Status::bad_opcode);
}

const Refused kRefused[] = {
    {"bad_opcode", Status::bad_opcode,
     [](Descriptor& d) { d.set(static_cast<Opcode>(0x3f), d.flags()); }},
    {"bad_flags", Status::bad_flags,
     [](Descriptor& d) { d.set(d.opcode(), d.flags() | Flags::fence); }},
    {"reserved", Status::reserved_not_zero, [](Descriptor& d) { d.extra[2] = 1; }},
    {"size", Status::size_out_of_range, [](Descriptor& d) { d.size = 3u << 20; }},
    {"interrupt", Status::bad_interrupt_handle,
     [](Descriptor& d) { d.set(d.opcode(), d.flags() | Flags::request_interrupt); }},
};
INSTANTIATE_TEST_SUITE_P(Each, DsaRefusal, testing::ValuesIn(kRefused),
                         [](const auto& refused) { return refused.param.name; });

TEST(DsaStatus, APageFaultOfEitherSideIsPopulatedAndResumedBehindWhatWasDone) {
  for (const auto side : {PageFault::Side::source, PageFault::Side::destination}) {
    Rig rig;
    rig.model->fault_next({.after = 4321, .side = side});
    expect_copied(rig, CopyEngine::dsa);
    const DsaCounts counts = rig.engine->counts();
    EXPECT_EQ(counts.page_faults, 1u);
    EXPECT_EQ(counts.populated, 1u);
    EXPECT_EQ(counts.to_cpu, 0u);
    const Descriptor& first = *(rig.meddling->seen.end() - 2);
    const Descriptor& rest = rig.meddling->seen.back();
    EXPECT_EQ(rest.source, first.source + 4321);
    EXPECT_EQ(rest.destination, first.destination + 4321);
    EXPECT_EQ(rest.size, first.size - 4321);
  }
}

TEST(DsaStatus, APageThatTheKernelCouldNotSupplyIsLeftToTheCpuWithTheRestOnly) {
  Rig rig;
  rig.meddling->change = [](Descriptor& d) {
    d.set(d.opcode(), d.flags() | Flags::block_on_fault);
  };
  rig.model->fault_next({.after = 15'000});
  expect_copied(rig, CopyEngine::dsa);  // the larger part
  EXPECT_EQ(rig.engine->counts().to_cpu, 1u);
  EXPECT_EQ(rig.engine->counts().refused, 0u);
}

TEST(DsaStatus, FaultsWithoutEndAreLeftToTheCpu) {
  Rig rig({.engine = {.fault_limit = 5}});
  for (int i = 0; i < 20; ++i) rig.model->fault_next({.after = 0});
  expect_copied(rig, CopyEngine::inline_, 3000);
  EXPECT_EQ(rig.engine->counts().page_faults, 6u);
}

// ---- batches -------------------------------------------------------------------------------

struct Batch {
  std::vector<Buffer> sources, copies;
  std::vector<Completion> completions;
  std::vector<Move> moves;
  explicit Batch(std::size_t count) : completions(count) {
    for (std::size_t i = 0; i < count; ++i) {
      sources.push_back(random_bytes(500, i));
      copies.emplace_back(500);
    }
    for (std::size_t i = 0; i < count; ++i) {
      moves.push_back(Move::copy(copies[i], sources[i]));
      moves.back().completion = &completions[i];
    }
  }
  void run_on(Rig& rig) {
    const auto ticket = rig.lane->submit(moves, SubmitMode::synchronous);
    ASSERT_TRUE(ticket);
    EXPECT_EQ(rig.lane->wait(*ticket), Outcome::done);
    EXPECT_TRUE(copies == sources);
  }
};

TEST(DsaBatch, AFaultOnItsListIsResumedBehindTheDescriptorsThatWereDone) {
  for (std::uint32_t done = 0; done < 8; ++done) {
    Rig rig;
    rig.model->fault_next_batch(done);
    Batch batch(8);
    batch.run_on(rig);
    EXPECT_EQ(rig.engine->counts().batch_faults, 1u);
    const std::vector<Descriptor>& seen = rig.meddling->seen;
    const Descriptor& first = seen[0];
    ASSERT_EQ(first.opcode(), Opcode::batch);
    const Descriptor& rest = seen[9];
    if (done < 7) {
      EXPECT_EQ(rest.opcode(), Opcode::batch);
      EXPECT_EQ(rest.source, first.source + done * 64);
      EXPECT_EQ(rest.size, 8 - done);
    } else {
      EXPECT_EQ(rest.opcode(), Opcode::memmove);  // one alone is no batch
    }
    EXPECT_EQ(rig.engine->counts().to_cpu, 0u);
  }
}

TEST(DsaBatch, OneOfItThatIsRefusedDoesNotTouchTheOthers) {
  Rig rig;
  int number = 0;
  rig.meddling->change = [&number](Descriptor& d) {
    if (d.opcode() == Opcode::memmove && ++number == 3) d.set(d.opcode(), Flags::fence | d.flags());
    if (d.opcode() == Opcode::memmove && number == 5) d.reserved = 1;
  };
  Batch batch(8);
  batch.run_on(rig);
  EXPECT_EQ(batch.completions[4].engine, CopyEngine::inline_);
  EXPECT_EQ(batch.completions[5].engine, CopyEngine::dsa);
}

TEST(DsaBatch, BehindAFenceAfterAFailureTheRestIsSubmittedAgain) {
  Rig rig;
  int number = 0;
  rig.meddling->change = [&number](Descriptor& d) {
    if (d.opcode() != Opcode::memmove) return;
    ++number;
    if (number == 2) d.reserved = 1;
    if (number == 4) d.set(d.opcode(), Flags::fence | d.flags());
  };
  Batch batch(8);
  batch.run_on(rig);
  EXPECT_EQ(batch.completions[1].engine, CopyEngine::inline_);
  EXPECT_EQ(batch.completions[7].engine, CopyEngine::dsa);
}

TEST(DsaBatch, AQueueThatTakesNoBatchesAfterAllGetsThemOneByOne) {
  const std::function<void(Descriptor&)> kWrongs[] = {
      [](Descriptor& d) {
        if (d.opcode() == Opcode::batch) d.size = 500;  // 0x14
      },
      [](Descriptor& d) {
        if (d.opcode() == Opcode::batch) d.source += 32;  // 0x18
      },
      [](Descriptor& d) {
        if (d.opcode() == Opcode::batch) d.set(d.opcode(), d.flags() | Flags::cache_control);
      },
  };
  for (const auto& wrong : kWrongs) {
    Rig rig;
    rig.meddling->change = wrong;
    Batch(8).run_on(rig);
    Batch(8).run_on(rig);
    EXPECT_EQ(rig.engine->counts().batches, 1u);
    EXPECT_EQ(rig.engine->counts().to_cpu, 0u);
  }
}

TEST(DsaBatch, ByWriteTheFirstVersionRefusesOneAndIsAskedNoMore) {
  Rig rig({.entrance = Entrance::write}, [](QueueTraits& traits) { traits.max_batch = 32; });
  Batch(8).run_on(rig);
  EXPECT_EQ(rig.engine->counts().batches, 0u);
  EXPECT_EQ(rig.engine->counts().to_cpu, 0u);
}

// ---- what never reaches a record -----------------------------------------------------------

class DsaUnanswered : public testing::TestWithParam<Entrance> {};

TEST_P(DsaUnanswered, ARecordThatCannotBeWrittenEndsByTheTimeLimit) {
  const Pages gone(1);
  gone.protect(0, PROT_NONE);
  Rig rig({.entrance = GetParam(), .engine = {.time_limit = kShortLimit}});
  rig.meddling->change = [&](Descriptor& d) { d.completion = address_of(gone.at(0)); };
  expect_copied(rig, CopyEngine::inline_, 3000);
  EXPECT_EQ(rig.model->take_software_error()->status, Status::completion_not_translated);
  EXPECT_NE(rig.engine->counts().failed.find("did not answer within 20 ms"), std::string::npos);
}

TEST_P(DsaUnanswered, AMisalignedRecordEndsByTheTimeLimitOrIsRefusedAtOnce) {
  Rig rig({.entrance = GetParam(), .engine = {.time_limit = kShortLimit}});
  rig.meddling->change = [&](Descriptor& d) { d.completion += 8; };
  expect_copied(rig, CopyEngine::inline_, 3000);
  const bool written = GetParam() == Entrance::write;
  EXPECT_EQ(rig.engine->counts().failed.empty(), written);
  EXPECT_EQ(rig.engine->counts().refused, written ? 1u : 0u);
  if (!written) {
    EXPECT_EQ(rig.model->take_software_error()->status, Status::completion_misaligned);
  }
}

INSTANTIATE_TEST_SUITE_P(Each, DsaUnanswered,
                         testing::Values(Entrance::enqcmd, Entrance::movdir64b, Entrance::write));

// ---- records that make no sense ------------------------------------------------------------

Next judged(Move move, std::uint8_t status, std::uint32_t done, std::uint8_t result = 0) {
  Part part{.move = move};
  CompletionRecord record;
  record.bytes_completed = done;
  record.result = result;
  return judge(part, record, status);
}

TEST(DsaRecord, OneThatClaimsTooMuchOrIsUnknownIsNotBelieved) {
  Buffer one(1000), two(1000);
  const auto fault = static_cast<std::uint8_t>(Status::page_fault);
  for (const auto& [status, done] : {std::pair{fault, 1001u},
                                     {std::uint8_t{0x1f}, 0u},
                                     {std::uint8_t{0x7f}, 0u},
                                     {std::uint8_t{0x07}, 10u}}) {
    EXPECT_EQ(judged(Move::copy(one, two), status, done), Next::by_cpu);
  }
  // From the tail, which is right for an overlapping move alone.
  EXPECT_EQ(judged(Move::copy(one, two), fault, 10, 1), Next::by_cpu);
  EXPECT_EQ(judged(Move::copy(one, two), fault | kStatusWrite, 1000), Next::done);
  EXPECT_EQ(
      judged(Move::copy(one, two), static_cast<std::uint8_t>(Status::success_with_predicate), 0),
      Next::done);
}

TEST(DsaRecord, AResumedFillGoesOnWithItsPatternTurned) {
  Buffer memory(64);
  Part part{.move = Move::fill(memory, std::uint64_t{0x0807060504030201})};
  const CompletionRecord three{.bytes_completed = 3};
  EXPECT_EQ(judge(part, three, static_cast<std::uint8_t>(Status::page_fault)), Next::again);
  EXPECT_EQ(part.move.pattern, 0x0302010807060504u);
  EXPECT_EQ(part.move.bytes, 61u);
  EXPECT_EQ(part.certain, 3u);
}

}  // namespace
}  // namespace gantry::dsa
