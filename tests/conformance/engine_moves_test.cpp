#include "base/test_effort.hpp"
#include "engine_suite.hpp"

#include <random>

// What every engine does with every kind of move (gantry/engine.hpp), against plain loops.
namespace gantry {
namespace {

// A move on buffers of its own, between offsets that differ, and what a plain loop makes of it.
class RandomMove {
 public:
  RandomMove(std::mt19937& random, Bytes size)
      : from_(random() % 70),
        to_(random() % 70),
        source_(random_bytes(size + 70, random())),
        first_(random_bytes(size + 140, random())),
        second_(random_bytes(size + 140, random())) {
    const ConstByteSpan source = ConstByteSpan(source_).subspan(from_, size);
    const ByteSpan first = ByteSpan(first_).subspan(to_, size);
    const ByteSpan second = ByteSpan(second_).subspan(from_, size);
    const auto seed = static_cast<std::uint32_t>(random());
    switch (random() % kMoveKinds) {
      case 0:
        move_ = Move::copy(first, source);
        break;
      case 1:
        move_ = Move::fill(first, random() * 0x1'0000'0001ull);
        break;
      case 2:
        if (random() % 2 == 0) std::copy(source.begin(), source.end(), second.begin());
        if (size > 0 && random() % 2 == 0) second[random() % size] ^= std::byte{1};
        move_ = Move::compare(source, second);
        break;
      case 3:
        move_ = Move::crc32c(source, seed);
        break;
      case 4:
        move_ = Move::copy_crc32c(first, source, seed);
        break;
      default:
        move_ = Move::dual_copy(first, second, source);
        break;
    }
    move_.cache = static_cast<CacheUse>(random() % 3);
    expected_first_ = first_;
    expected_second_ = second_;
    for (Bytes i = 0; i < size; ++i) do_byte(i);
  }

  [[nodiscard]] const Move& move() const { return move_; }

  void check(const Completion& completion) const {
    EXPECT_TRUE(test::same(first_, expected_first_));
    EXPECT_TRUE(test::same(second_, expected_second_));
    const ConstByteSpan source(move_.source, move_.source == nullptr ? 0 : move_.bytes);
    if (move_.kind == Move::Kind::crc32c || move_.kind == Move::Kind::copy_crc32c) {
      EXPECT_EQ(completion.crc32c, plain_crc32c(source, move_.seed));
    }
    if (move_.kind == Move::Kind::compare) {
      const auto differs = std::mismatch(source.begin(), source.end(), move_.second_source).first;
      EXPECT_EQ(completion.equal, differs == source.end());
      EXPECT_EQ(completion.bytes_done, static_cast<Bytes>(differs - source.begin()));
    } else {
      EXPECT_EQ(completion.bytes_done, move_.bytes);
    }
  }

 private:
  void do_byte(Bytes i) {
    if (move_.kind == Move::Kind::fill)
      expected_first_[to_ + i] = static_cast<std::byte>(move_.pattern >> i % 8 * 8);
    else if (move_.writes())
      expected_first_[to_ + i] = source_[from_ + i];
    if (move_.kind == Move::Kind::dual_copy) expected_second_[from_ + i] = source_[from_ + i];
  }

  Bytes from_, to_;
  std::vector<std::byte> source_, first_, second_, expected_first_, expected_second_;
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
      batch.back().fence = random() % 4 == 0;
    }
    const auto ticket = lane_->submit(batch);
    ASSERT_TRUE(ticket) << ticket.error().message;
    ASSERT_EQ(lane_->wait(*ticket), Outcome::done);
    for (std::size_t i = 0; i < wanted.size(); ++i) wanted[i]->check(completions[i]);
  }
}

TEST_P(EngineConformance, CopiesWhatOverlapsAsMemmoveDoes) {
  std::mt19937 random(test_seed(9));
  for (int i = 0; i < 60; i += kTestStride == 1 ? 1 : 7) {
    const Bytes size = 1 + random() % (i % 10 == 0 ? 2'000'000 : 30'000);
    auto bytes = random_bytes(2 * size, static_cast<unsigned>(i));
    const Bytes from = random() % size, to = random() % size;
    auto expected = bytes;
    std::memmove(expected.data() + to, bytes.data() + from, size);
    Move move =
        Move::copy(ByteSpan(bytes).subspan(to, size), ConstByteSpan(bytes).subspan(from, size));
    move.may_overlap = true;
    run_well(move);
    ASSERT_TRUE(test::same(bytes, expected)) << size << " bytes from " << from << " to " << to;
  }
}

// The last byte before an unmapped page, the first after one: nothing is read or written beyond.
TEST_P(EngineConformance, StaysBetweenGuardPages) {
  const GuardedPages from(12), to(12), other(12);
  const ByteSpan source = from.bytes(), destination = to.bytes(), second = other.bytes();
  std::fill(source.begin(), source.end(), std::byte{0x5a});
  for (const Bytes size : {1ul, 15ul, 64ul, 65ul, 4095ul, 4097ul, 33'000ul, source.size()})
    for (const CacheUse cache : {CacheUse::reader_soon, CacheUse::streaming}) {
      std::vector<Move> moves{
          Move::copy(destination.first(size), source.last(size)),
          Move::copy(destination.last(size), source.first(size)),
          Move::compare(destination.last(size), source.last(size)),
          Move::dual_copy(destination.last(size), second.first(size), source.last(size)),
          Move::copy_crc32c(second.last(size), source.first(size)),
          Move::crc32c(source.last(size)),
          Move::fill(destination.last(size), std::byte{0x11}),
          Move::fill(destination.first(size), std::byte{0x5a}),
      };
      for (Move& move : moves) {
        move.cache = cache;
        run_well(move);
      }
    }
}

TEST_P(EngineConformance, TakesUpACrcWhereAnotherEnded) {
  const auto bytes = random_bytes(1'500'000, 3);
  const ConstByteSpan all(bytes);
  const std::uint32_t front = run(Move::crc32c(all.first(600'001))).crc32c;
  EXPECT_EQ(run(Move::crc32c(all.subspan(600'001), front)).crc32c, plain_crc32c(all, 0));
  constexpr std::string_view kDigits = "123456789";
  EXPECT_EQ(run(Move::crc32c(std::as_bytes(std::span(kDigits)))).crc32c, 0xe306'9283u);
}

TEST_P(EngineConformance, AcceptsMovesOfNothing) {
  run_well(Move{});
  run_well(Move::fill(ByteSpan{}, std::byte{1}));
  EXPECT_TRUE(run(Move::compare({}, {})).equal);
  EXPECT_EQ(run(Move::crc32c({}, 77)).crc32c, 77u);
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
  EXPECT_TRUE(refuses(Move::copy_crc32c(all.last(60), all.first(60))));
  EXPECT_TRUE(refuses(Move::dual_copy(all.first(20), all.subspan(10, 20), all.last(20))));
  EXPECT_TRUE(refuses(Move::dual_copy(all.first(20), all.subspan(30, 20), all.subspan(45, 20))));
  std::byte* const null = nullptr;
  EXPECT_TRUE(refuses(Move::copy({null, 5}, all)));
  EXPECT_TRUE(refuses(Move::copy(all, {null, 5})));
  EXPECT_TRUE(refuses(Move::fill({null, 5}, std::byte{})));
  EXPECT_TRUE(refuses(Move::crc32c({null, 5})));
  EXPECT_TRUE(refuses(Move::compare(all, {null, 5})));
  EXPECT_TRUE(refuses(Move::dual_copy(all, {null, 5}, all)));
  EXPECT_TRUE(refuses(Move::fill({all.data(), ~Bytes{0} - 10}, std::byte{})));
  Move nonsense = Move::copy(all.first(50), all.last(50));
  nonsense.kind = static_cast<Move::Kind>(77);
  EXPECT_TRUE(refuses(nonsense));
  nonsense = Move::copy(all.first(50), all.last(50));
  nonsense.cache = static_cast<CacheUse>(9);
  EXPECT_TRUE(refuses(nonsense));
  run_well(Move::copy(all.first(50), all.last(50)));  // touching is not overlapping
  EXPECT_TRUE(run(Move::compare(all, all)).equal);    // nor is reading the same
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
