#include "core/base/test_effort.hpp"
#include "device/dsa/test_engine.hpp"

// Random moves against a plain reference, while pages are missing, batches break off and the queue
// is full at random. Each move of a batch has a zone of its own, so that all may run at once; a
// shadow of the memory gets the same moves from plain loops.
namespace gantry::dsa {
namespace {

constexpr std::size_t kZones = 16;
constexpr Bytes kZoneBytes = 16384;
#if defined(__SANITIZE_THREAD__)
constexpr unsigned kMoves = 4'000;
#else
constexpr unsigned kMoves = 34'000;  // by each of three entrances
#endif

class RandomMoves : public testing::TestWithParam<Entrance> {
 protected:
  Bytes below(Bytes limit) { return std::uniform_int_distribution<Bytes>(0, limit - 1)(dice_); }
  Bytes size() { return below(8) == 0 ? below(kZoneBytes / 2) : below(700); }

  Move move_in(std::size_t zone);
  void expect(const Move& move);  // in the shadow
  std::byte* shadow_of(const std::byte* at) { return shadow_.data() + (at - memory_.data()); }
  void run_batch();

  std::mt19937_64 dice_{test_seed(42)};
  Buffer memory_ = random_bytes(kZones * kZoneBytes, 1);
  Buffer shadow_ = memory_;
  Rig rig_{{.entrance = GetParam(),
            .engine = {.streaming_from = 4096,
                       .part_bytes = 1024,
                       .align_from = 512,
                       .full_limit = std::chrono::seconds(5)}}};
};

// Two places in a zone that do not overlap.
Move RandomMoves::move_in(std::size_t zone) {
  const Bytes bytes = size();
  std::byte* base = memory_.data() + zone * kZoneBytes;
  const Bytes half = kZoneBytes / 2;
  const auto place = [&](Bytes index) { return base + index * half + below(half - bytes + 1); };
  const ByteSpan one(place(0), bytes), other(place(1), bytes);
  return below(4) == 0 ? Move::fill(one, dice_()) : Move::copy(one, other);
}

void RandomMoves::expect(const Move& move) {
  std::byte* to = shadow_of(move.destination);
  if (move.kind == Move::Kind::copy) {
    std::memcpy(to, shadow_of(move.source), move.bytes);
    return;
  }
  for (Bytes i = 0; i < move.bytes; ++i) to[i] = static_cast<std::byte>(move.pattern >> i % 8 * 8);
}

void RandomMoves::run_batch() {
  std::vector<Move> batch;
  std::vector<Completion> got(kZones);
  const std::size_t moves = 1 + below(kZones);
  for (std::size_t i = 0; i < moves; ++i) {
    batch.push_back(move_in(i));
    expect(batch.back());
    batch.back().completion = &got[i];
  }
  const auto ticket = rig_.lane->submit(batch);
  ASSERT_TRUE(ticket) << to_string(ticket.error());
  ASSERT_EQ(rig_.lane->wait(*ticket, Deadline::never(), WaitStrategy::poll), Outcome::done);
  for (std::size_t i = 0; i < moves; ++i) {
    SCOPED_TRACE(testing::Message() << to_string(batch[i].kind) << " of " << batch[i].bytes);
    ASSERT_EQ(got[i].outcome, Outcome::done) << to_string(got[i].cause);
    ASSERT_EQ(got[i].bytes_done, batch[i].bytes);
  }
  ASSERT_TRUE(memory_ == shadow_);
}

TEST_P(RandomMoves, AreByteExactWhateverGoesWrong) {
  // What a dedicated queue does not take is lost: that is another test's.
  const double refusal = GetParam() == Entrance::movdir64b ? 0 : 0.1;
  rig_.model->fault_randomly(
      {.seed = 7, .page_fault = 0.08, .batch_fault = 0.3, .refusal = refusal});
  while (rig_.engine->report().moves < kMoves) ASSERT_NO_FATAL_FAILURE(run_batch());
  const DsaCounts counts = rig_.engine->counts();
  // Each kind of trouble came. How often is up to the lane, which makes batches of what waits.
  EXPECT_GT(counts.page_faults, 0u);
  if (refusal > 0) {
    EXPECT_GT(counts.full, 0u);
  }
  EXPECT_GT(counts.heads, 0u);
  if (GetParam() != Entrance::write) {
    EXPECT_GT(counts.batch_faults, 0u);
  }
  EXPECT_LT(counts.to_cpu, kMoves / 100);
  EXPECT_EQ(counts.refused, 0u);
  EXPECT_EQ(counts.failed, "");
  EXPECT_EQ(rig_.model->counts().dropped, 0u);
}

INSTANTIATE_TEST_SUITE_P(Entrances, RandomMoves,
                         testing::Values(Entrance::enqcmd, Entrance::movdir64b, Entrance::write),
                         [](const auto& entrance) {
                           return entrance.param == Entrance::write
                                      ? std::string("write")
                                      : std::string(to_string(entrance.param));
                         });

}  // namespace
}  // namespace gantry::dsa
