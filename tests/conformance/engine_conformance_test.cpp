#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "engines.hpp"

// What every engine promises (gantry/engine.hpp), against a plain loop.
namespace gantry {
namespace {

class EngineConformance : public testing::TestWithParam<EngineCase> {
 protected:
  std::shared_ptr<Engine> engine_ = GetParam().make();

  void run(const Move& move) {
    const auto ticket = engine_->submit(move);
    ASSERT_TRUE(ticket) << ticket.error().message;
    ASSERT_EQ(engine_->wait(*ticket, Deadline::never()), Outcome::done);
    EXPECT_EQ(engine_->outcome(*ticket), Outcome::done);
  }
};

std::vector<std::byte> random_bytes(Bytes size, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

TEST_P(EngineConformance, MovesWhatAPlainLoopMovesAtAnySizeAndAlignment) {
  std::mt19937 random(7);
  for (int i = 0; i < 200; ++i) {
    const Bytes size = random() % (i % 10 == 0 ? 3'000'000 : 5'000);
    const Bytes from = random() % 70, to = random() % 70;
    const auto source = random_bytes(size + 70, static_cast<unsigned>(i));
    auto expected = random_bytes(size + 140, static_cast<unsigned>(i) + 1000);
    auto got = expected;
    if (random() % 4 == 0) {
      const auto value = static_cast<std::byte>(random());
      for (Bytes k = 0; k < size; ++k) expected[to + k] = value;
      run(Move::fill(ByteSpan(got).subspan(to, size), value));
    } else {
      for (Bytes k = 0; k < size; ++k) expected[to + k] = source[from + k];
      run(Move::copy(ByteSpan(got).subspan(to, size), ConstByteSpan(source).subspan(from, size)));
    }
    ASSERT_TRUE(got == expected) << "move " << i << " of " << size << " bytes";
  }
}

// The last byte before an unmapped page, the first after one: nothing is read or written beyond.
TEST_P(EngineConformance, StaysBetweenGuardPages) {
  constexpr Bytes kPage = 4096, kPages = 4;
  const auto guarded = [] {
    void* at = ::mmap(nullptr, (kPages + 2) * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(at, MAP_FAILED);
    auto* inside = static_cast<std::byte*>(at) + kPage;
    EXPECT_EQ(::mprotect(inside, kPages * kPage, PROT_READ | PROT_WRITE), 0);
    return ByteSpan(inside, kPages * kPage);
  };
  const ByteSpan source = guarded(), destination = guarded();
  std::fill(source.begin(), source.end(), std::byte{0x5a});
  for (const Bytes size : {1ul, 15ul, 64ul, 65ul, 4095ul, 4097ul, kPages * kPage}) {
    run(Move::copy(destination.first(size), source.last(size)));
    run(Move::copy(destination.last(size), source.first(size)));
    run(Move::fill(destination.last(size), std::byte{0x11}));
    EXPECT_EQ(destination.back(), std::byte{0x11});
  }
  for (const ByteSpan area : {source, destination})
    ::munmap(area.data() - kPage, area.size() + 2 * kPage);
}

TEST_P(EngineConformance, RefusesWhatCannotBeMoved) {
  std::vector<std::byte> bytes(100);
  const ByteSpan all(bytes);
  const auto code = [this](const Move& move) {
    const auto ticket = engine_->submit(move);
    return ticket ? Code::closed : ticket.error().code;
  };
  EXPECT_EQ(code(Move::copy(all.first(60), all.last(60))), Code::invalid_argument);
  EXPECT_EQ(code(Move::copy(all.last(60), all.first(60))), Code::invalid_argument);
  EXPECT_EQ(code(Move{Move::Kind::copy, nullptr, bytes.data(), 5, {}}), Code::invalid_argument);
  EXPECT_EQ(code(Move{Move::Kind::copy, bytes.data(), nullptr, 5, {}}), Code::invalid_argument);
  EXPECT_EQ(code(Move{Move::Kind::fill, nullptr, nullptr, 5, {}}), Code::invalid_argument);
  run(Move::copy(all.first(50), all.last(50)));  // touching is not overlapping
}

TEST_P(EngineConformance, AcceptsAMoveOfNothing) {
  run(Move{});
  run(Move::fill({}, std::byte{1}));
}

TEST_P(EngineConformance, CountsTicketsFromOneAndEndsThemInOrder) {
  const auto source = random_bytes(4'000'000, 1);
  std::vector<std::vector<std::byte>> copies(20);
  std::vector<Ticket> tickets;
  for (std::size_t i = 0; i < copies.size(); ++i) {
    copies[i].resize(i % 2 == 0 ? source.size() : 100);
    const auto ticket = engine_->submit(Move::copy(copies[i], source));
    ASSERT_TRUE(ticket);
    EXPECT_EQ(static_cast<std::uint64_t>(*ticket), i + 1);
    tickets.push_back(*ticket);
  }
  ASSERT_EQ(engine_->wait(tickets[10], Deadline::never()), Outcome::done);
  for (std::size_t i = 0; i <= 10; ++i) EXPECT_EQ(engine_->outcome(tickets[i]), Outcome::done);
  ASSERT_EQ(engine_->wait(tickets.back(), Deadline::never()), Outcome::done);
  for (const auto& copy : copies) EXPECT_TRUE(std::equal(copy.begin(), copy.end(), source.begin()));
  EXPECT_EQ(engine_->report().moves, copies.size());
}

TEST_P(EngineConformance, PollingAloneEndsAMove) {
  const auto source = random_bytes(3'000'000, 2);
  std::vector<std::byte> copy(source.size());
  const auto ticket = engine_->submit(Move::copy(copy, source));
  ASSERT_TRUE(ticket);
  while (engine_->outcome(*ticket) == Outcome::pending) engine_->poll();
  EXPECT_TRUE(copy == source);
}

TEST_P(EngineConformance, ATicketNeverGivenIsNotDone) {
  EXPECT_NE(engine_->outcome(Ticket{1}), Outcome::done);
  EXPECT_NE(engine_->wait(Ticket{1}, Deadline::now()), Outcome::done);
}

TEST_P(EngineConformance, ServesManySubmittersAtOnce) {
  constexpr int kMoves = 150;
  std::vector<std::thread> submitters;
  std::atomic<int> wrong{0};
  for (unsigned who = 0; who < 3; ++who)
    submitters.emplace_back([this, who, &wrong] {
      const auto source = random_bytes(700'000, who);
      std::vector<std::byte> copy(source.size());
      for (unsigned i = 0; i < kMoves; ++i) {
        const Bytes size = (i * 4801u + who) % source.size();
        const auto ticket = engine_->submit(
            Move::copy(ByteSpan(copy).first(size), ConstByteSpan(source).last(size)));
        if (!ticket || engine_->wait(*ticket, Deadline::never()) != Outcome::done) ++wrong;
        if (!std::equal(copy.begin(), copy.begin() + static_cast<std::ptrdiff_t>(size),
                        source.end() - static_cast<std::ptrdiff_t>(size)))
          ++wrong;
      }
    });
  for (std::thread& submitter : submitters) submitter.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(engine_->report().moves, 3u * kMoves);
}

// More than any queue holds; the caller waits for room, nothing is lost.
TEST_P(EngineConformance, TakesMoreMovesThanItsQueueHolds) {
  const auto source = random_bytes(200'000, 3);
  std::vector<std::vector<std::byte>> copies(300, std::vector<std::byte>(source.size()));
  Ticket last{};
  for (auto& copy : copies) last = *engine_->submit(Move::copy(copy, source));
  ASSERT_EQ(engine_->wait(last, Deadline::never()), Outcome::done);
  for (const auto& copy : copies) ASSERT_TRUE(copy == source);
}

TEST_P(EngineConformance, EndsItsWorkBeforeItGoes) {
  const auto source = random_bytes(8'000'000, 4);
  std::vector<std::byte> copy(source.size());
  ASSERT_TRUE(engine_->submit(Move::copy(copy, source)));
  engine_.reset();
  EXPECT_TRUE(copy == source);
}

INSTANTIATE_TEST_SUITE_P(Engines, EngineConformance, testing::ValuesIn(kEngines),
                         [](const auto& chosen) { return std::string(chosen.param.name); });

}  // namespace
}  // namespace gantry
