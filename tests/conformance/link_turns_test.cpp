#include <poll.h>

#include "link_suite.hpp"
#include "net/link/record.hpp"
#include "net/link/turn.hpp"

// Turns of a loop over a link, and what wakes it.
namespace gantry {
namespace {

using LinkTurns = LinkConformance;

ConstByteSpan bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

TEST_P(LinkTurns, WhatIsSaidWithinOneGoesOutAtItsEnd) {
  const auto here = some_bytes(3 * kMiB + 5, 1);
  std::vector<std::byte> there(here.size());
  const auto exported = *b_->export_memory(there, RemoteAccess::write);
  std::array<std::byte, 16> into{};
  Ticket ticket{};
  {
    const LinkTurn turn(*a_);
    ASSERT_TRUE(a_->send_control(bytes_of("first"), Deadline::now()));
    ticket = a_->put(Transfer::of(here, exported.remote(), 0, 9)).value();
    ASSERT_TRUE(a_->send_control(bytes_of("second"), Deadline::now()));
    while (b_->poll()) continue;
    EXPECT_EQ(b_->receive_control(into, Deadline::now()).error().code, Code::timed_out);
    EXPECT_EQ(b_->report().landed_bytes, 0u);
  }
  EXPECT_TRUE(finish(*a_, ticket));
  EXPECT_TRUE(are_equal(here, there));
  EXPECT_EQ(b_->receive_signal(Deadline::now()).value(), 9u);
  for (const std::string_view text : {"first", "second"}) {
    const auto size = b_->receive_control(into, Deadline::now()).value();
    EXPECT_TRUE(are_equal(std::span(into).first(size), bytes_of(text)));
  }
}

TEST_P(LinkTurns, WhatComesWithinOneIsTakenInByTheNext) {
  std::array<std::byte, 16> into{};
  const auto comes = [&] { return a_->receive_control(into, Deadline::now()).has_value(); };
  ASSERT_TRUE(b_->send_control(bytes_of("before"), Deadline::now()));
  {
    const LinkTurn turn(*a_);
    EXPECT_TRUE(turn.has_moved());
    ASSERT_TRUE(b_->send_control(bytes_of("within"), Deadline::now()));
    EXPECT_TRUE(comes());
    EXPECT_FALSE(comes());
  }
  {
    const LinkTurn turn(*a_);
    EXPECT_TRUE(turn.has_moved());
    EXPECT_TRUE(comes());
  }
  const LinkTurn turn(*a_);
  EXPECT_FALSE(turn.has_moved());
}

// Else a side's answer would cost a call of its own for each put.
TEST_P(LinkTurns, ThatAPutHasLandedIsToldWithTheAnswerToIt) {
  if (b_->capabilities().pulls) GTEST_SKIP() << "it lands whenever its engine is done";
  const auto here = some_bytes(1000, 2);
  std::vector<std::byte> there(here.size());
  const auto exported = *b_->export_memory(there, RemoteAccess::write);
  const auto ticket = a_->put(Transfer::of(here, exported.remote(), 0, 3)).value();
  std::array<std::byte, 16> into{};
  {
    const LinkTurn turn(*b_);
    ASSERT_EQ(b_->receive_signal(Deadline::now()).value(), 3u);
    EXPECT_TRUE(are_equal(here, there));
    while (a_->poll()) continue;
    EXPECT_EQ(a_->outcome(ticket), Outcome::pending);
    ASSERT_TRUE(b_->send_control(bytes_of("thanks"), Deadline::now()));
  }
  while (a_->poll()) continue;
  EXPECT_EQ(a_->outcome(ticket), Outcome::done);
  EXPECT_TRUE(a_->receive_control(into, Deadline::now()));
}

// A loop that slept now would sleep on: nothing more comes.
TEST_P(LinkTurns, ASignalThatComesUpAsOneEndsIsTold) {
  if (b_->capabilities().pulls) GTEST_SKIP() << "whoever gets sends it";
  auto there = some_bytes(1000, 4);
  std::vector<std::byte> here(there.size());
  const auto exported = *b_->export_memory(there, RemoteAccess::read);
  Transfer get = Transfer::of(here, exported.remote(), 0, 5);
  get.local = here.data();
  const auto ticket = a_->get(get).value();
  while (a_->poll()) continue;
  {
    LinkTurn turn(*b_);
    EXPECT_TRUE(turn.has_moved());
    EXPECT_EQ(b_->receive_signal(Deadline::now()).error().code, Code::timed_out);
    EXPECT_TRUE(turn.end());
    EXPECT_FALSE(turn.end());
  }
  const LinkTurn next(*b_);
  EXPECT_TRUE(next.has_moved());
  EXPECT_EQ(b_->receive_signal(Deadline::now()).value(), 5u);
  EXPECT_TRUE(finish(*a_, ticket));
  EXPECT_TRUE(are_equal(here, there));
}

TEST_P(LinkTurns, ALinkThatEndedWithinOneStaysEnded) {
  {
    const LinkTurn turn(*a_);
    ASSERT_TRUE(a_->send_control(bytes_of("lost"), Deadline::now()));
    a_->close();
  }
  EXPECT_EQ(a_->state().error().code, Code::closed);
  const LinkTurn turn(*a_);
  EXPECT_FALSE(turn.has_moved());
}

INSTANTIATE_TEST_SUITE_P(Links, LinkTurns, testing::ValuesIn(kLinks), name_of);

// ---- payload that comes in parts ------------------------------------------------------------

/// A stream link over TCP, whose peer writes records by hand.
class PartsOfAPut : public testing::Test {
 protected:
  void SetUp() override {
    SocketPair ends = tcp_pair();
    raw_ = std::move(ends[0]);
    link_ = make_stream_link(ends[1].release(), {"there", std::chrono::milliseconds(0)}).value();
    exported_ = link_->export_memory(there_, RemoteAccess::write).value();
    LinkRecord put{LinkRecord::Kind::put};
    put.is_last = true;
    put.ticket = 1;
    put.key = exported_.remote().key;
    put.rows = 1;
    put.row_bytes = put.stride = here_.size();
    say(put.encode());
  }
  void say(ConstByteSpan bytes) const {
    for (; !bytes.empty();) {
      const ssize_t sent = ::send(raw_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      ASSERT_GT(sent, 0);
      bytes = bytes.subspan(static_cast<Bytes>(sent));
    }
  }
  void say_part(Bytes from, Bytes to) const { say(std::span(here_).subspan(from, to - from)); }
  [[nodiscard]] bool wakes() const {
    pollfd entry{link_->descriptor(), POLLIN, 0};
    return ::poll(&entry, 1, 60'000) == 1;
  }
  [[nodiscard]] bool is_here(Bytes bytes) const {
    return are_equal(std::span(here_).first(bytes), std::span(there_).first(bytes));
  }
  [[nodiscard]] bool comes(Bytes bytes) const {
    for (const Deadline deadline = patience(); !is_here(bytes); link_->poll())
      if (deadline.passed()) return false;
    return true;
  }

  const std::vector<std::byte> here_ = some_bytes(kMiB, 3);
  std::vector<std::byte> there_ = std::vector<std::byte>(kMiB);
  Fd raw_;
  std::unique_ptr<Link> link_;
  Export exported_;
};

TEST_F(PartsOfAPut, APartTooSmallToWakeAnybodyIsReceivedByWhoLooks) {
  say_part(0, 1000);
  EXPECT_TRUE(comes(1000));
  say_part(1000, 1001);
  EXPECT_TRUE(comes(1001));
}

TEST_F(PartsOfAPut, WhatIsLeftAndWhatFollowsWakes) {
  say_part(0, 700'000);
  for (const Bytes end : {Bytes{700'000}, kMiB - 1, kMiB}) {
    if (end > 700'000) say_part(end == kMiB ? kMiB - 1 : 700'000, end);
    ASSERT_TRUE(wakes()) << end;
    EXPECT_TRUE(comes(end)) << end;
  }
  while (link_->poll()) continue;
  LinkRecord word{LinkRecord::Kind::control};
  word.rows = 1;
  word.row_bytes = 3;
  say(word.encode());
  ASSERT_TRUE(wakes());
  while (link_->poll()) continue;
  say(bytes_of("end"));
  ASSERT_TRUE(wakes());
  std::array<std::byte, 16> into{};
  EXPECT_EQ(link_->receive_control(into, patience()).value(), 3u);
}

TEST_F(PartsOfAPut, AConnectionThatEndsInTheMiddleWakes) {
  say_part(0, 1000);
  ASSERT_TRUE(comes(1000));
  raw_.reset();
  ASSERT_TRUE(wakes());
  while (link_->poll()) continue;
  EXPECT_EQ(link_->state().error().code, Code::peer_gone);
  EXPECT_TRUE(is_here(1000));
}

}  // namespace
}  // namespace gantry
