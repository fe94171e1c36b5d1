#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <functional>

#include "core/base/os/socket.hpp"
#include "core/channel/test_child.hpp"
#include "core/channel/test_support.hpp"

// Who may be at the other end: users, groups, tokens.
namespace gantry {
namespace {

using test::consumer_options;
using test::make_producer;
using test::options_in;
using test::pattern;
using test::soon;
using testing::HasSubstr;

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
  options_.access.socket_mode = 0666;
  ASSERT_EQ(::chmod(directory_.path().c_str(), 0755), 0);
  EXPECT_EQ(make_producer("frames", options_).error().code, Code::permission_denied);
  ASSERT_EQ(::chmod(directory_.path().c_str(), 0711), 0);
  EXPECT_TRUE(make_producer("frames", options_));
}

// The lists would be in vain, and whoever they name would read no more than "permission denied".
TEST_F(Accessing, AModeThatKeepsOutWhomTheListsNameIsRefused) {
  ASSERT_EQ(::chmod(directory_.path().c_str(), 0711), 0);
  const auto refused = [&](const Access& access) {
    options_.access = access;
    const auto out = make_producer("frames", options_);
    return out ? std::string() : to_string(out.error());
  };
  EXPECT_THAT(refused({.socket_mode = 0660, .users = {12345}}),
              HasSubstr("/frames.sock would have mode 0660"));
  for (const std::string& text : {refused({.users = {12345}}), refused({.groups = {12345}})}) {
    EXPECT_THAT(text, HasSubstr(directory_.path() + "/frames.sock would have mode 0600"));
    EXPECT_THAT(text, HasSubstr("set Access::socket_mode to 0666"));
    EXPECT_THAT(text, HasSubstr("chmod 711 " + directory_.path()));
  }
  EXPECT_EQ(refused({.socket_mode = 0666, .users = {12345}}), "");
  EXPECT_EQ(refused({.users = {0, ::geteuid()}}), "") << "they need no permission";
  options_.access = {.users = {12345}};
  const auto inbox = Inbox::open("box", {.channel = consumer_options(options_)});
  EXPECT_THAT(inbox ? "" : inbox.error().message, HasSubstr("/box.sock would have mode 0600"));
}

// As the folder is that Gantry makes by itself.
TEST_F(Accessing, AFolderThatKeepsOutWhomTheListsNameIsRefused) {
  const std::string missing = directory_.path() + "/made";
  for (const std::string& folder : {directory_.path(), missing}) {
    options_.directory = folder;
    for (const Access& access : {Access{.socket_mode = 0666, .users = {12345}},
                                 Access{.socket_mode = 0666, .groups = {12345}}}) {
      options_.access = access;
      const auto out = make_producer("frames", options_);
      const auto in = Inbox::open("frames", {.channel = consumer_options(options_)});
      const auto server = Server::open("frames", test::server_options(options_),
                                       std::make_shared<test::PlainEngine>());
      for (const Error& error : {out ? Error{} : out.error(), in ? Error{} : in.error(),
                                 server ? Error{} : server.error()}) {
        EXPECT_EQ(error.code, Code::invalid_argument);
        EXPECT_THAT(error.message,
                    HasSubstr("channel 'frames': " + folder + " has mode 0700, which lets none"));
        EXPECT_EQ(error.hint, "chmod 711 " + folder);
      }
    }
    options_.access = {.socket_mode = 0666, .users = {0, ::geteuid()}};
    EXPECT_TRUE(make_producer("frames", options_)) << "they need no permission";
    ASSERT_EQ(::chmod(folder.c_str(), 0710), 0);
    options_.access.users = {12345};
    EXPECT_TRUE(make_producer("frames", options_)) << "the folder's group may pass";
    ASSERT_EQ(::chmod(folder.c_str(), 0700), 0);
  }
}

// The folder of the recipe is no secret to its owner.
TEST_F(Accessing, ChannelsInAFolderToPassThroughAreListed) {
  ASSERT_EQ(::chmod(directory_.path().c_str(), 0711), 0);
  options_.access = {.socket_mode = 0666, .users = {12345}};
  const Producer out = *make_producer("frames", options_);
  const auto listed = list_channels(directory_.path());
  ASSERT_TRUE(listed) << to_string(listed.error());
  ASSERT_EQ(listed->size(), 1u);
  EXPECT_TRUE(listed->at(0).answered);
  ASSERT_EQ(::chmod(directory_.path().c_str(), 0755), 0);
  EXPECT_EQ(list_channels(directory_.path()).error().code, Code::permission_denied);
}

// They may lead root out of the folder of another user.
TEST_F(Accessing, LinksAreNotFollowedWhereChannelsAreListed) {
  const test::ScratchDirectory elsewhere;
  options_.directory = elsewhere.path();
  const Producer out = *make_producer("frames", options_);
  ASSERT_EQ(list_channels(elsewhere.path())->size(), 1u);
  std::filesystem::create_symlink(elsewhere.path(), directory_.path() + "/run-1");
  std::filesystem::create_symlink(elsewhere.path() + "/frames.sock",
                                  directory_.path() + "/link.sock");
  const auto listed = list_channels(directory_.path());
  ASSERT_TRUE(listed) << to_string(listed.error());
  for (const ChannelStatus& one : *listed) ADD_FAILURE() << one.name << " is listed";
}

/// What a process of another user gets when it joins and receives: the exit status is a Code, or
/// 100 when it received.
class OtherUser : public Accessing {
 protected:
  static constexpr unsigned kOther = 54321, kOtherGroup = 54322, kNobodysGroup = 54323;
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
  options_.access.groups = {kNobodysGroup};
  options_.access.socket_mode = 0660;
  const Producer out = *make_producer("frames", options_);
  EXPECT_EQ(join_as_other(), static_cast<int>(Code::permission_denied));
}

// It hears where, why, and what to do there.
TEST_F(OtherUser, IsToldTheRecipe) {
  options_.access.users = {kOther};
  options_.access.groups = {kNobodysGroup};
  options_.access.socket_mode = 0660;
  const Producer out = *make_producer("frames", options_);
  test::Child child([this](const test::Child&) {
    ConsumerOptions options = consumer_options(options_);
    options.access.users = {0};
    if (::setgid(kOtherGroup) != 0 || ::setuid(kOther) != 0) ::_exit(101);
    const auto in = Consumer::open("frames", options, soon());
    if (in) ::_exit(102);
    const std::string text = to_string(in.error());
    for (const char* part : {"/frames.sock: user 54321 may not connect", "user 0, mode 660",
                             "Access::users", "socket_mode to 0666", "chmod 711 "})
      if (text.find(part) == std::string::npos) {
        std::fprintf(stderr, "'%s' is not in: %s\n", part, text.c_str());
        ::_exit(103);
      }
  });
  EXPECT_EQ(WEXITSTATUS(child.wait()), 0);
}

// A folder that it can write to would not help.
TEST_F(OtherUser, CannotGiveASocketToAGroupOfOthers) {
  ASSERT_EQ(::chown(directory_.path().c_str(), kOther, kOtherGroup), 0);
  test::Child child([this](const test::Child&) {
    if (::setgid(kOtherGroup) != 0 || ::setuid(kOther) != 0) ::_exit(101);
    options_.access = {.socket_mode = 0660, .groups = {kNobodysGroup}};
    const auto out = make_producer("frames", options_);
    if (out) ::_exit(102);
    const std::string text = to_string(out.error());
    const bool says_who = text.find("/frames.sock: group 54323") != std::string::npos &&
                          text.find("only a member of that group, or root") != std::string::npos;
    if (says_who && text.find("GANTRY_DIR") == std::string::npos) ::_exit(0);
    std::fprintf(stderr, "%s\n", text.c_str());
    ::_exit(103);
  });
  EXPECT_EQ(WEXITSTATUS(child.wait()), 0);
}

// Root is admitted by every acceptor, so it may look; what it finds dead there it leaves alone.
TEST_F(OtherUser, HasItsChannelsListedByRoot) {
  ASSERT_EQ(::chmod(directory_.path().c_str(), 0700), 0);
  ASSERT_EQ(::chown(directory_.path().c_str(), kOther, kOtherGroup), 0);
  options_.access.socket_mode = 0600;
  test::Child child([this](const test::Child& self) {
    if (::setgid(kOtherGroup) != 0 || ::setuid(kOther) != 0) ::_exit(101);
    {
      const auto dead = listen_at(directory_.path(), "dead.sock");
    }
    const auto out = make_producer("frames", options_);
    if (out) self.report();
    test::Child::hold();
  });
  child.await_report();
  const auto listed = list_channels(directory_.path());
  ASSERT_TRUE(listed) << to_string(listed.error());
  ASSERT_EQ(listed->size(), 1u);
  EXPECT_TRUE(listed->at(0).answered) << listed->at(0).silence;
  EXPECT_EQ(listed->at(0).name, "frames");
  EXPECT_EQ(listed->at(0).producer_uid, kOther);
  EXPECT_TRUE(std::filesystem::exists(directory_.path() + "/dead.sock"));
}

}  // namespace
}  // namespace gantry
