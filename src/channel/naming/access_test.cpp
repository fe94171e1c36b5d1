#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <functional>

#include "channel/test_child.hpp"
#include "channel/test_support.hpp"

// Who may be at the other end: users, groups, tokens.
namespace gantry {
namespace {

using test::consumer_options;
using test::make_producer;
using test::options_in;
using test::pattern;
using test::soon;

class Accessing : public testing::Test {
 protected:
  Result<Consumer> join(const Access& access) {
    ConsumerOptions options = consumer_options(options_);
    options.access = access;
    return Consumer::open("frames", options, soon());
  }
  Code code_of(const Access& access) {
    const auto joined = join(access);
    return joined ? Code::closed : joined.error().code;
  }

  test::ScratchDirectory directory_;
  ProducerOptions options_ = options_in(directory_);
};

TEST_F(Accessing, OnlyTheSameTokenIsLetIn) {
  options_.access.token = "open sesame";
  const Producer out = *make_producer("frames", options_);
  EXPECT_EQ(code_of({}), Code::permission_denied);
  EXPECT_EQ(code_of({.token = "open sesam"}), Code::permission_denied);
  EXPECT_EQ(code_of({.token = "open sesame!"}), Code::permission_denied);
  EXPECT_EQ(code_of({.token = "open sesame"}), Code::closed) << "let in";
}

TEST_F(Accessing, AProducerWithoutATokenTakesNone) {
  const Producer out = *make_producer("frames", options_);
  EXPECT_EQ(code_of({.token = "x"}), Code::permission_denied);
}

TEST_F(Accessing, TokensAndModesThatCannotBeAreRefused) {
  ProducerOptions options = options_;
  options.access.token = std::string(65, 'x');
  EXPECT_EQ(make_producer("frames", options).error().code, Code::invalid_argument);
  EXPECT_EQ(Consumer::open("frames", consumer_options(options), soon()).error().code,
            Code::invalid_argument);
  options = options_;
  options.access.socket_mode = 010777;
  EXPECT_EQ(make_producer("frames", options).error().code, Code::invalid_argument);
}

TEST_F(Accessing, AFolderThatOthersCanReadIsRefused) {
  options_.access.users = {12345};
  ASSERT_EQ(::chmod(directory_.path().c_str(), 0755), 0);
  EXPECT_EQ(make_producer("frames", options_).error().code, Code::permission_denied);
  ASSERT_EQ(::chmod(directory_.path().c_str(), 0711), 0);
  EXPECT_TRUE(make_producer("frames", options_));
}

/// What a process of another user gets when it joins and receives: the exit status is a Code, or
/// 100 when it received.
class OtherUser : public Accessing {
 protected:
  static constexpr unsigned kOther = 54321, kOtherGroup = 54322;
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "only root can play another user";
    ASSERT_EQ(::chmod(directory_.path().c_str(), 0711), 0);
    options_.access.socket_mode = 0666;
  }
  int join_as_other(const std::function<void()>& meanwhile = [] {}) {
    test::Child child([this](const test::Child&) {
      ConsumerOptions options = consumer_options(options_);
      options.access.users = {0};
      const bool other = ::setgid(kOtherGroup) == 0 && ::setuid(kOther) == 0;
      auto in = Consumer::open("frames", options, soon());
      if (!other || !in) ::_exit(other ? static_cast<int>(in.error().code) : 101);
      const auto message = in->receive(soon());
      ::_exit(message ? 100 : static_cast<int>(message.error().code));
    });
    meanwhile();
    const int status = child.wait();
    EXPECT_TRUE(WIFEXITED(status));
    return WEXITSTATUS(status);
  }
};

TEST_F(OtherUser, IsRefusedUnlessListed) {
  options_.access.users = {1};
  const Producer out = *make_producer("frames", options_);
  EXPECT_EQ(join_as_other(), static_cast<int>(Code::permission_denied));
}

TEST_F(OtherUser, IsLetInByItsUser) {
  options_.access.users = {kOther};
  Producer out = *make_producer("frames", options_);
  EXPECT_EQ(join_as_other([&] { ASSERT_TRUE(out.send(pattern(100'000, 1), soon())); }), 100);
}

TEST_F(OtherUser, IsLetInByItsGroup) {
  options_.access.groups = {kOtherGroup};
  options_.access.socket_mode = 0660;
  Producer out = *make_producer("frames", options_);
  EXPECT_EQ(join_as_other([&] { ASSERT_TRUE(out.send(pattern(100'000, 1), soon())); }), 100);
}

// The file's mode keeps it out before anybody has to look at it.
TEST_F(OtherUser, IsKeptOutByTheSocketsMode) {
  options_.access.users = {kOther};
  options_.access.socket_mode = 0600;
  const Producer out = *make_producer("frames", options_);
  EXPECT_EQ(join_as_other(), static_cast<int>(Code::permission_denied));
}

}  // namespace
}  // namespace gantry
