#include "core/base/test_effort.hpp"
#include "engine_suite.hpp"

#include <random>

// What every engine does with every kind of move (gantry/engine.hpp), against plain loops.
namespace gantry {
namespace {

// A move on buffers of its own, between offsets that differ, and what a plain loop makes of it.
// Reshapes have a suite of their own: engine_reshapes_test.cpp.
class RandomMove {
 public:
  RandomMove(std::mt19937& random, Bytes size)
      : from_(random() % 70),
        to_(random() % 70),
        source_(random_bytes(size + 70, random())),
        made_(random_bytes(size + 140, random())),
        expected_(made_) {
    const ByteSpan made = ByteSpan(made_).subspan(to_, size);
    if (random() % 2 == 0)
      move_ = Move::copy(made, ConstByteSpan(source_).subspan(from_, size));
    else
      move_ = Move::fill(made, random() * 0x1'0000'0001ull);
    move_.cache = static_cast<CacheUse>(random() % 3);
    for (Bytes i = 0; i < size; ++i)
      expected_[to_ + i] = move_.kind == Move::Kind::fill
                               ? static_cast<std::byte>(move_.pattern >> i % 8 * 8)
                               : source_[from_ + i];
  }

  [[nodiscard]] const Move& move() const { return move_; }

  void check(const Completion& completion) const {
    EXPECT_TRUE(test::same(made_, expected_));
    EXPECT_EQ(completion.bytes_done, move_.bytes);
  }

 private:
  Bytes from_, to_;
  std::vector<std::byte> source_, made_, expected_;
  Move move_;
};

TEST_P(EngineConformance, DoesWhatAPlainLoopDoesForEveryKindSizeAndAlignment) {
  std::mt19937 random(test_seed(7));
  for (int i = 0; i < 400; i += kTestStride == 1 ? 1 : 7) {
    const Bytes size = random() % (i % 20 == 0 ? 3'000'000 : i % 2 == 0 ? 40'000 : 600);
    const RandomMove wanted(random, size);
    const Completion completion = run(wanted.move());
    SCOPED_TRACE(testing::Message() << "move " << i << ": " << to_string(wanted.move().kind)
                                    << " of " << size << " bytes");
    EXPECT_EQ(completion.outcome, Outcome::done);
    wanted.check(completion);
    if (HasFailure()) return;
  }
}

TEST_P(EngineConformance, DoesManyDifferentMovesAtOnce) {
  std::mt19937 random(test_seed(8));
  for (int round = 0; round < (kTestStride == 1 ? 5 : 1); ++round) {
    std::vector<std::unique_ptr<RandomMove>> wanted;
    std::vector<Completion> completions(40);
    std::vector<Move> batch;
    for (Completion& completion : completions) {
      wanted.push_back(
          std::make_unique<RandomMove>(random, random() % (wanted.empty() ? 2'000'000 : 50'000)));
      batch.push_back(wanted.back()->move());
      batch.back().completion = &completion;
    }
    const auto ticket = lane_->submit(batch);
    ASSERT_TRUE(ticket) << ticket.error().message;
    ASSERT_EQ(lane_->wait(*ticket), Outcome::done);
    for (std::size_t i = 0; i < wanted.size(); ++i) wanted[i]->check(completions[i]);
  }
}

// The last byte before an unmapped page, the first after one: nothing is read or written beyond.
TEST_P(EngineConformance, StaysBetweenGuardPages) {
  const GuardedPages from(12), to(12);
  const ByteSpan source = from.bytes(), destination = to.bytes();
  std::fill(source.begin(), source.end(), std::byte{0x5a});
  for (const Bytes size : {1ul, 15ul, 64ul, 65ul, 4095ul, 4097ul, 33'000ul, source.size()})
    for (const CacheUse cache : {CacheUse::reader_soon, CacheUse::streaming}) {
      std::vector<Move> moves{
          Move::copy(destination.first(size), source.last(size)),
          Move::copy(destination.last(size), source.first(size)),
          Move::fill(destination.last(size), std::byte{0x11}),
          Move::fill(destination.first(size), std::byte{0x5a}),
      };
      for (Move& move : moves) {
        move.cache = cache;
        run_well(move);
      }
    }
}

TEST_P(EngineConformance, AcceptsMovesOfNothing) {
  run_well(Move{});
  run_well(Move::fill(ByteSpan{}, std::byte{1}));
}

TEST_P(EngineConformance, RefusesWhatCannotBeMoved) {
  std::vector<std::byte> bytes(100);
  const ByteSpan all(bytes);
  const auto refuses = [this](const Move& move) {
    const auto ticket = lane_->submit(move);
    return !ticket && ticket.error().code == Code::invalid_argument;
  };
  EXPECT_TRUE(refuses(Move::copy(all.first(60), all.last(60))));
  EXPECT_TRUE(refuses(Move::copy(all.last(60), all.first(60))));
  std::byte* const null = nullptr;
  EXPECT_TRUE(refuses(Move::copy({null, 5}, all)));
  EXPECT_TRUE(refuses(Move::copy(all, {null, 5})));
  EXPECT_TRUE(refuses(Move::fill({null, 5}, std::byte{})));
  EXPECT_TRUE(refuses(Move::fill({all.data(), ~Bytes{0} - 10}, std::byte{})));
  Move nonsense = Move::copy(all.first(50), all.last(50));
  nonsense.kind = static_cast<Move::Kind>(77);
  EXPECT_TRUE(refuses(nonsense));
  nonsense = Move::copy(all.first(50), all.last(50));
  nonsense.cache = static_cast<CacheUse>(9);
  EXPECT_TRUE(refuses(nonsense));
  run_well(Move::copy(all.first(50), all.last(50)));  // touching is not overlapping
}

TEST_P(EngineConformance, ABatchIsTakenWholeOrNotAtAll) {
  const auto source = random_bytes(1000, 1);
  std::vector<std::byte> copy(1000);
  const std::array<Move, 2> batch{Move::copy(copy, source), Move::copy(copy, copy)};
  const auto refused = lane_->submit(batch);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::invalid_argument);
  EXPECT_EQ(copy, std::vector<std::byte>(1000));
  EXPECT_EQ(engine_->report().moves, 0u);
  const std::vector<Move> many(LaneOptions{}.depth + 1, Move::copy(copy, source));
  EXPECT_EQ(lane_->submit(many).error().code, Code::invalid_argument);
  EXPECT_EQ(*lane_->submit(std::span<const Move>{}), Ticket{0});
}

INSTANTIATE_TEST_SUITE_P(Moves, EngineConformance, testing::ValuesIn(kEngines), name_of);

}  // namespace
}  // namespace gantry
