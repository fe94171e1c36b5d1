#include "base/test_effort.hpp"
#include "engine/dsa/test_engine.hpp"

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
  Completion expected(const Move& move);
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

// Three places in a zone that do not overlap, or two that may.
Move RandomMoves::move_in(std::size_t zone) {
  const Bytes bytes = size() * 2 / 3;
  std::byte* base = memory_.data() + zone * kZoneBytes;
  const Bytes third = kZoneBytes / 3;
  const auto place = [&](Bytes index) { return base + index * third + below(third - bytes + 1); };
  const ByteSpan one(place(0), bytes);
  const ByteSpan two(place(1), bytes);
  ByteSpan three(place(2), bytes);
  switch (below(8)) {
    case 0:
      return Move::fill(one, dice_());
    case 1:
      return Move::compare(one, below(2) == 0 ? one : two);
    case 2:
      return Move::crc32c(one, static_cast<std::uint32_t>(dice_()));
    case 3:
      return Move::copy_crc32c(one, two, static_cast<std::uint32_t>(dice_()));
    case 4:
      if (bytes < third - 4096 && below(4) != 0) {  // mostly where the device can do both
        std::byte* least = base + 2 * third;
        three = {least + (address_of(one.data()) - address_of(least)) % 4096, bytes};
      }
      return Move::dual_copy(one, three, two);
    case 5:
    case 6: {  // overlapping, either way
      std::byte* near = one.data() + below(bytes + 1);
      Move move = below(2) == 0 ? Move::copy(one, {near, bytes}) : Move::copy({near, bytes}, one);
      move.may_overlap = true;
      return move;
    }
    default:
      return Move::copy(one, two);
  }
}

Completion RandomMoves::expected(const Move& move) {
  Completion want{.outcome = Outcome::done, .bytes_done = move.bytes};
  const std::byte* from = move.source == nullptr ? nullptr : shadow_of(move.source);
  std::byte* to = move.destination == nullptr ? nullptr : shadow_of(move.destination);
  if (move.kind == Move::Kind::fill) {
    for (Bytes i = 0; i < move.bytes; ++i)
      to[i] = static_cast<std::byte>(move.pattern >> i % 8 * 8);
  } else if (move.kind == Move::Kind::compare) {
    const std::byte* other = shadow_of(move.second_source);
    while (want.bytes_done > 0 && std::memcmp(from, other, want.bytes_done) != 0) --want.bytes_done;
    want.equal = want.bytes_done == move.bytes;
  } else {
    if (move.kind != Move::Kind::copy && move.kind != Move::Kind::dual_copy)
      want.crc32c = crc32c(move.seed, {from, move.bytes});
    if (to != nullptr) std::memmove(to, from, move.bytes);
    if (move.kind == Move::Kind::dual_copy)
      std::memcpy(shadow_of(move.second_destination), from, move.bytes);
  }
  return want;
}

void RandomMoves::run_batch() {
  std::vector<Move> batch;
  std::vector<Completion> want;
  std::vector<Completion> got(kZones);
  const std::size_t moves = 1 + below(kZones);
  for (std::size_t i = 0; i < moves; ++i) {
    batch.push_back(move_in(i));
    want.push_back(expected(batch.back()));
    batch.back().completion = &got[i];
    batch.back().fence = below(20) == 0;
  }
  const auto ticket = rig_.lane->submit(batch);
  ASSERT_TRUE(ticket) << to_string(ticket.error());
  ASSERT_EQ(rig_.lane->wait(*ticket, Deadline::never(), WaitStrategy::poll), Outcome::done);
  for (std::size_t i = 0; i < moves; ++i) {
    SCOPED_TRACE(testing::Message() << to_string(batch[i].kind) << " of " << batch[i].bytes);
    ASSERT_EQ(got[i].outcome, Outcome::done) << to_string(got[i].cause);
    ASSERT_EQ(got[i].bytes_done, want[i].bytes_done);
    ASSERT_EQ(got[i].equal, want[i].equal);
    if (batch[i].kind == Move::Kind::crc32c || batch[i].kind == Move::Kind::copy_crc32c) {
      ASSERT_EQ(got[i].crc32c, want[i].crc32c);
    }
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
  EXPECT_LT(counts.to_cpu, kMoves / 10);  // dual copies to places that do not suit the device
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
