#include <gmock/gmock.h>
#include <sys/stat.h>

#include <gantry/call.hpp>

#include "core/channel/test_child.hpp"
#include "core/channel/test_support.hpp"

// Who may come to an inbox or a server: the rules of any channel. Other users are played by root.
namespace gantry {
namespace {

using test::Child;
using test::client_options;
using test::consumer_options;
using test::options_in;
using test::pattern;
using test::same;
using test::server_options;
using test::soon;

/// A process of another user exits with the Code of what it is told, or kServed.
class OtherUsersCome : public testing::Test {
 protected:
  static constexpr unsigned kOther = 54321, kOtherGroup = 54322;
  static constexpr int kServed = 100;

  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "only root can play another user";
    ASSERT_EQ(::chmod(directory_.path().c_str(), 0711), 0);
    channel_.access.socket_mode = 0666;
  }
  Inbox open_inbox() { return *Inbox::open("in", {.channel = consumer_options(channel_)}); }
  Server open_server() {
    return *Server::open("service", server_options(channel_),
                         std::make_shared<test::PlainEngine>());
  }
  template <class Act>
  Child as_other(Act act) {
    return Child([this, act](const Child&) {
      ProducerOptions options = channel_;
      options.access.users = {0};
      if (::setgid(kOtherGroup) != 0 || ::setuid(kOther) != 0) ::_exit(101);
      ::_exit(act(options));
    });
  }
  static int send_one(const ProducerOptions& options) {
    auto out = Producer::connect("in", options, std::make_shared<test::PlainEngine>(), soon());
    if (!out) return static_cast<int>(out.error().code);
    const auto sent = out->send(pattern(100'000, 1), soon());
    const auto closed = out->close(soon());
    return sent && closed ? kServed : static_cast<int>(Code::system);
  }
  static int ask_once(const ProducerOptions& options) {
    auto client = Client::connect("service", client_options(options),
                                  std::make_shared<test::PlainEngine>(), soon());
    if (!client) return static_cast<int>(client.error().code);
    const auto reply = client->call(pattern(100'000, 1), {.deadline = soon()});
    return reply && same(reply->bytes(), pattern(100'000, 2)) ? kServed
                                                              : static_cast<int>(Code::system);
  }
  static int status_of(Child& child) {
    const int status = child.wait();
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  // The others wait for the names: none is forked beside threads of ours.
  void expect_refused() {
    Child sender = as_other(&send_one);
    Child asker = as_other(&ask_once);
    const Inbox inbox = open_inbox();
    const Server server = open_server();
    EXPECT_EQ(status_of(sender), static_cast<int>(Code::permission_denied));
    EXPECT_EQ(status_of(asker), static_cast<int>(Code::permission_denied));
  }
  void expect_served() {
    Child sender = as_other(&send_one);
    Child asker = as_other(&ask_once);
    Inbox inbox = open_inbox();
    const auto got = inbox.receive(soon());
    ASSERT_TRUE(got) << got.error().message;
    EXPECT_EQ(got->sender.uid, kOther);
    EXPECT_TRUE(same(got->message.bytes(), pattern(100'000, 1)));
    EXPECT_EQ(status_of(sender), kServed);
    Server server = open_server();
    auto request = server.next(soon());
    ASSERT_TRUE(request) << request.error().message;
    EXPECT_EQ(request->sender().uid, kOther);
    ASSERT_TRUE(request->reply(pattern(100'000, 2), {.deadline = soon()}));
    EXPECT_EQ(status_of(asker), kServed);
  }

  test::ScratchDirectory directory_;
  ProducerOptions channel_ = options_in(directory_);
};

TEST_F(OtherUsersCome, AndAreRefusedUnlessListed) {
  channel_.access.users = {1};
  expect_refused();
}

TEST_F(OtherUsersCome, AndAreLetInByTheirUser) {
  channel_.access.users = {kOther};
  expect_served();
}

TEST_F(OtherUsersCome, AndAreLetInByTheirGroup) {
  channel_.access.groups = {kOtherGroup};
  channel_.access.socket_mode = 0660;
  expect_served();
}

TEST_F(OtherUsersCome, AndAreKeptOutByTheSocketsMode) {
  channel_.access.users = {kOther};
  channel_.access.groups = {kOtherGroup + 1};
  channel_.access.socket_mode = 0660;
  expect_refused();
}

}  // namespace
}  // namespace gantry
