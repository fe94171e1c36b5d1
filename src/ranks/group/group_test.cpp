// Ranks that find each other, all or none; threads of this process are the ranks.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <thread>

#include "core/base/event.hpp"
#include "core/base/os/socket.hpp"
#include "core/channel/test_support.hpp"
#include "core/engine/inline/inline_engine.hpp"
#include "ranks/group/group.hpp"

namespace gantry {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLong{60'000};
constexpr milliseconds kShort{200};
constexpr const char* kToken = "a token of a test, 16 bytes or more";

using Outcomes = std::vector<Result<Group>>;

/// All at the same time.
Outcomes join_all(const std::vector<GroupOptions>& options) {
  Outcomes outcomes;
  for (std::size_t i = 0; i < options.size(); ++i)
    outcomes.emplace_back(tl::unexpected(Error{Code::system, "not run", ""}));
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < options.size(); ++i)
    threads.emplace_back(
        [&, i] { outcomes[i] = Group::join(options[i], make_inline_engine().value()); });
  for (std::thread& thread : threads) thread.join();
  return outcomes;
}

class Groups : public testing::Test {
 protected:
  std::vector<GroupOptions> by_name(unsigned ranks) const {
    std::vector<GroupOptions> all(ranks);
    for (unsigned rank = 0; rank < ranks; ++rank) {
      all[rank].rank = rank;
      all[rank].ranks = ranks;
      all[rank].name = "test";
      all[rank].directory = folder_.path();
      all[rank].join_timeout = kLong;
    }
    return all;
  }
  std::vector<GroupOptions> by_address(unsigned ranks) const {
    auto all = by_name(ranks);
    std::vector<std::string> addresses;
    for (unsigned rank = 0; rank < ranks; ++rank) addresses.push_back(free_endpoint());
    for (GroupOptions& options : all) {
      options.addresses = addresses;
      options.token = kToken;
    }
    return all;
  }
  static std::string free_endpoint() {
    const Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* const at = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(::bind(socket.get(), at, size), 0);
    EXPECT_EQ(::getsockname(socket.get(), at, &size), 0);
    return fmt::format("127.0.0.1:{}", ::ntohs(address.sin_port));
  }

  const test::ScratchDirectory folder_;
};

void expect_all_joined(Outcomes& outcomes, std::string_view kind) {
  for (unsigned rank = 0; rank < outcomes.size(); ++rank) {
    ASSERT_TRUE(outcomes[rank]) << rank << ": " << to_string(outcomes[rank].error());
    EXPECT_EQ(outcomes[rank]->rank(), rank);
    EXPECT_EQ(outcomes[rank]->ranks(), outcomes.size());
    EXPECT_EQ(outcomes[rank]->impl().epoch(), outcomes[0]->impl().epoch());
    for (unsigned peer = 0; peer < outcomes.size(); ++peer)
      EXPECT_EQ(outcomes[rank]->explain(peer).starts_with(rank == peer ? "this" : kind), true)
          << outcomes[rank]->explain(peer);
  }
  // Each link leads to the rank that it says: a word from each to each.
  for (unsigned rank = 0; rank < outcomes.size(); ++rank)
    for (unsigned peer = 0; peer < outcomes.size(); ++peer) {
      if (peer == rank) continue;
      std::array<std::byte, 8> word{};
      word[0] = static_cast<std::byte>(rank * 16 + peer);
      ASSERT_TRUE(outcomes[rank]->impl().link(peer).send_control(word));
      std::array<std::byte, 8> heard{};
      ASSERT_TRUE(outcomes[peer]->impl().link(rank).receive_control(heard, Deadline::after(kLong)));
      EXPECT_EQ(heard, word);
    }
}

TEST_F(Groups, FormByName) {
  auto outcomes = join_all(by_name(5));
  expect_all_joined(outcomes, "shared");
}

TEST_F(Groups, FormByNameOfMoreRanksThanAPacketHasDescriptors) {
  auto outcomes = join_all(by_name(20));
  expect_all_joined(outcomes, "shared");
}

TEST_F(Groups, FormByAddress) {
  auto outcomes = join_all(by_address(4));
  expect_all_joined(outcomes, "stream");
}

TEST_F(Groups, OfOneRankIsThere) {
  const auto outcome = Group::join(by_name(1)[0], nullptr);
  ASSERT_TRUE(outcome) << to_string(outcome.error());
  EXPECT_TRUE(outcome->state());
}

TEST_F(Groups, SayWhoHasNotCome) {
  for (auto options : {by_name(4), by_address(4)}) {
    options.erase(options.begin() + 2);
    for (GroupOptions& one : options) one.join_timeout = kShort;
    const auto began = Deadline::Clock::now();
    const auto outcomes = join_all(options);
    EXPECT_GE(Deadline::Clock::now() - began, kShort);
    ASSERT_FALSE(outcomes[0]);
    EXPECT_EQ(outcomes[0].error().code, Code::timed_out);
    EXPECT_NE(outcomes[0].error().message.find("rank 2 has not joined"), std::string::npos)
        << outcomes[0].error().message;
    for (const auto& outcome : outcomes) ASSERT_FALSE(outcome);
  }
}

TEST_F(Groups, RefuseOneOfAnotherSize) {
  auto options = by_name(2);
  options[0].join_timeout = kShort;
  options[1].ranks = 3;
  const auto outcomes = join_all(options);
  ASSERT_FALSE(outcomes[1]);
  EXPECT_EQ(outcomes[1].error().code, Code::invalid_argument);
  EXPECT_NE(outcomes[1].error().message.find("2 ranks at rank 0, and 3 at rank 1"),
            std::string::npos)
      << outcomes[1].error().message;
}

TEST_F(Groups, RefuseASecondProcessOfARank) {
  const auto options = by_name(3);
  const auto join = [](const GroupOptions& one) {
    return std::async(std::launch::async,
                      [&one] { return Group::join(one, make_inline_engine().value()); });
  };
  auto first = join(options[0]);
  std::array<std::future<Result<Group>>, 2> both = {join(options[1]), join(options[1])};
  // The group cannot form before rank 2 comes, so one of them has been refused by then.
  const auto is_done = [](auto& one) {
    return one.wait_for(milliseconds(1)) == std::future_status::ready;
  };
  std::size_t loser = 0;
  while (!is_done(both[loser])) loser = 1 - loser;
  const auto refused = both[loser].get();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::already_exists);
  EXPECT_NE(refused.error().message.find("another process is rank 1 already"), std::string::npos)
      << refused.error().message;
  auto last = join(options[2]);
  // Kept until all have theirs: who leaves at once breaks it for the others.
  const auto winner = both[1 - loser].get();
  const auto rank0 = first.get();
  const auto rank2 = last.get();
  EXPECT_TRUE(winner) << to_string(winner.error());
  EXPECT_TRUE(rank0) << to_string(rank0.error());
  EXPECT_TRUE(rank2) << to_string(rank2.error());
}

TEST_F(Groups, WhoKnowsAnotherTokenIsNoRank) {
  auto options = by_address(2);
  for (GroupOptions& one : options) one.join_timeout = milliseconds(1000);
  options[1].token = "another token, of 16 bytes or more";
  const auto outcomes = join_all(options);
  ASSERT_FALSE(outcomes[0]);
  EXPECT_EQ(outcomes[0].error().code, Code::timed_out);
  ASSERT_FALSE(outcomes[1]);
  EXPECT_EQ(outcomes[1].error().code, Code::permission_denied) << outcomes[1].error().message;
}

TEST_F(Groups, StrangersDoNotHoldThemUp) {
  const auto options = by_address(2);
  std::vector<Fd> strangers;
  std::thread calls([&] {
    const auto port = options[0].addresses[0].substr(options[0].addresses[0].find(':') + 1);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
    address.sin_port = ::htons(static_cast<std::uint16_t>(std::stoi(port)));
    while (strangers.size() < 20) {
      Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
        continue;                                           // rank 0 does not listen yet
      const std::string words(strangers.size() * 10, 'x');  // none, some, and too many
      static_cast<void>(::send(socket.get(), words.data(), words.size(), MSG_NOSIGNAL));
      strangers.push_back(std::move(socket));
    }
  });
  Result<Group> first = tl::unexpected(Error{});
  std::thread rank0([&] { first = Group::join(options[0], nullptr); });
  calls.join();
  const auto second = Group::join(options[1], nullptr);
  rank0.join();
  EXPECT_TRUE(first) << to_string(first.error());
  EXPECT_TRUE(second) << to_string(second.error());
}

TEST_F(Groups, JoiningIsInterrupted) {
  const Fd event = make_event().value();
  ring(event.get());
  for (auto options : {by_name(3), by_address(3)})
    for (GroupOptions& one : options) {
      one.interrupt_descriptor = event.get();
      const auto outcome = Group::join(one, make_inline_engine().value());
      ASSERT_FALSE(outcome);
      EXPECT_EQ(outcome.error().code, Code::interrupted) << outcome.error().message;
    }
}

TEST_F(Groups, OptionsThatCannotWorkAreRefused) {
  const auto refused = [](const GroupOptions& options) {
    const auto outcome = Group::join(options, make_inline_engine().value());
    return outcome ? std::string() : std::string(to_string(outcome.error().code));
  };
  auto options = by_name(2)[0];
  options.rank = 2;
  EXPECT_EQ(refused(options), to_string(Code::invalid_argument));
  options = by_name(2)[0];
  options.ranks = kMostGroupRanks + 1;
  EXPECT_EQ(refused(options), to_string(Code::invalid_argument));
  options = by_name(2)[0];
  options.ranks = 0;
  EXPECT_EQ(refused(options), to_string(Code::invalid_argument));
  options = by_name(2)[0];
  options.name = "a/b";
  EXPECT_EQ(refused(options), to_string(Code::invalid_argument));
  options = by_address(2)[0];
  options.addresses.pop_back();
  EXPECT_EQ(refused(options), to_string(Code::invalid_argument));
  options = by_address(2)[0];
  options.token = "short";
  EXPECT_EQ(refused(options), to_string(Code::invalid_argument));
}

TEST_F(Groups, ALeftGroupSaysSo) {
  auto outcomes = join_all(by_name(2));
  ASSERT_TRUE(outcomes[0] && outcomes[1]);
  outcomes[0]->leave();
  EXPECT_EQ(outcomes[0]->state().error().code, Code::closed);
}

TEST_F(Groups, OneThatFailedBeforeAllHadJoinedIsNamedAsThat) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
  std::thread hasty([socket = ends[0]] {  // rank 0, which goes on to a collective that fails
    const auto link = make_stream_link(socket, {.peer = "rank 1"}).value();
    const Error error{Code::invalid_argument, "rank 0, all-reduce: no memory", "give some"};
    ASSERT_TRUE(link->send_control(RankMessage::of_failure(0, error).encode()));
    std::array<std::byte, 4096> bytes{};
    while (link->receive_control(bytes, Deadline::after(kLong))) continue;
  });
  std::vector<std::unique_ptr<Link>> links(2);
  links[0] = make_stream_link(ends[1], {.peer = "rank 0"}).value();
  const auto outcome = Group::over(by_name(2)[1], std::move(links));
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code, Code::invalid_argument);
  EXPECT_EQ(outcome.error().message,
            "group 'test', rank 1: another rank failed before all had joined: rank 0, all-reduce: "
            "no memory");
  EXPECT_EQ(outcome.error().hint, "give some");
  hasty.join();
}

// ---- messages --------------------------------------------------------------------------------

TEST(RankMessages, SurviveBeingWritten) {
  const RankMessage message{RankMessage::Kind::prepare, 7, ~std::uint64_t{0},
                            std::vector<std::byte>(RankMessage::kMostPayload, std::byte{3})};
  const auto read = RankMessage::decode(message.encode());
  ASSERT_TRUE(read);
  EXPECT_EQ(read->kind, message.kind);
  EXPECT_EQ(read->operation, message.operation);
  EXPECT_EQ(read->word, message.word);
  EXPECT_EQ(read->payload, message.payload);
}

TEST(RankMessages, OfNobodysAreRefused) {
  auto bytes = RankMessage{RankMessage::Kind::ready, 1, 2}.encode();
  EXPECT_FALSE(RankMessage::decode(std::span(bytes).first(bytes.size() - 1)));
  for (const int kind : {0, 6, 255}) {
    bytes[0] = static_cast<std::byte>(kind);
    EXPECT_FALSE(RankMessage::decode(bytes)) << kind;
  }
  bytes[0] = std::byte{1};
  bytes.resize(RankMessage::kHeadBytes + RankMessage::kMostPayload + 1);
  EXPECT_FALSE(RankMessage::decode(bytes));
}

TEST(RankMessages, CarryAnErrorWithoutItsControlCharacters) {
  const Error error{Code::peer_gone, "rank 2: \x1b[2J gone", "restart it"};
  const auto read = RankMessage::decode(RankMessage::of_failure(3, error).encode());
  ASSERT_TRUE(read);
  EXPECT_EQ(read->failure().code, Code::peer_gone);
  EXPECT_EQ(read->failure().message, "rank 2: ?[2J gone");
  EXPECT_EQ(read->failure().hint, "restart it");
}

// Rank 1 has heard all words of an exchange, and leaves; rank 0 has not looked yet.
TEST_F(Groups, WhoeverLeavesBehindItsLastWordFailsNobodyElse) {
  Outcomes ranks = join_all(by_name(3));
  for (auto& one : ranks) {
    ASSERT_TRUE(one) << to_string(one.error());
    Group::Impl& self = one->impl();
    const auto held = self.hold();
    self.begin_operation();
    ASSERT_TRUE(self.say_to_all({RankMessage::Kind::text, self.operation(), self.rank(), {}}));
  }
  const auto hear = [&](unsigned self, unsigned peer) {
    Group::Impl& group = ranks[self]->impl();
    const auto held = group.hold();
    for (;;) {
      const auto served = group.serve(peer);
      const auto word = group.take(peer, RankMessage::Kind::text);
      ASSERT_TRUE(word) << to_string(word.error());
      if (*word) {
        EXPECT_EQ((*word)->word, peer);
        return;
      }
      ASSERT_TRUE(served) << to_string(served.error());
    }
  };
  hear(1, 0);
  hear(1, 2);
  ranks[1] = tl::unexpected(Error{Code::closed, "it left", ""});
  hear(0, 2);
  hear(0, 1);
  const auto held = ranks[0]->impl().hold();
  const Deadline end = Deadline::after(kLong);
  Result<bool> served = true;
  while (served && !end.passed()) served = ranks[0]->impl().serve(1);
  ASSERT_FALSE(served) << "nobody heard that it left";
  EXPECT_EQ(served.error().message, "rank 1 left the group");
}

TEST_F(Groups, DroppingOneWhosePeerIsDeafWaitsForNothing) {
  Outcomes ranks = join_all(by_name(2));
  const auto deaf = ranks[1]->impl().hold();
  auto held = ranks[0]->impl().hold();
  const std::vector<std::byte> words(1000);
  while (ranks[0]->impl().link(1).send_control(words, Deadline::now())) continue;
  held.unlock();
  const Deadline late = Deadline::after(milliseconds(500));
  ranks[0] = tl::unexpected(Error{Code::closed, "it left", ""});
  EXPECT_FALSE(late.passed());
}

// A deadline of the call counts, not what the options allow.
TEST_F(Groups, AJoinEndsAtItsDeadline) {
  for (const auto& options : {by_name(2)[0], by_name(2)[1], by_address(2)[1]}) {
    const auto began = Deadline::Clock::now();
    const auto outcome =
        Group::join(options, make_inline_engine().value(), Deadline::after(kShort));
    ASSERT_FALSE(outcome);
    EXPECT_EQ(outcome.error().code, Code::timed_out) << to_string(outcome.error());
    EXPECT_GE(Deadline::Clock::now() - began, kShort);
    EXPECT_LT(Deadline::Clock::now() - began, options.join_timeout / 2);
  }
}

// The socket of a group that was forming, a page without its name yet: rank 0 of any group.
TEST_F(Groups, WhatKilledRanksLeftIsSweptByTheNextOne) {
  const std::string groups = group_directory(by_name(1)[0]).value();
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  const auto page = [&](pid_t pid) { return fmt::format("{}/.rank-{}-x", groups, pid); };
  for (const std::string& path : {page(child), page(::getpid())}) std::ofstream(path) << "";
  const auto forming = listen_at(groups, "forming.sock");
  ASSERT_TRUE(listen_at(groups, "dead.sock"));  // nobody listens any more
  ASSERT_TRUE(join_all(by_name(1))[0]);
  EXPECT_TRUE(std::filesystem::exists(groups + "/forming.sock"));
  EXPECT_FALSE(std::filesystem::exists(groups + "/dead.sock"));
  EXPECT_TRUE(std::filesystem::exists(page(::getpid())));
  EXPECT_FALSE(std::filesystem::exists(page(child)));
}

}  // namespace
}  // namespace gantry
