#pragma once  // remote/session/test_hostile_sender.hpp: a receiving side whose sending side a test
              // speaks.

#include <functional>

#include "net/remote/session/receiving_side.hpp"
#include "net/remote/session/test_hostile.hpp"

namespace gantry::test {

inline constexpr Bytes kBudget = 4 * kMiB;

class HostileSender : public ::testing::Test {
 protected:
  void SetUp() override { open(); }

  void open(unsigned slots = 8, Bytes budget = kBudget) {
    side_.reset();
    in_.reset();
    ProducerOptions options = options_in(scratch_);
    options.pool.budget_bytes = budget;
    options.slots = slots;
    auto out = make_producer("frames", options).value();
    in_ = Consumer::open("frames", consumer_options(options), soon()).value();
    side_.emplace(std::make_unique<ReceivingSide>(std::move(out)));
  }

  [[nodiscard]] Export shared(ConstByteSpan bytes, RemoteAccess access = RemoteAccess::read) {
    return side_->peer()
        .export_memory({const_cast<std::byte*>(bytes.data()), bytes.size()}, access)  // NOLINT
        .value();
  }
  void expect_next(ConstByteSpan bytes) {
    const auto message = in_->receive(soon());
    ASSERT_TRUE(message) << to_string(message.error());
    EXPECT_TRUE(same(message->bytes(), bytes));
  }
  /// As expect_next(), of a message of several parts; what the side fetches meanwhile is served.
  void serve_next(std::initializer_list<ConstByteSpan> parts) {
    auto message = in_->receive(Deadline::now());
    for (const Deadline deadline = soon(); !message && !deadline.passed();) {
      side_->peer().poll();
      message = in_->receive(Deadline::now());
    }
    ASSERT_TRUE(message) << to_string(message.error());
    ASSERT_EQ(message->segments(), parts.size());
    for (std::size_t i = 0; i < parts.size(); ++i)
      EXPECT_TRUE(same(message->segment(i).bytes, parts.begin()[i]));
  }
  /// The session ends so, in these words, and the consumer gets at most `before`, the first
  /// messages, unharmed.
  void expect_ends_by(Code code, std::string_view words,
                      const std::vector<std::vector<std::byte>>& before = {}) {
    const RemoteEnd end = side_->end();
    EXPECT_EQ(end.kind, RemoteEnd::Kind::over);
    EXPECT_EQ(end.why.code, code) << to_string(end.why);
    EXPECT_NE(end.why.message.find(words), std::string::npos) << to_string(end.why);
    side_->drop();
    std::size_t got = 0;
    Result<Message> message;
    while ((message = in_->receive(soon()))) {
      ASSERT_LT(got, before.size());
      EXPECT_TRUE(same(message->bytes(), before[got++]));
    }
    EXPECT_EQ(message.error().code, Code::peer_gone) << to_string(message.error());
  }
  /// A fresh session, which ends in these words by what is said after one honest message.
  void expect_refused(std::string_view words, const std::function<void()>& say) {
    open();
    const auto first = pattern(100, 7);
    side_->say(head_of(1, 100), first);
    say();
    expect_ends_by(Code::peer_misbehaved, words, {first});
  }

  const ScratchDirectory scratch_;
  std::optional<Consumer> in_;
  std::optional<SideAtWork> side_;
};

}  // namespace gantry::test
