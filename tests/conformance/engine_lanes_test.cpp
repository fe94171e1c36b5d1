#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "core/base/event.hpp"
#include "core/base/futex.hpp"
#include "core/base/test_fork.hpp"
#include "engine_suite.hpp"

// Lanes: order, waiting, many submitters, cancelling, full queues.
namespace gantry {
namespace {

using EngineLanes = EngineConformance;

constexpr WaitStrategy kWaitings[] = {WaitStrategy::automatic, WaitStrategy::hybrid,
                                      WaitStrategy::poll, WaitStrategy::sleep};

TEST_P(EngineLanes, TicketsCountFromOneAndEndInOrder) {
  const auto source = random_bytes(4'000'000, 1);
  std::vector<std::vector<std::byte>> copies(20);
  std::vector<Ticket> tickets;
  for (std::size_t i = 0; i < copies.size(); ++i) {
    copies[i].resize(i % 2 == 0 ? source.size() : 100);
    const auto ticket = lane_->submit(Move::copy(copies[i], source));
    ASSERT_TRUE(ticket);
    EXPECT_EQ(static_cast<std::uint64_t>(*ticket), i + 1);
    tickets.push_back(*ticket);
  }
  ASSERT_EQ(lane_->wait(tickets[10]), Outcome::done);
  for (std::size_t i = 0; i <= 10; ++i) EXPECT_EQ(lane_->outcome(tickets[i]), Outcome::done);
  ASSERT_EQ(lane_->wait(tickets.back()), Outcome::done);
  for (const auto& copy : copies)
    EXPECT_TRUE(test::same(copy, ConstByteSpan(source).first(copy.size())));
  EXPECT_EQ(engine_->report().moves, copies.size());
}

TEST_P(EngineLanes, ABatchHasTheTicketOfItsLastMove) {
  const auto source = random_bytes(1000, 1);
  std::vector<std::byte> one(1000), two(1000), three(1000);
  const std::array<Move, 3> batch{Move::copy(one, source), Move::copy(two, source),
                                  Move::copy(three, source)};
  EXPECT_EQ(*lane_->submit(batch), Ticket{3});
  EXPECT_EQ(*lane_->submit(std::span<const Move>{}), Ticket{3});
  EXPECT_EQ(lane_->wait(Ticket{3}), Outcome::done);
  EXPECT_TRUE(test::same(one, source) && test::same(two, source) && test::same(three, source));
}

TEST_P(EngineLanes, EveryWayOfWaitingEnds) {
  const auto source = random_bytes(5'000'000, 3);
  std::vector<std::byte> copy(source.size());
  for (const WaitStrategy waiting : kWaitings)
    for (const Bytes size : {10ul, 70'000ul, source.size()}) {
      std::fill(copy.begin(), copy.end(), std::byte{});
      const auto ticket =
          lane_->submit(Move::copy(ByteSpan(copy).first(size), ConstByteSpan(source)));
      ASSERT_TRUE(ticket);
      ASSERT_EQ(lane_->wait(*ticket, Deadline::never(), waiting), Outcome::done);
      ASSERT_TRUE(test::same(ConstByteSpan(copy).first(size), ConstByteSpan(source).first(size)));
    }
}

TEST_P(EngineLanes, ADeadlineEndsAWaitAndNotTheMove) {
  const auto source = random_bytes(16'000'000, 4);
  std::vector<std::byte> copy(source.size());
  for (const WaitStrategy waiting : kWaitings) {
    const auto ticket = lane_->submit(Move::copy(copy, source));
    ASSERT_TRUE(ticket);
    while (lane_->wait(*ticket, Deadline::now(), waiting) == Outcome::pending) {
    }
    EXPECT_EQ(lane_->outcome(*ticket), Outcome::done);
  }
  EXPECT_TRUE(test::same(copy, source));
}

TEST_P(EngineLanes, PollingAloneEndsAMove) {
  const auto source = random_bytes(3'000'000, 5);
  std::vector<std::byte> copy(source.size());
  const auto ticket = lane_->submit(Move::copy(copy, source));
  ASSERT_TRUE(ticket);
  while (lane_->outcome(*ticket) == Outcome::pending) lane_->poll();
  EXPECT_TRUE(test::same(copy, source));
}

TEST_P(EngineLanes, ATicketNeverGivenIsNotDone) {
  EXPECT_EQ(lane_->outcome(Ticket{1}), Outcome::pending);
  EXPECT_EQ(lane_->wait(Ticket{1}), Outcome::failed);
}

TEST_P(EngineLanes, TheEventDescriptorTellsOfEveryEnd) {
  const auto event = lane_->event_descriptor();
  ASSERT_TRUE(event) << event.error().message;
  const auto source = random_bytes(2'000'000, 6);
  std::vector<std::byte> copy(source.size());
  for (int i = 0; i < 10; ++i) {
    const auto ticket = lane_->submit(Move::copy(copy, source));
    ASSERT_TRUE(ticket);
    while (lane_->outcome(*ticket) == Outcome::pending) {
      pollfd entry{*event, POLLIN, 0};
      ASSERT_EQ(::poll(&entry, 1, 60'000), 1);
      drain(*event);
    }
  }
}

TEST_P(EngineLanes, ServesManySubmittersWithLanesOfTheirOwn) {
  const unsigned kMoves = has_thread_sanitizer() ? 40 : 150;
  std::atomic<int> wrong{0};
  const auto submit = [&](unsigned who) {
    const auto lane = *engine_->open_lane({.depth = 4});
    const auto source = random_bytes(700'000, who);
    std::vector<std::byte> copy(source.size());
    for (unsigned i = 0; i < kMoves; ++i) {
      const Bytes size = (i * 4801u + who) % source.size();
      const auto ticket =
          lane->submit(Move::copy(ByteSpan(copy).first(size), ConstByteSpan(source).last(size)));
      if (!ticket || lane->wait(*ticket, Deadline::never(), kWaitings[i % 4]) != Outcome::done)
        ++wrong;
      if (std::memcmp(copy.data(), source.data() + source.size() - size, size) != 0) ++wrong;
    }
  };
  std::vector<std::thread> submitters;
  for (unsigned who = 0; who < 3; ++who) submitters.emplace_back(submit, who);
  for (std::thread& submitter : submitters) submitter.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(engine_->report().moves, 3u * kMoves);
}

TEST_P(EngineLanes, ServesManySubmittersOnOneLane) {
  constexpr unsigned kMoves = 200;
  const auto source = random_bytes(30'000, 8);
  std::atomic<int> wrong{0};
  const auto submit = [&] {
    std::vector<std::byte> copy(source.size());
    for (unsigned i = 0; i < kMoves; ++i) {
      std::fill(copy.begin(), copy.end(), std::byte{});
      const auto ticket = lane_->submit(Move::copy(copy, source));
      if (!ticket || lane_->wait(*ticket) != Outcome::done || !test::same(copy, source)) ++wrong;
    }
  };
  std::vector<std::thread> submitters;
  for (unsigned who = 0; who < 3; ++who) submitters.emplace_back(submit);
  for (std::thread& submitter : submitters) submitter.join();
  EXPECT_EQ(wrong, 0);
}

TEST_P(EngineLanes, AFullLaneWaitsForRoomOrRefuses) {
  const auto source = random_bytes(200'000, 9);
  std::vector<std::vector<std::byte>> copies(has_thread_sanitizer() ? 40 : 300,
                                             std::vector<std::byte>(source.size()));
  const auto patient = *engine_->open_lane({.depth = 3});
  Ticket last{};
  for (auto& copy : copies) last = *patient->submit(Move::copy(copy, source));
  ASSERT_EQ(patient->wait(last), Outcome::done);
  for (const auto& copy : copies) ASSERT_TRUE(test::same(copy, source));

  const auto hasty = *engine_->open_lane({.depth = 3, .full = LaneOptions::Full::refuse});
  std::size_t taken = 0;
  for (auto& copy : copies) {
    std::fill(copy.begin(), copy.end(), std::byte{});
    const auto ticket = hasty->submit(Move::copy(copy, source));
    if (ticket)
      last = *ticket, ++taken;
    else
      EXPECT_EQ(ticket.error().code, Code::busy) << ticket.error().message;
  }
  EXPECT_GE(taken, 3u);
  ASSERT_EQ(hasty->wait(last), Outcome::done);
  EXPECT_EQ(static_cast<std::uint64_t>(last), taken);
  EXPECT_EQ(static_cast<std::size_t>(std::ranges::count_if(
                copies, [&](const auto& copy) { return test::same(copy, source); })),
            taken);
  for (const std::size_t depth : {std::size_t{0}, kMaxLaneDepth + 1})
    EXPECT_EQ(engine_->open_lane({.depth = depth}).error().code, Code::invalid_argument);
}

// Every ticket ends; what is done is done, what is not says so.
TEST_P(EngineLanes, CancelledMovesEndAndSayHowFarTheyCame) {
  const auto source = random_bytes(4'000'000, 10);
  std::vector<std::vector<std::byte>> copies(20, std::vector<std::byte>(source.size()));
  std::vector<Completion> completions(copies.size());
  Ticket last{};
  for (std::size_t i = 0; i < copies.size(); ++i) {
    Move move = Move::copy(copies[i], source);
    move.completion = &completions[i];
    last = *lane_->submit(move);
  }
  lane_->cancel();
  ASSERT_NE(lane_->wait(last), Outcome::pending);
  for (std::size_t i = 0; i < copies.size(); ++i) {
    const Completion& completion = completions[i];
    ASSERT_NE(completion.outcome, Outcome::pending);
    if (completion.outcome == Outcome::failed) {
      EXPECT_EQ(completion.cause, Cause::cancelled);
    }
    ASSERT_EQ(completion.outcome == Outcome::done, completion.bytes_done == source.size());
    ASSERT_TRUE(test::same(ConstByteSpan(copies[i]).first(completion.bytes_done),
                           ConstByteSpan(source).first(completion.bytes_done)));
  }
  run_well(Move::copy(copies[0], source));  // what is submitted later is not meant
}

TEST_P(EngineLanes, ALaneEndsItsMovesBeforeItGoes) {
  const auto source = random_bytes(8'000'000, 11);
  std::vector<std::byte> copy(source.size());
  ASSERT_TRUE(lane_->submit(Move::copy(copy, source)));
  engine_.reset();  // the lane keeps it
  lane_.reset();
  EXPECT_TRUE(test::same(copy, source));
}

// What is on its way is the parent's: a child waits for nothing and takes nothing away.
TEST_P(EngineLanes, AForkedChildNeitherHangsNorDisturbs) {
  if (const char* why = no_busy_fork()) GTEST_SKIP() << why;
  const auto event = lane_->event_descriptor();
  ASSERT_TRUE(event);
  const auto source = random_bytes(3'000'000, 14);
  std::vector<std::byte> copy(source.size());
  std::atomic<bool> over{false};
  std::thread busy([&] {  // so that locks are held at some of the forks
    const auto lane = *engine_->open_lane();
    std::vector<std::byte> mine(source.size());
    while (!over) static_cast<void>(lane->wait(*lane->submit(Move::copy(mine, source))));
  });
  for (int i = 0; i < 10; ++i) {
    const Ticket open = *lane_->submit(Move::copy(copy, source));
    const pid_t child = ::fork();
    if (child == 0) {
      const auto refused = lane_->submit(Move::copy(copy, source));
      const bool well = !refused && refused.error().code == Code::closed &&
                        lane_->wait(open) != Outcome::pending &&
                        lane_->outcome(open) != Outcome::pending;
      lane_->cancel();
      lane_.reset();
      ::_exit(well ? 0 : 1);
    }
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    EXPECT_EQ(lane_->wait(open), Outcome::done);
  }
  over = true;
  busy.join();
  drain(*event);
  const Ticket last = *lane_->submit(Move::copy(copy, source));
  while (lane_->outcome(last) == Outcome::pending) {
    pollfd entry{*event, POLLIN, 0};
    ASSERT_EQ(::poll(&entry, 1, 60'000), 1);
    drain(*event);
  }
}

TEST_P(EngineLanes, AnExplanationNamesAnEngineAndItsReasons) {
  std::vector<std::byte> one(1000), two(1000);
  const Explanation explanation = lane_->explain(Move::copy(one, two), SubmitMode::queued);
  EXPECT_FALSE(explanation.reasons.empty());
  EXPECT_FALSE(explanation.candidates.empty());
  EXPECT_NE(explanation.cache, CacheUse::automatic);
  EXPECT_FALSE(engine_->name().empty());
  EXPECT_FALSE(engine_->capabilities().kinds.empty());
}

INSTANTIATE_TEST_SUITE_P(Lanes, EngineLanes, testing::ValuesIn(kEngines), name_of);

}  // namespace
}  // namespace gantry
