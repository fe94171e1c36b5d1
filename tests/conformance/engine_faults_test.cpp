#include <unistd.h>

#include "core/base/os/fd.hpp"
#include "core/base/test_sanitizer.hpp"
#include "engine_suite.hpp"

// Memory that is not there: every engine answers with the address and says how far it came.
namespace gantry {
namespace {

using EngineFaults = EngineConformance;

constexpr Bytes kPages = 300;  // several units
constexpr Bytes kBad = 211;

struct Rig {
  GuardedPages source{kPages}, destination{kPages}, second{kPages};
  Rig() {
    const auto bytes = random_bytes(kPages * kPage, 5);
    std::copy(bytes.begin(), bytes.end(), source.bytes().begin());
    std::copy(bytes.begin(), bytes.end(), second.bytes().begin());
  }
};

void expect_fault(const Completion& completion, Cause cause, const std::byte* page) {
  EXPECT_EQ(completion.outcome, Outcome::failed);
  EXPECT_EQ(completion.cause, cause) << to_string(completion.cause);
  EXPECT_EQ(completion.fault_address / kPage, address(page) / kPage);
  EXPECT_EQ(completion.bytes_done, kBad * kPage);  // exact to a page
}

TEST_P(EngineFaults, AnUnreadableSourcePageFailsTheMoveAndSaysHowFarItCame) {
  const Rig rig;
  rig.source.protect(kBad, PROT_NONE);
  for (const CacheUse cache : {CacheUse::reader_soon, CacheUse::streaming}) {
    Move move = Move::copy(rig.destination.bytes(), rig.source.bytes());
    move.cache = cache;
    std::fill(rig.destination.bytes().begin(), rig.destination.bytes().end(), std::byte{});
    const Completion completion = run(move);
    expect_fault(completion, Cause::unreadable, rig.source.page(kBad).data());
    EXPECT_TRUE(std::equal(rig.source.bytes().begin(),
                           rig.source.bytes().begin() + completion.bytes_done,
                           rig.destination.bytes().begin()));
  }
  rig.source.protect(kBad, PROT_READ);
  run_well(Move::copy(rig.destination.bytes(), rig.source.bytes()));  // the lane goes on
  EXPECT_TRUE(std::equal(rig.source.bytes().begin(), rig.source.bytes().end(),
                         rig.destination.bytes().begin()));
}

TEST_P(EngineFaults, AReadOnlyDestinationFailsTheMoveAndIsNotWritten) {
  const Rig rig;
  rig.destination.protect(kBad, PROT_READ);
  for (Move move : {Move::copy(rig.destination.bytes(), rig.source.bytes()),
                    Move::fill(rig.destination.bytes(), 0x0123'4567'89ab'cdefu)})
    for (const CacheUse cache : {CacheUse::reader_soon, CacheUse::streaming}) {
      SCOPED_TRACE(to_string(move.kind));
      move.cache = cache;
      expect_fault(run(move), Cause::unwritable, rig.destination.page(kBad).data());
    }
  EXPECT_EQ(rig.destination.page(kBad)[0], std::byte{});
}

TEST_P(EngineFaults, AFileCutShortUnderItsMappingFailsTheMove) {
  const Fd file(::memfd_create("cut", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(file.get(), kPages * kPage), 0);
  void* at = ::mmap(nullptr, kPages * kPage, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  ASSERT_NE(at, MAP_FAILED);
  const ByteSpan mapped(static_cast<std::byte*>(at), kPages * kPage);
  std::fill(mapped.begin(), mapped.end(), std::byte{3});
  ASSERT_EQ(::ftruncate(file.get(), kBad * kPage), 0);
  const Rig rig;
  expect_fault(run(Move::copy(rig.destination.bytes(), mapped)), Cause::unreadable,
               mapped.data() + kBad * kPage);
  expect_fault(run(Move::fill(mapped, std::byte{4})), Cause::unwritable,
               mapped.data() + kBad * kPage);
  ::munmap(at, kPages * kPage);
}

TEST_P(EngineFaults, AddressesThatNoMappingCanHaveFailTheMove) {
  if (has_sanitizer())
    GTEST_SKIP() << "the sanitizer's memcpy() ends the process at such addresses";
  const Rig rig;
  auto* nowhere = reinterpret_cast<std::byte*>(std::uintptr_t{0xdead} << 48);
  const Completion read = run(Move::copy(rig.destination.page(0), {nowhere, kPage}));
  EXPECT_EQ(read.cause, Cause::unreadable);
  EXPECT_EQ(read.bytes_done, 0u);
  EXPECT_EQ(run(Move::fill({nowhere, kPage}, std::byte{1})).cause, Cause::unwritable);
}

TEST_P(EngineFaults, OthersOfTheBatchAreNotTouched) {
  const Rig rig;
  rig.source.protect(0, PROT_NONE);
  std::vector<std::byte> well(kPage), too(kPage);
  std::array<Completion, 3> completions;
  std::array<Move, 3> batch{Move::copy(well, rig.second.page(1)),
                            Move::copy(rig.destination.page(0), rig.source.page(0)),
                            Move::copy(too, rig.second.page(2))};
  for (std::size_t i = 0; i < batch.size(); ++i) batch[i].completion = &completions[i];
  const auto ticket = lane_->submit(batch);
  ASSERT_TRUE(ticket);
  EXPECT_EQ(lane_->wait(*ticket), Outcome::done);
  EXPECT_EQ(completions[0].outcome, Outcome::done);
  EXPECT_EQ(completions[1].cause, Cause::unreadable);
  EXPECT_EQ(completions[2].outcome, Outcome::done);
  const ByteSpan one = rig.second.page(1), two = rig.second.page(2);
  EXPECT_TRUE(std::equal(one.begin(), one.end(), well.begin()));
  EXPECT_TRUE(std::equal(two.begin(), two.end(), too.begin()));
  const auto last = static_cast<std::uint64_t>(*ticket);
  EXPECT_EQ(lane_->outcome(Ticket{last - 2}), Outcome::done);
  EXPECT_EQ(lane_->outcome(Ticket{last - 1}), Outcome::failed);
  EXPECT_EQ(engine_->report().failed, 1u);
  run_well(Move::copy(too, rig.second.page(3)));
}

INSTANTIATE_TEST_SUITE_P(Faults, EngineFaults, testing::ValuesIn(kEngines), name_of);

}  // namespace
}  // namespace gantry
