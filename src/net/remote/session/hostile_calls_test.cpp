#include <functional>
#include <random>

#include "core/base/test_effort.hpp"
#include "net/remote/session/calls.hpp"
#include "net/remote/session/test_hostile.hpp"

// The other end of a session of calls speaks by hand. Whatever it says, its session ends with one
// clear error at most; no request is handed out twice, and no call has two answers.
namespace gantry {
namespace {

using test::head_of;
using test::pattern;
using test::Record;
using test::record_of;
using test::same;
using test::SideAtWork;
using test::soon;

constexpr Bytes kLittle = Bytes{4} << 20;

class HostileCalls : public ::testing::Test {
 protected:
  static std::shared_ptr<Engine> engine() { return std::make_shared<test::PlainEngine>(); }
  [[nodiscard]] Server serve() const {
    return Server::open("service", test::server_options(test::options_in(scratch_)), engine())
        .value();
  }
  static Pool pool() {
    PoolOptions options;
    options.budget_bytes = kLittle;
    return Pool::create(options).value();
  }
  [[nodiscard]] Client client(const Pool& memory) const {
    ClientOptions options = test::client_options(test::options_in(scratch_));
    options.memory = memory;
    return Client::connect("service", options, engine(), soon()).value();
  }
  static RemoteHead head(std::uint64_t number, CallKind kind, std::uint64_t call, Bytes bytes) {
    RemoteHead made = head_of(number, bytes);
    made.info = info_of_call(kind, call);
    return made;
  }
  /// The next message that the side announces, of one piece.
  RemoteHead hear_head(std::vector<std::byte>* payload = nullptr) {
    Record record;
    do record = side_->hear();
    while (!record.empty() && record[0] != static_cast<std::byte>(RemoteKind::message));
    if (record.empty()) return ADD_FAILURE() << "it says no more", RemoteHead{};
    HeadAssembler assembler;
    EXPECT_TRUE(assembler.take(true, ConstByteSpan(record).subspan(1)).value());
    ConstByteSpan rest;
    auto head = RemoteHead::decode(assembler.words(), rest);
    EXPECT_TRUE(head);
    if (payload != nullptr) payload->assign(rest.begin(), rest.end());
    return head.value_or(RemoteHead{});
  }
  void expect_ends_by(Code code, std::string_view words) {
    const RemoteEnd end = side_->end();
    EXPECT_EQ(end.kind, RemoteEnd::Kind::over);
    EXPECT_EQ(end.why.code, code) << to_string(end.why);
    EXPECT_NE(end.why.message.find(words), std::string::npos) << to_string(end.why);
    side_->drop();
  }

  const test::ScratchDirectory scratch_;
  std::optional<SideAtWork> side_;
};

// ---- a caller ------------------------------------------------------------------------------

class HostileCaller : public HostileCalls {
 protected:
  void SetUp() override { open(); }
  void open() {
    side_.reset();
    server_.reset();
    server_.emplace(serve());
    const Pool memory = pool();
    side_.emplace(std::make_unique<CallsSide>(std::make_shared<CallsMade>(client(memory), memory)));
  }
  /// A fresh session, which ends by what is said after an honest request.
  void expect_refused(std::string_view words, const std::function<void()>& say) {
    open();
    side_->say(head(1, CallKind::request, 1, 100), pattern(100, 7));
    say();
    expect_ends_by(Code::peer_misbehaved, words);
    std::size_t handed_out = 0;
    while (auto request = server_->next(Deadline::now())) {
      EXPECT_TRUE(same(request->message().bytes(), pattern(100, 7)));
      ++handed_out;
    }
    EXPECT_LE(handed_out, 1u);
  }

  std::optional<Server> server_;
};

TEST_F(HostileCaller, WhatItMaySayIsDone) {
  side_->say(head(1, CallKind::request, 1, 3000), pattern(3000, 1));
  auto request = server_->next(soon()).value();
  EXPECT_TRUE(same(request.message().bytes(), pattern(3000, 1)));
  ASSERT_TRUE(request.reply(pattern(2000, 2), {soon(), 5}));
  std::vector<std::byte> payload;
  RemoteHead answer = hear_head(&payload);
  EXPECT_EQ(answer.info.user, static_cast<std::uint64_t>(CallKind::reply));
  EXPECT_EQ(answer.info.correlation, 1u);
  EXPECT_EQ(answer.info.type, 5u);
  EXPECT_TRUE(same(payload, pattern(2000, 2)));
  side_->say(say_number(RemoteKind::received, 1));
  side_->say(head(2, CallKind::cancel, 1, 0));  // it crossed the answer
  side_->say(head(3, CallKind::request, 2, 0));
  ASSERT_TRUE(server_->next(soon())->refuse({Code::not_found, "no", "hint"}));
  answer = hear_head(&payload);
  EXPECT_EQ(answer.info.user, static_cast<std::uint64_t>(CallKind::refusal));
  EXPECT_EQ(answer.info.correlation, 2u);
  EXPECT_EQ(decode_refusal(payload).value().message, "no; hint");
}

TEST_F(HostileCaller, WhatNoCallerSaysIsRefused) {
  const auto say = [&](const char* words, const RemoteHead& said, Bytes bytes = 0) {
    expect_refused(words, [&] { side_->say(said, pattern(bytes, 9)); });
  };
  say("it asks 1 after 1", head(2, CallKind::request, 1, 10), 10);  // a second time
  say("it asks 0 after 1", head(2, CallKind::request, 0, 10), 10);
  say("it cancels what it has not asked", head(2, CallKind::cancel, 2, 0));  // not asked yet
  say("it says what no caller says", head(2, CallKind::cancel, 1, 5), 5);
  say("it says what no caller says", head(2, CallKind::reply, 1, 10), 10);
  say("it says what no caller says", head(2, CallKind::refusal, 1, 10), 10);
  say("it says what no caller says", head(2, CallKind{}, 2, 10), 10);
  say("it says what no caller says", head(2, static_cast<CallKind>(200), 2, 10), 10);
  say("it announces message 3 behind 1", head(3, CallKind::request, 2, 10), 10);  // a gap
  for (const unsigned kind : {0u, 4u, 5u, 7u, 8u, 9u, 127u, 255u})
    expect_refused(kind == static_cast<unsigned>(RemoteKind::place)
                       ? "it offers a place that cannot be"
                       : "it says what nobody says in a session of calls",
                   [&] { side_->say(record_of(kind)); });
  expect_refused("it has received message 5, of 0 to 0",
                 [&] { side_->say(say_number(RemoteKind::received, 5)); });
  expect_refused("it says what nobody says in a session of calls",
                 [&] { side_->say(say_number(RemoteKind::finished, 0)); });
  for (const RemoteKind kind : {RemoteKind::ended, RemoteKind::stopped})
    expect_refused("it says what nobody says in a session of calls",
                   [&] { side_->say(say_error(kind, {Code::closed, "all of it", {}})); });
}

TEST_F(HostileCaller, ARequestThatIsTooLargeEndsThatCallAlone) {
  const RemoteRegion large{1, Bytes{1} << 62, RemoteAccess::read};
  RemoteHead said = head_of(1, {large});
  said.info = info_of_call(CallKind::request, 1);
  side_->say(said);
  side_->say(head(2, CallKind::request, 2, 100), pattern(100, 7));
  auto request = server_->next(soon()).value();
  EXPECT_TRUE(same(request.message().bytes(), pattern(100, 7)));
  std::vector<std::byte> payload;
  EXPECT_EQ(hear_head(&payload).info.correlation, 1u);
  const Error why = decode_refusal(payload).value();
  EXPECT_TRUE(why.code == Code::too_large || why.code == Code::out_of_memory) << to_string(why);
  ASSERT_TRUE(request.reply(pattern(50, 8), {soon()}));
  EXPECT_EQ(hear_head(&payload).info.correlation, 2u);
  EXPECT_TRUE(same(payload, pattern(50, 8)));
}

// Each is told why; of one that does not listen only so many wait here.
TEST_F(HostileCaller, ThatTakesNoAnswersIsHeldUp) {
  const RemoteRegion large{1, Bytes{1} << 62, RemoteAccess::read};
  const std::uint64_t most = SendingSide::kMostUnacknowledged;
  const auto say = [&](std::uint64_t number) {
    RemoteHead said = head_of(number, {large});
    said.info = info_of_call(CallKind::request, number);
    return side_->say(said);
  };
  std::uint64_t received = 0;
  const auto note_received = [&] {
    const Record record = side_->hear(Deadline::now());
    WordReader in(record);
    if (in.number(1) == static_cast<std::uint64_t>(RemoteKind::received)) received = in.number();
    return !record.empty();
  };
  for (std::uint64_t i = 1; i <= 2 * most; ++i) {
    ASSERT_TRUE(say(i));
    for (const Deadline limit = soon(); received < i && !limit.passed();) note_received();
    ASSERT_EQ(received, i);
  }
  ASSERT_TRUE(say(2 * most + 1));  // as many are unacknowledged, as many wait
  for (const Deadline some = Deadline::after(std::chrono::milliseconds(50)); !some.passed();)
    note_received();
  EXPECT_EQ(received, 2 * most);
}

TEST_F(HostileCaller, WhyItStopsIsWhyTheSessionEnds) {
  side_->say(say_error(RemoteKind::stopped, {Code::too_large, "no room", {}}));
  expect_ends_by(Code::too_large, "no room");
}

// ---- a bridge ------------------------------------------------------------------------------

class HostileBridge : public HostileCalls {
 protected:
  void SetUp() override { open(); }
  void open() {
    client_.reset();
    side_.reset();
    const Pool memory = pool();
    ServerOptions options = test::server_options(test::options_in(scratch_));
    options.replies.memory = memory;
    auto server = Server::open("service", options, engine()).value();
    side_.emplace(
        std::make_unique<CallsSide>(std::make_shared<CallsTaken>(std::move(server), memory)));
    client_.emplace(client(pool()));
  }
  void TearDown() override { client_.reset(); }
  PendingReply ask(Bytes size, std::uint64_t seed) {
    return client_->call_async(pattern(size, seed), {.deadline = soon()}).value();
  }
  void expect_answer(PendingReply& pending, ConstByteSpan payload) {
    const auto reply = pending.wait(soon());
    ASSERT_TRUE(reply) << to_string(reply.error());
    EXPECT_TRUE(same(reply->bytes(), payload));
  }
  /// A fresh session, of which one call is open, ends by what is said.
  void expect_refused(std::string_view words, const std::function<void()>& say) {
    open();
    auto pending = ask(100, 1);
    EXPECT_EQ(hear_head().number, 1u);
    say();
    expect_ends_by(Code::peer_misbehaved, words);
    const auto reply = pending.wait(soon());
    ASSERT_FALSE(reply);
    EXPECT_EQ(reply.error().code, Code::peer_gone);
  }

  std::optional<Client> client_;
};

TEST_F(HostileBridge, WhatItMaySayIsDone) {
  auto first = ask(100, 1), second = ask(200, 2);
  std::vector<std::byte> payload;
  EXPECT_EQ(hear_head(&payload).info.correlation, 1u);
  EXPECT_TRUE(same(payload, pattern(100, 1)));
  const RemoteHead asked = hear_head(&payload);
  EXPECT_EQ(asked.info.correlation, 2u);
  EXPECT_EQ(asked.info.user, static_cast<std::uint64_t>(CallKind::request));
  EXPECT_GT(asked.time_left_ns, 0u);
  EXPECT_TRUE(same(payload, pattern(200, 2)));
  side_->say(say_number(RemoteKind::received, 2));
  side_->say(head(1, CallKind::reply, 2, 300), pattern(300, 3));
  const auto why = encode_refusal({Code::not_found, "no", "hint"});
  side_->say(head(2, CallKind::refusal, 1, why.size()), why);
  expect_answer(second, pattern(300, 3));
  const auto refused = first.wait(soon());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::not_found);
  EXPECT_EQ(refused.error().message, "no; hint");
}

TEST_F(HostileBridge, ACallHasTheFirstAnswerAlone) {
  auto first = ask(100, 1), second = ask(200, 2);
  EXPECT_EQ(hear_head().number, 1u);
  EXPECT_EQ(hear_head().number, 2u);
  side_->say(head(1, CallKind::reply, 1, 300), pattern(300, 3));
  side_->say(head(2, CallKind::reply, 1, 400), pattern(400, 4));
  side_->say(head(3, CallKind::reply, 2, 500), pattern(500, 5));
  expect_answer(second, pattern(500, 5));
  expect_answer(first, pattern(300, 3));
}

// Its memory is none that was exported: who fetches it is cut off.
TEST_F(HostileBridge, AnAnswerThatNobodyWaitsForIsNotFetched) {
  auto dropped = std::optional(ask(100, 1));
  EXPECT_EQ(hear_head().number, 1u);
  dropped.reset();
  const RemoteHead cancelled = hear_head();
  EXPECT_EQ(cancelled.info.user, static_cast<std::uint64_t>(CallKind::cancel));
  EXPECT_EQ(cancelled.info.correlation, 1u);
  const RemoteRegion nowhere{99, 70'000, RemoteAccess::read};
  RemoteHead late = head_of(1, {nowhere, nowhere});
  late.info = info_of_call(CallKind::reply, 1);
  side_->say(late);
  auto pending = ask(200, 2);
  EXPECT_EQ(hear_head().info.correlation, 2u);
  side_->say(head(2, CallKind::reply, 2, 300), pattern(300, 3));
  expect_answer(pending, pattern(300, 3));
}

TEST_F(HostileBridge, AnAnswerThatIsTooLargeEndsThatCallAlone) {
  auto first = ask(100, 1), second = ask(200, 2);
  EXPECT_EQ(hear_head().number, 1u);
  EXPECT_EQ(hear_head().number, 2u);
  RemoteHead large = head_of(1, {RemoteRegion{1, Bytes{1} << 62, RemoteAccess::read}});
  large.info = info_of_call(CallKind::reply, 1);
  side_->say(large);
  side_->say(head(2, CallKind::reply, 2, 300), pattern(300, 3));
  expect_answer(second, pattern(300, 3));
  const auto reply = first.wait(soon());
  ASSERT_FALSE(reply);
  EXPECT_TRUE(reply.error().code == Code::too_large || reply.error().code == Code::out_of_memory)
      << to_string(reply.error());
}

TEST_F(HostileBridge, WhatNoBridgeSaysIsRefused) {
  const auto say = [&](const char* words, const RemoteHead& said, ConstByteSpan payload) {
    expect_refused(words, [&] { side_->say(said, payload); });
  };
  const auto ten = pattern(10, 9);
  say("it answers what nobody asked", head(1, CallKind::reply, 2, 10), ten);  // nobody asked that
  say("it answers what nobody asked", head(1, CallKind::reply, 0, 10), ten);
  say("it answers what nobody asked", head(1, CallKind::request, 1, 10), ten);
  say("it answers what nobody asked", head(1, CallKind::cancel, 1, 0), {});
  say("it answers what nobody asked", head(1, static_cast<CallKind>(77), 1, 10), ten);
  say("it refuses a call without saying why", head(1, CallKind::refusal, 1, 0), {});
  say("it refuses a call without saying why", head(1, CallKind::refusal, 1, 10), ten);
  auto why = encode_refusal({Code::not_found, "no", "hint"});
  why[0] = std::byte{200};
  say("it refuses a call without saying why", head(1, CallKind::refusal, 1, why.size()), why);
  for (const unsigned kind : {0u, 5u, 7u, 9u, 255u})
    expect_refused("it says what nobody says in a session of calls",
                   [&] { side_->say(record_of(kind)); });
  expect_refused("it has received message 2, of 0 to 1",
                 [&] { side_->say(say_number(RemoteKind::received, 2)); });
  for (const RemoteKind kind : {RemoteKind::ended, RemoteKind::stopped})
    expect_refused("it says what nobody says in a session of calls",
                   [&] { side_->say(say_error(kind, {Code::closed, "all of it", {}})); });
}

TEST_F(HostileBridge, RandomRecordsEndTheSession) {
  std::mt19937_64 random(test_seed(4));
  for (int round = 0; round < 40; ++round) {
    open();
    auto pending = ask(100, 1);
    for (int i = 0; i < 100; ++i) {
      auto record = cut_for_link(head(1, CallKind::reply, 1, 0).encode())[0];
      if (random() % 4 != 0) record = pattern(1 + random() % 20, random());
      record[random() % record.size()] = static_cast<std::byte>(random() % 9);
      if (!side_->say(record)) break;
    }
    side_->say(record_of(255));
    EXPECT_EQ(side_->end().kind, RemoteEnd::Kind::over) << round;
    side_->drop();
    const auto reply = pending.wait(soon());
    if (reply)
      EXPECT_EQ(reply->bytes().size(), 0u);
    else
      EXPECT_FALSE(reply.error().message.empty());
  }
}

}  // namespace
}  // namespace gantry
